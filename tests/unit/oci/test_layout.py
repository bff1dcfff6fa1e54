from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import hex_of
from packager.base.errors import InputError, IntegrityError
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import describe
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.layout import NamedImage, read_archive, read_layout, write_archive, write_layout
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, Manifest, format_manifest
from packager.store.store import Store
from tests.support.raw_tar import END, raw_file, raw_header

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def make_image(store: Store, name: str = "localhost/suite/task:v1") -> NamedImage:
    layers = [write_layer([file_entry(path, b"x" * 1000)], store, compression="gzip") for path in (b"a", b"b")]
    config = format_config(ImageConfig("amd64", tuple(layer.diff_id for layer in layers)))
    manifest = Manifest(describe(MEDIA_CONFIG, config), tuple(layer.descriptor() for layer in layers))
    store.put(config)
    data = format_manifest(manifest)
    store.put(data)
    return NamedImage(name, describe(MEDIA_MANIFEST, data))


def test_a_layout_directory_goes_round(store: Store, tmp_path: Path) -> None:
    image = make_image(store)
    write_layout([image], store, tmp_path / "layout")
    other = Store(tmp_path / "other")
    (found,) = read_layout(tmp_path / "layout", other)
    assert (found.name, found.manifest.digest) == (image.name, image.manifest.digest)
    names = sorted(path.name for path in (tmp_path / "store/blobs/sha256").iterdir())
    assert sorted(path.name for path in (tmp_path / "other/blobs/sha256").iterdir()) == names
    assert json.loads((tmp_path / "layout/oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}


def test_a_layout_tar_goes_round_and_has_docker_s_manifest(store: Store, tmp_path: Path) -> None:
    image = make_image(store)
    blocks: list[bytes] = []
    write_archive([image], store, blocks.append)
    data = b"".join(blocks)
    other = Store(tmp_path / "other")
    (found,) = read_archive(io.BytesIO(data), other)
    assert (found.name, found.manifest.digest) == (image.name, image.manifest.digest)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        member = archive.extractfile("manifest.json")
        assert member is not None
        (entry,) = json.load(member)
        assert entry["RepoTags"] == ["localhost/suite/task:v1"]
        assert len(entry["Layers"]) == 2
        assert {entry["Config"], *entry["Layers"]} < set(archive.getnames())


def test_two_archives_are_equal(store: Store) -> None:
    image = make_image(store)
    found = []
    for _ in range(2):
        blocks: list[bytes] = []
        write_archive([image], store, blocks.append)
        found.append(b"".join(blocks))
    assert found[0] == found[1]


def test_a_blob_that_is_a_link_to_a_file_of_this_machine_is_refused(store: Store, tmp_path: Path) -> None:
    write_layout([make_image(store)], store, tmp_path / "layout")
    (tmp_path / "secret").write_text("secret")
    blob = next((tmp_path / "layout/blobs/sha256").iterdir())
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")
    with pytest.raises(InputError) as caught:
        read_layout(tmp_path / "layout", Store(tmp_path / "other"))
    assert str(caught.value) == f"{blob.name}: cannot be read as a plain file: Too many levels of symbolic links"


def test_a_changed_blob_is_refused_on_the_way_out_and_in(store: Store, tmp_path: Path) -> None:
    image = make_image(store)
    write_layout([image], store, tmp_path / "layout")
    for root in (tmp_path / "layout", store.root):
        blob = root / "blobs/sha256" / hex_of(image.manifest.digest)
        blob.chmod(0o644)
        blob.write_bytes(blob.read_bytes() + b" ")
    with pytest.raises(IntegrityError, match="expected the digest"):
        read_layout(tmp_path / "layout", Store(tmp_path / "other"))
    with pytest.raises(IntegrityError, match="expected the digest"):
        write_layout([image], store, tmp_path / "again")


def test_archives_of_something_else_are_refused(tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    with pytest.raises(InputError) as nothing:
        read_archive(io.BytesIO(raw_file(b"x", b"y") + END), other)
    assert str(nothing.value) == "archive: expected an OCI layout, found no index.json"
    with pytest.raises(InputError) as link:
        read_archive(io.BytesIO(raw_header(b"blobs/sha256/x", b"2", link=b"/etc/passwd") + END), other)
    assert str(link.value) == "blobs/sha256/x: expected files and directories only"
    with pytest.raises(InputError) as name:
        read_archive(io.BytesIO(raw_file(b"blobs/sha256/../x", b"y") + END), other)
    assert str(name.value) == "blobs/sha256/../x: expected a plain path inside the layer"
