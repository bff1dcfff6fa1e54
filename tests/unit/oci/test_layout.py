"""What may lie in a layout, as a tar and as a folder; nothing of it is believed."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError, IntegrityError
from packager.oci.layout import open_layout, read_small
from tests.support.raw_tar import END, raw_file, raw_header

if TYPE_CHECKING:
    from pathlib import Path

HEX = "ab" * 32
BLOB = f"blobs/sha256/{HEX}"
FILES = {"oci-layout": b"{}", "index.json": b"[1]", BLOB: b"x" * 3000}


@pytest.fixture(params=["tar", "folder"])
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "layout"
    if request.param == "folder":
        (path / "blobs" / "sha256").mkdir(parents=True)
        for name, data in FILES.items():
            (path / name).write_bytes(data)
        return path
    with tarfile.open(path, "w") as archive:
        for name, data in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def complaint(path: Path) -> str:
    with pytest.raises((InputError, IntegrityError)) as caught, open_layout(path):
        pass
    return str(caught.value)


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "some.tar"
    path.write_bytes(data)
    return path


def test_files_are_found_with_their_sizes_and_read_in_any_order(layout: Path) -> None:
    with open_layout(layout) as found:
        assert dict(found.sizes) == {name: len(data) for name, data in FILES.items()}
        for name in reversed(FILES):
            assert found.open(name).read() == FILES[name]
        first, second = found.open(BLOB), found.open(BLOB)
        assert first.read(10) == second.read(10)
        assert read_small(found, "index.json", limit=3) == b"[1]"


def test_what_is_missing_or_too_large_is_named(layout: Path) -> None:
    with open_layout(layout) as found:
        with pytest.raises(InputError) as missing:
            read_small(found, "manifest.json", limit=10)
        with pytest.raises(InputError) as large:
            read_small(found, BLOB, limit=10)
    assert str(missing.value) == "layout: expected an OCI layout, found no manifest.json"
    assert str(large.value) == f"{BLOB}: expected at most 10 bytes, found 3000"


@pytest.mark.parametrize("name", ["secret", "blobs/sha256/short", f"blobs/sha512/{HEX}", f"blobs/sha256/{HEX.upper()}"])
def test_names_without_a_place_in_a_layout_are_refused(tmp_path: Path, name: str) -> None:
    assert complaint(written(tmp_path, raw_file(name.encode(), b"x") + END)) == f"{name}: has no place in an OCI layout"


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "blobs/sha256/../../x"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    data = raw_file(name.encode(), b"x") + END
    assert complaint(written(tmp_path, data)) == f"{name}: expected a plain path inside the layer"


@pytest.mark.parametrize("kind", [b"1", b"2"], ids=["hard link", "symbolic link"])
def test_a_blob_that_is_a_link_in_a_tar_is_refused(tmp_path: Path, kind: bytes) -> None:
    data = raw_header(BLOB.encode(), kind, link=b"etc/passwd") + END
    assert complaint(written(tmp_path, data)) == f"{BLOB}: expected files and directories only"


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    data = raw_file(b"index.json", b"one") + raw_file(b"index.json", b"two") + END
    assert complaint(written(tmp_path, data)) == (
        "index.json: is there twice: tools would disagree about which one counts"
    )


@pytest.mark.parametrize("place", [512 + 100, 512 + 511])
def test_a_tar_that_ends_inside_a_file_is_refused(tmp_path: Path, place: int) -> None:
    data = raw_file(b"index.json", b"x" * 1000)[:place]
    assert complaint(written(tmp_path, data)) == "layer: the tar ends inside a file"


@pytest.mark.report(19, 31)
def test_a_blob_that_is_a_link_to_a_file_of_this_machine_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "layout"
    (folder / "blobs" / "sha256").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (folder / BLOB).symlink_to(tmp_path / "secret")
    assert complaint(folder) == f"{BLOB}: expected files and directories only"


def test_a_folder_of_blobs_that_is_a_link_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "layout"
    folder.mkdir()
    (tmp_path / "elsewhere" / "sha256").mkdir(parents=True)
    (folder / "blobs").symlink_to(tmp_path / "elsewhere")
    assert complaint(folder) == "blobs: expected a folder, found something else"


def test_a_file_that_becomes_a_link_or_shorter_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "layout"
    (folder / "blobs" / "sha256").mkdir(parents=True)
    (folder / BLOB).write_bytes(b"x" * 100)
    with open_layout(folder) as found:
        (folder / BLOB).write_bytes(b"x" * 40)
        with pytest.raises(IntegrityError) as shorter:
            found.open(BLOB).read()
        (folder / BLOB).unlink()
        (folder / BLOB).symlink_to("/etc/hostname")
        with pytest.raises(InputError) as link:
            found.open(BLOB)
    assert str(shorter.value) == f"{BLOB}: ends 60 bytes early"
    assert str(link.value) == f"{BLOB}: cannot be read as a plain file: Too many levels of symbolic links"


def test_what_is_no_file_and_no_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert complaint(tmp_path / "pipe") == f"{tmp_path / 'pipe'}: expected a file or a folder, found something else"
    assert complaint(tmp_path / "none") == f"{tmp_path / 'none'}: cannot be read: No such file or directory"
    os.mkfifo(tmp_path / "oci-layout")
    (tmp_path / "pipe").unlink()
    (tmp_path / "blobs" / "sha256").mkdir(parents=True)
    assert complaint(tmp_path) == "oci-layout: expected files and directories only"
