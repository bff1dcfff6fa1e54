"""OCI image layouts, as a directory or one tar, that `docker load` reads too (image-spec, image-layout.md).

Beside `oci-layout`, `index.json` and `blobs/` there is Docker's `manifest.json`, which points at the same blobs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Protocol

from packager.base.canonical import LIMIT_BYTES, format_canonical
from packager.base.digests import BLOCK_BYTES, Digest, hex_of, parse_digest
from packager.base.errors import InputError
from packager.base.files import write_atomic
from packager.oci.entries import Entry, Kind, file_entry, show_path
from packager.oci.manifest import INDEX_TYPES, Index, Manifest, format_index, parse_index, parse_manifest
from packager.oci.tar_reader import read_tar
from packager.oci.tar_writer import write_tar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.oci.descriptor import Descriptor
    from packager.oci.layer import BlobWriter

REF_NAME = "org.opencontainers.image.ref.name"
CONTAINERD_NAME = "io.containerd.image.name"
LAYOUT_FILE = b"oci-layout"
INDEX_FILE = b"index.json"
DOCKER_FILE = b"manifest.json"
LAYOUT_BYTES = b'{"imageLayoutVersion":"1.0.0"}'

_BLOBS = b"blobs/sha256/"


class LayoutSource(Protocol):
    """Where the blobs of a layout come from (the store)."""

    def read(self, digest: Digest, limit: int) -> bytes:
        """Return a small blob, verified."""

    def path(self, digest: Digest) -> Path:
        """Return the file of a blob."""

    def open(self, digest: Digest, /) -> IO[bytes]:
        """Open a blob that is verified while it is read."""


class LayoutSink(Protocol):
    """Where the blobs of a layout go (the store)."""

    def writer(self, expected: Digest | None = None, size: int | None = None) -> AbstractContextManager[BlobWriter]:
        """Open a writer that refuses other bytes than the expected ones."""


@dataclass(frozen=True)
class NamedImage:
    """A manifest and the name that it has in the layout (empty: none), for example `localhost/suite/task:v1`."""

    name: str
    manifest: Descriptor


def write_layout(images: Sequence[NamedImage], store: LayoutSource, target: Path) -> None:
    """Write an OCI layout directory; every blob is verified while it is copied."""
    contents = _contents(images, store)
    for digest in contents.blobs:
        _copy_blob(store, digest, target / "blobs" / "sha256" / hex_of(digest))
    for name, data in contents.files.items():
        write_atomic(target / os.fsdecode(name), data)


def write_archive(images: Sequence[NamedImage], store: LayoutSource, sink: Callable[[bytes], object]) -> None:
    """Write the same layout as one canonical tar."""
    contents = _contents(images, store)
    entries = [file_entry(name, data) for name, data in contents.files.items()]
    for digest in contents.blobs:
        _verify(store, digest)
        path = store.path(digest)
        name = _BLOBS + hex_of(digest).encode()
        entries.append(Entry(name, Kind.FILE, 0o644, size=path.stat().st_size, content=path))
    write_tar(entries, sink)


def read_layout(source: Path, store: LayoutSink) -> list[NamedImage]:
    """Copy all blobs of a layout directory into the store, verified; return the images that its index names."""
    folder = source / "blobs" / "sha256"
    for path in sorted(folder.iterdir()):
        with _open_plain(path) as stream:
            _take_blob(path.name, stream.read, store)
    with _open_plain(source / "index.json") as stream:
        return _named(stream.read(LIMIT_BYTES + 1))


def read_archive(stream: IO[bytes], store: LayoutSink) -> list[NamedImage]:
    """Copy all blobs of a layout tar into the store, verified; return the images that its index names."""
    index: bytes | None = None
    for entry, reader in read_tar(stream):
        if entry.kind is Kind.DIR:
            continue
        if entry.kind is not Kind.FILE:
            raise InputError("expected files and directories only", where=show_path(entry.path))
        if entry.path.startswith(_BLOBS):
            _take_blob(os.fsdecode(entry.path[len(_BLOBS) :]), reader.read, store)
        elif entry.path == INDEX_FILE:
            index = reader.read(LIMIT_BYTES + 1)
    if index is None:
        raise InputError("expected an OCI layout, found no index.json", where="archive")
    return _named(index)


@dataclass(frozen=True)
class _Contents:
    files: dict[bytes, bytes]
    blobs: list[Digest]


def _contents(images: Sequence[NamedImage], store: LayoutSource) -> _Contents:
    blobs: dict[Digest, None] = {}
    docker: list[dict[str, object]] = []
    for image in images:
        manifests = [manifest for _, manifest in _walk(image.manifest, store, blobs)]
        if len(manifests) == 1 and manifests[0].artifact_type is None:
            docker.append(_docker_entry(image.name, manifests[0]))
    index = Index(tuple(_annotate(image) for image in images))
    files = {
        LAYOUT_FILE: LAYOUT_BYTES,
        INDEX_FILE: format_index(index),
        DOCKER_FILE: format_canonical(docker),
    }
    return _Contents(files, sorted(blobs))


def _walk(top: Descriptor, store: LayoutSource, blobs: dict[Digest, None]) -> Iterator[tuple[Descriptor, Manifest]]:
    """Yield the manifests below a descriptor and note every blob on the way."""
    blobs[top.digest] = None
    data = store.read(top.digest, LIMIT_BYTES)
    if top.media_type in INDEX_TYPES:
        for child in parse_index(data, where=top.digest).manifests:
            yield from _walk(child, store, blobs)
        return
    manifest = parse_manifest(data, where=top.digest)
    blobs.update((blob.digest, None) for blob in (manifest.config, *manifest.layers))
    yield top, manifest


def _annotate(image: NamedImage) -> Descriptor:
    if not image.name:
        return image.manifest
    names = {REF_NAME: image.name.rpartition(":")[2], CONTAINERD_NAME: image.name}
    return replace(image.manifest, annotations={**image.manifest.annotations, **names})


def _docker_entry(name: str, manifest: Manifest) -> dict[str, object]:
    return {
        "Config": f"blobs/sha256/{hex_of(manifest.config.digest)}",
        "RepoTags": [name] if name else [],
        "Layers": [f"blobs/sha256/{hex_of(layer.digest)}" for layer in manifest.layers],
    }


def _named(data: bytes) -> list[NamedImage]:
    manifests = parse_index(data, where="index.json").manifests
    return [
        NamedImage(image.annotations.get(CONTAINERD_NAME) or image.annotations.get(REF_NAME, ""), image)
        for image in manifests
    ]


def _take_blob(name: str, read: Callable[[int], bytes], store: LayoutSink) -> None:
    digest = parse_digest(f"sha256:{name}", where=f"blobs/sha256/{name[:80]}")
    with store.writer(digest) as out:
        while block := read(BLOCK_BYTES):
            out.write(block)
        out.commit()


def _copy_blob(store: LayoutSource, digest: Digest, target: Path) -> None:
    if target.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.part")
    try:
        with store.open(digest) as stream, temporary.open("wb") as out:
            while block := stream.read(BLOCK_BYTES):
                out.write(block)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _verify(store: LayoutSource, digest: Digest) -> None:
    with store.open(digest) as stream:
        while stream.read(BLOCK_BYTES):
            pass


def _open_plain(path: Path) -> IO[bytes]:
    """Open a file of a layout that somebody else wrote; a link could point at any file of this machine."""
    try:
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb", buffering=0)
    except OSError as error:
        raise InputError(f"cannot be read as a plain file: {error.strerror}", where=path.name) from error
