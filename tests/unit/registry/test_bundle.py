"""Bundles: what goes in comes out, layers once, only what the bundle before lacks; and every way of lying is refused."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.digests import Digest, digest_of, hex_of
from packager.base.errors import InputError, IntegrityError, PackError, UsageError
from packager.oci.descriptor import Descriptor, describe, format_descriptor
from packager.oci.layout import blob_name, open_layout
from packager.oci.manifest import MEDIA_INDEX, MEDIA_MANIFEST, Index, format_index, format_manifest, parse_manifest
from packager.registry.bundle import BundleForm
from packager.registry.bundle_export import Export
from packager.registry.bundle_import import Import
from packager.store.store import Store
from tests.support.images import layers_of, make_referrer
from tests.support.registry_contract import as_sets
from tests.support.suite_images import HOME, make_layers, make_suite, make_variant, task_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.oci.record import ImageRecord

Files = dict[str, bytes]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def named(suite: dict[str, ImageRecord]) -> dict[str, ImageRecord]:
    return {f"{HOME}/{task}:v1": record for task, record in suite.items()}


def export(store: Store, path: Path, suite: dict[str, ImageRecord], **form: Any) -> Any:
    return Export(store, path, BundleForm(**form)).run(named(suite))


def take(path: Path, store: Store) -> dict[str, ImageRecord]:
    with open_layout(path) as layout:
        return {image.name: image.record for image in Import(layout, store, path.name).run()}


def read(path: Path) -> Files:
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def write(path: Path, files: Files) -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def put(files: Files, media_type: str, data: bytes) -> dict[str, Any]:
    files[blob_name(digest_of(data))] = data
    return format_descriptor(describe(media_type, data))


# -- round and round --


def test_a_suite_goes_round_with_all_that_hangs_on_it(store: Store, tmp_path: Path) -> None:
    suite = make_suite(store, 3)
    done = export(store, tmp_path / "suite.tar", suite)
    other = Store(tmp_path / "other")
    found = take(tmp_path / "suite.tar", other)
    assert {name: as_sets(record) for name, record in found.items()} == {
        name: as_sets(record) for name, record in named(suite).items()
    }
    assert not other.check()
    assert done.images == 3
    again = tmp_path / "again.tar"
    Export(other, again).run(found)
    assert again.read_bytes() == (tmp_path / "suite.tar").read_bytes()


def test_an_unpacked_bundle_is_read_too(store: Store, tmp_path: Path) -> None:
    suite = make_suite(store, 1)
    export(store, tmp_path / "suite.tar", suite)
    with tarfile.open(tmp_path / "suite.tar") as archive:
        archive.extractall(tmp_path / "folder")  # noqa: S202 - ours; Debian's Python 3.11 knows no filter
    assert list(take(tmp_path / "folder", Store(tmp_path / "other"))) == [f"{HOME}/{task_name(1)}:v1"]


def test_shared_layers_are_in_it_once(store: Store, tmp_path: Path) -> None:
    suite = make_suite(store, 20)
    together = export(store, tmp_path / "suite.tar", suite).size_bytes
    single = sum(export(store, tmp_path / "one.tar", {task: record}).size_bytes for task, record in suite.items())
    shared = sum(layer.size for layer in make_layers(store))
    assert single - together > 19 * shared


def test_a_bundle_since_another_lacks_what_that_has_and_comes_after_it(store: Store, tmp_path: Path) -> None:
    suite = make_suite(store, 2)
    export(store, tmp_path / "old.tar", suite)
    more = {**suite, task_name(3): make_variant(store, 3, make_layers(store))}
    whole = export(store, tmp_path / "whole.tar", more)
    done = export(store, tmp_path / "new.tar", more, since=tmp_path / "old.tar")
    assert done.left_out_bytes > 300_000
    assert done.size_bytes < whole.size_bytes - 300_000
    files = read(tmp_path / "new.tar")
    assert [image["RepoTags"] for image in json.loads(files["manifest.json"])] == []
    other = Store(tmp_path / "other")
    with pytest.raises(InputError) as early:
        take(tmp_path / "new.tar", other)
    old = digest_of(read(tmp_path / "old.tar")["index.json"])
    assert str(early.value).endswith(
        f": is neither in the bundle nor in the store\nhint: import the bundle with the index {old} first"
    )
    take(tmp_path / "old.tar", other)
    assert len(take(tmp_path / "new.tar", other)) == 3
    assert not other.check()
    third = export(store, tmp_path / "third.tar", more, since=tmp_path / "new.tar")
    assert third.left_out_bytes > done.left_out_bytes, "a chain: what an incremental bundle names counts, too"


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_old_dockers_get_copies_of_the_same_tars(store: Store, tmp_path: Path, compression: str) -> None:
    suite = make_suite(store, 2)
    export(store, tmp_path / "suite.tar", suite, docker_layers=compression)
    files = read(tmp_path / "suite.tar")
    record = suite[task_name(1)]
    entry = json.loads(files["manifest.json"])[0]
    signed = [blob_name(digest) for digest in layers_of(store, record)]
    assert entry["Config"] == signed[0]
    assert not set(entry["Layers"]) & set(signed)
    assert set(signed) <= files.keys()
    starts = {files[name][:2] for name in entry["Layers"]}
    assert starts == {b"\x1f\x8b"} if compression == "gzip" else b"\x1f\x8b" not in starts
    other = Store(tmp_path / "other")
    take(tmp_path / "suite.tar", other)
    assert not any(other.has(Digest(f"sha256:{name[-64:]}")) for name in entry["Layers"])
    files["manifest.json"] = files["manifest.json"].replace(
        entry["Layers"][0].encode(), json.loads(files["manifest.json"])[1]["Layers"][2].encode(), 1
    )
    with pytest.raises(IntegrityError) as caught:
        take(write(tmp_path / "bad.tar", files), Store(tmp_path / "third"))
    config = f"sha256:{entry['Config'][-64:]}"
    assert str(caught.value) == f"manifest.json: docker would load layers that are not those of the config {config}"


def test_a_bundle_for_old_dockers_cannot_continue_another(store: Store, tmp_path: Path) -> None:
    suite = make_suite(store, 1)
    export(store, tmp_path / "old.tar", suite)
    with pytest.raises(UsageError) as caught:
        export(store, tmp_path / "new.tar", suite, since=tmp_path / "old.tar", docker_layers="gzip")
    assert str(caught.value) == (
        "--since and --docker-layers exclude each other\nhint: a bundle that continues another lacks layers, so that"
        " docker cannot load it: leave one option out"
    )


def test_a_broken_blob_of_the_store_is_not_exported(store: Store, tmp_path: Path) -> None:
    suite = make_suite(store, 1)
    digest = layers_of(store, suite[task_name(1)])[1]
    path = store.path(digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    (tmp_path / "suite.tar").write_bytes(b"the one before")
    with pytest.raises(IntegrityError):
        export(store, tmp_path / "suite.tar", suite)
    assert (tmp_path / "suite.tar").read_bytes() == b"the one before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "suite.tar"]


# -- lies --


@pytest.fixture
def files(store: Store, tmp_path: Path) -> Files:
    """A good bundle of two images, to be spoilt."""
    export(store, tmp_path / "good.tar", make_suite(store, 2))
    return read(tmp_path / "good.tar")


def refusal(files: Files, tmp_path: Path) -> PackError:
    other = Store(tmp_path / "other")
    with pytest.raises((InputError, IntegrityError)) as caught:
        take(write(tmp_path / "bad.tar", files), other)
    assert other.names("images") == []
    assert not other.check()
    return caught.value


def spoil_index(files: Files, change: Callable[[Any], object]) -> None:
    index = json.loads(files["index.json"])
    change(index)
    files["index.json"] = json.dumps(index).encode()


def largest(files: Files) -> str:
    return max(files, key=lambda name: len(files[name]))


def test_every_changed_blob_is_refused_by_name(files: Files, tmp_path: Path) -> None:
    for name in [name for name in files if name.startswith("blobs/")]:
        spoilt = {**files, name: files[name][:-1] + bytes([files[name][-1] ^ 1])}
        error = refusal(spoilt, tmp_path)
        assert isinstance(error, IntegrityError)
        assert error.where == name
        assert hex_of(digest_of(spoilt[name])) in str(error)


def test_a_blob_of_another_size_is_refused_before_it_is_read(files: Files, tmp_path: Path) -> None:
    name = largest(files)
    size = len(files[name])
    assert (
        str(refusal({**files, name: files[name] + b"x"}, tmp_path))
        == f"{name}: expected {size} bytes, found {size + 1}"
    )


def test_a_missing_blob_is_named(files: Files, tmp_path: Path) -> None:
    name = largest(files)
    del files[name]
    assert str(refusal(files, tmp_path)) == (
        f"{name}: is neither in the bundle nor in the store\nhint: the bundle is not whole"
    )


def test_a_blob_that_nobody_names_is_hashed_and_not_kept(files: Files, tmp_path: Path) -> None:
    stray = b"nobody names me"
    files[blob_name(digest_of(stray))] = stray
    other = Store(tmp_path / "other")
    take(write(tmp_path / "good.tar", files), other)
    assert not other.has(digest_of(stray))
    wrong = blob_name(Digest("sha256:" + "0" * 64))
    error = refusal({**files, wrong: stray}, tmp_path)
    assert str(error) == (
        f"{wrong}: expected the digest sha256:{'0' * 64}, found {digest_of(stray)}\n"
        "hint: copy the bundle again; what was good so far is kept"
    )


@pytest.mark.report(30)
@pytest.mark.parametrize("where", ["index", "line", "image", "layer"])
def test_an_annotation_that_changes_what_runs_is_refused(files: Files, tmp_path: Path, where: str) -> None:
    """The kind of CVE-2026-94603: an annotation of an image switches off its sandbox."""
    evil = {"io.podman.annotations.privileged": "TRUE"}
    index = json.loads(files["index.json"])
    entry = index["manifests"][0]
    place = "index.json"
    if where == "index":
        index["annotations"] = evil
    elif where == "line":
        entry["annotations"] |= evil
        place = "index.json.manifests[0]"
    else:
        manifest = json.loads(files[f"blobs/sha256/{entry['digest'][7:]}"])
        (manifest if where == "image" else manifest["layers"][0])["annotations"] = evil
        index["manifests"][0] = put(files, MEDIA_MANIFEST, json.dumps(manifest).encode()) | {
            "annotations": entry["annotations"]
        }
        place = "index.json.manifests[0]"
    files["index.json"] = json.dumps(index).encode()
    assert str(refusal(files, tmp_path)) == (
        f"{place}: an annotation that we do not know: 'io.podman.annotations.privileged'\n"
        "hint: annotations can change what tools do with an image; nothing was imported"
    )


def test_an_index_where_a_manifest_should_be_is_refused(files: Files, tmp_path: Path) -> None:
    nested = put(files, MEDIA_INDEX, format_index(Index(())))
    spoil_index(files, lambda index: index["manifests"].append(nested))
    count = len(json.loads(files["index.json"])["manifests"]) - 1
    assert str(refusal(files, tmp_path)) == (
        f"index.json.manifests[{count}]: expected an image manifest, found {MEDIA_INDEX}"
    )


def test_a_manifest_that_is_listed_as_another_kind_is_refused(files: Files, tmp_path: Path) -> None:
    docker = "application/vnd.docker.distribution.manifest.v2+json"
    spoil_index(files, lambda index: index["manifests"][0].update(mediaType=docker))
    name = blob_name(json.loads(files["index.json"])["manifests"][0]["digest"])
    assert str(refusal(files, tmp_path)) == f"{name}: listed as {docker}, but its mediaType is {MEDIA_MANIFEST}"


def test_a_wrong_size_in_the_index_is_refused(files: Files, tmp_path: Path) -> None:
    entry = json.loads(files["index.json"])["manifests"][0]
    spoil_index(files, lambda index: index["manifests"][0].update(size=entry["size"] + 1))
    name, digest, size = blob_name(entry["digest"]), entry["digest"], entry["size"]
    assert str(refusal(files, tmp_path)) == (
        f"{name}: expected {digest} ({size + 1} bytes), found {digest} ({size} bytes)"
    )


def test_a_key_that_is_there_twice_is_refused(files: Files, tmp_path: Path) -> None:
    files["index.json"] = b'{"manifests":[],' + files["index.json"][1:]
    assert str(refusal(files, tmp_path)) == "index.json: not acceptable JSON: duplicate key 'manifests'"


def test_a_referrer_of_what_is_not_in_the_bundle_is_refused(files: Files, store: Store, tmp_path: Path) -> None:
    elsewhere = Descriptor(MEDIA_MANIFEST, digest_of(b"elsewhere"), 9)
    data = store.read(make_referrer(store, elsewhere).digest, 1 << 20)
    line = put(files, MEDIA_MANIFEST, data)
    files[blob_name(digest_of(b"{}"))] = b"{}"
    spoil_index(files, lambda index: index["manifests"].append(line))
    assert str(refusal(files, tmp_path)) == (
        f"index.json: something refers to {elsewhere.digest}, which is no image of the bundle"
    )


@pytest.mark.report(5)
def test_endless_referrers_are_refused(files: Files, store: Store, tmp_path: Path) -> None:
    """The kind of CVE-2023-46737, in a file."""
    entry = json.loads(files["index.json"])["manifests"][0]
    subject = Descriptor(MEDIA_MANIFEST, entry["digest"], entry["size"])
    lines = []
    for number in range(65):
        referrer = parse_manifest(store.read(make_referrer(store, subject, data=b"%d" % number).digest, 1 << 20))
        files[blob_name(referrer.layers[0].digest)] = b"%d" % number
        lines.append(put(files, MEDIA_MANIFEST, format_manifest(referrer)))
    files[blob_name(digest_of(b"{}"))] = b"{}"
    spoil_index(files, lambda index: index["manifests"].extend(lines))
    assert str(refusal(files, tmp_path)) == (f"index.json: expected at most 64 referrers of {subject.digest}, found 67")


def test_two_images_of_one_name_are_refused(files: Files, tmp_path: Path) -> None:
    def rename(index: Any) -> None:
        index["manifests"][1]["annotations"] = index["manifests"][0]["annotations"]

    spoil_index(files, rename)
    assert str(refusal(files, tmp_path)) == (
        f"index.json.manifests[1]: two images have the name '{HOME}/{task_name(1)}:v1'"
    )


@pytest.mark.report(15, 31)
def test_docker_would_load_another_image_than_we_verify(files: Files, tmp_path: Path) -> None:
    """Manifest and index confusion: two lists in one file, of which each tool reads one."""
    docker = json.loads(files["manifest.json"])
    evil = b'{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}'
    put(files, "x", evil)
    other = [{**docker[0], "Config": blob_name(digest_of(evil))}, *docker[1:]]
    files["manifest.json"] = json.dumps(other).encode()
    assert str(refusal(files, tmp_path)) == (
        f"manifest.json: docker would load the config {digest_of(evil)}, which no image of index.json has"
    )
    files["manifest.json"] = json.dumps([{**docker[0], "RepoTags": ["debian:bookworm"]}]).encode()
    assert str(refusal(files, tmp_path)) == (
        "manifest.json: docker would name an image 'debian:bookworm', index.json none"
    )
    files["manifest.json"] = json.dumps([{**docker[0], "Layers": ["../../etc/passwd"]}]).encode()
    assert str(refusal(files, tmp_path)) == (
        "manifest.json[0].Layers[0]: expected blobs/sha256/…, found '../../etc/passwd'"
    )


def test_another_version_or_kind_of_layout_is_refused(files: Files, tmp_path: Path) -> None:
    error = refusal({**files, "oci-layout": b'{"imageLayoutVersion":"2.0.0"}'}, tmp_path)
    assert str(error) == "oci-layout: expected imageLayoutVersion 1.0.0, found 2.0.0"
    spoil_index(files, lambda index: index.update(artifactType="application/vnd.wideswe.bundle.v2"))
    assert str(refusal(files, tmp_path)) == (
        "index.json: expected application/vnd.wideswe.bundle.v1, found application/vnd.wideswe.bundle.v2"
    )
