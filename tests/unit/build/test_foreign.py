"""Saved images of other engines: which task they are, in every form that docker and OCI tools write."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import InputError, IntegrityError
from packager.build.assemble import assemble_image
from packager.build.execute import Stage
from packager.build.foreign import Recognised, recognise_archive
from packager.oci.entries import Entry, Kind, dir_entry, file_entry
from packager.oci.layer import write_layer
from packager.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

TASK = b'{"task":"made-001"}'
ENV = {"PATH": "/bin", "A": "b"}


def raw_layer(files: dict[str, bytes], *, time: int = 1_700_000_000) -> bytes:
    """Return a layer's tar as an engine writes it: names in any order, times, `./`, owners by name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name.rstrip("/"))
            member.mtime, member.uname = time, "root"
            if name.endswith("/"):
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


BASE = raw_layer({"usr/": b"", "etc/": b"", "tmp/": b"", "usr/x": b"x", "etc/hosts": b"machine"})
PLACED = raw_layer({"opt/": b"", "opt/wideswe/": b"", "opt/wideswe/task.json": TASK, "etc/hosts": b""})
RAN = raw_layer({"usr/": b"", "usr/.wh.x": b"", "tmp/": b"", "tmp/junk": b"j", "usr/y": b"y"})
EMPTY = raw_layer({"tmp/": b"", "tmp/junk": b"k"})
LAYERS = (BASE, PLACED, RAN, EMPTY)
HISTORY = (
    {"created_by": "COPY / / # buildkit"},
    {"created_by": "ENV A=b", "empty_layer": True},
    {"created_by": "/bin/sh -c #(nop) ADD file:1 in / "},
    {"created_by": "|1 A=b /bin/sh -c rm usr/x # ADD nothing"},
    {"created_by": "WORKDIR /workspace"},
)


def config_of(layers: tuple[bytes, ...], **more: Any) -> bytes:
    fields = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-01-02T03:04:05Z",
        "docker_version": "20.10",
        "config": {
            "Env": [f"{name}={value}" for name, value in ENV.items()],
            "WorkingDir": "/workspace",
            "Cmd": ["/bin/sh"],
            "Labels": {"io.buildah.version": "1.28"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]},
        "history": list(HISTORY),
        **more,
    }
    return json.dumps(fields).encode()


def write_tar(path: Path, files: dict[str, bytes | str]) -> Path:
    """Write a tar: bytes are files, texts symbolic links."""
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(data, str):
                member.type, member.linkname = tarfile.SYMTYPE, data
                archive.addfile(member)
            else:
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path


def docker_archive(path: Path, layers: tuple[bytes, ...] = LAYERS, **more: Any) -> Path:
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": ["x:y"], "Layers": names}]
    files: dict[str, bytes | str] = dict(zip(names, layers, strict=True))
    files |= {
        "config.json": config_of(layers, **more),
        "manifest.json": json.dumps(manifest).encode(),
        "repositories": b"{}",
    }
    return write_tar(path, files)


def oci_archive(path: Path, layers: tuple[bytes, ...] = LAYERS) -> Path:
    files: dict[str, bytes | str] = {}

    def blob(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    rows = [blob(gzip.compress(one), "layer.v1.tar+gzip") for one in layers]
    manifest = {"schemaVersion": 2, "config": blob(config_of(layers), "config.v1+json"), "layers": rows}
    manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
    index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), "manifest.v1+json")]}
    files |= {"index.json": json.dumps(index).encode(), "oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    return write_tar(path, files)


def recognise(path: Path) -> Recognised:
    return recognise_archive(path, lambda *_: None)


def ours(tmp_path: Path) -> str:
    """Return the content id that our own build of the same steps gives."""
    store = Store(tmp_path / "store")
    steps: list[list[Entry]] = [
        [dir_entry(b"usr"), dir_entry(b"etc"), dir_entry(b"tmp"), file_entry(b"usr/x", b"x")],
        [file_entry(b"opt/wideswe/task.json", TASK), file_entry(b"etc/hosts", b"")],
        [dir_entry(b"usr"), Entry(b"usr/x", Kind.WHITEOUT), file_entry(b"usr/y", b"y")],
    ]
    layers = tuple(write_layer(entries, store) for entries in steps)
    stage = Stage(layers, tuple(sorted(ENV.items())), workdir="/workspace", command=("/bin/sh",))
    return assemble_image(stage, store, task="made-001", platform="linux/amd64").content_id


def test_every_form_of_a_saved_image_has_the_content_id_of_our_own_build(tmp_path: Path) -> None:
    expected = ours(tmp_path)
    found = recognise(docker_archive(tmp_path / "docker.tar"))
    assert (found.task, found.content_id, len(found.diff_ids)) == ("made-001", expected, 3)
    assert recognise(oci_archive(tmp_path / "oci.tar")) == found


def test_layers_that_docker_saves_once_are_found_through_links(tmp_path: Path) -> None:
    layers = (BASE, PLACED, RAN, EMPTY)
    files: dict[str, bytes | str] = {f"{n}/layer.tar": one for n, one in enumerate(layers[:3])}
    files |= {"3/layer.tar": "../x/layer.tar", "x/layer.tar": EMPTY, "c": config_of(layers)}
    names = [f"{n}/layer.tar" for n in range(4)]
    files["manifest.json"] = json.dumps([{"Config": "c", "Layers": names}]).encode()
    assert recognise(write_tar(tmp_path / "a.tar", files)).content_id == ours(tmp_path)


def complaint(path: Path) -> str:
    with pytest.raises((InputError, IntegrityError)) as caught:
        recognise(path)
    return str(caught.value)


def test_what_cannot_be_recognised_says_why(tmp_path: Path) -> None:
    packed = tmp_path / "a.tar.gz"
    packed.write_bytes(gzip.compress(docker_archive(tmp_path / "a.tar").read_bytes()))
    assert complaint(packed) == "a.tar.gz: expected a plain tar, found gzip\nhint: gunzip it first"
    assert complaint(write_tar(tmp_path / "b.tar", {"x": b""})) == (
        "b.tar: expected a saved image, found no index.json\n"
        "hint: `docker save`, or an OCI archive (podman save --format oci-archive, buildah push oci-archive:FILE)"
    )
    squashed = docker_archive(tmp_path / "c.tar", history=[{"created_by": "everything"}])
    assert complaint(squashed) == (
        "c.tar: expected a layer for each of 1 entries of the history, found 4\n"
        "hint: build without --squash; buildah bud needs --layers"
    )
    two = write_tar(tmp_path / "d.tar", {"manifest.json": b"[{},{}]"})
    assert complaint(two) == "d.tar: expected one image, found 2\nhint: save one image"
    other = docker_archive(tmp_path / "e.tar", (BASE, RAN), history=[HISTORY[0], HISTORY[3]])
    assert complaint(other) == "e.tar: expected the image of a task, found no /opt/wideswe/task.json"


def test_a_layer_that_is_not_what_the_config_says_is_refused(tmp_path: Path) -> None:
    rootfs = json.loads(config_of((BASE, PLACED, RAN, RAN)))["rootfs"]
    digests = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in (RAN, EMPTY)]
    assert complaint(docker_archive(tmp_path / "a.tar", rootfs=rootfs)) == (
        f"a.tar: expected the layer {digests[0]}, found {digests[1]}"
    )
