"""Disks that are really full: a small tmpfs, one without inodes, a small ext4 on a loop device."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of_file
from packager.base.errors import WorldError
from packager.base.files import write_atomic
from packager.base.processes import find_program
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.tar_writer import write_tar
from packager.oci.unpack import unpack_layer
from packager.sandbox.namespaces import may_mount
from packager.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="mounts small disks")]

SIZE_BYTES = 6 << 20
BIG = os.urandom(1 << 20)
ENTRIES = [file_entry(b"big", BIG), *(file_entry(b"f%d" % n, b"x" * n) for n in range(20))]
ROOMS = [0, 4 << 10, 40 << 10, 300 << 10, 1 << 20, 1100 << 10, 1500 << 10, 2 << 20, 2200 << 10, 2300 << 10]
"""The flow needs some 3.2 MiB: a layer, the same one uncompressed, a tree with its content, and small things."""


def mounted(kind: str, folder: Path) -> list[str]:
    if kind == "tmpfs":
        return ["-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs"]
    image = folder.with_name("disk.img")
    image.touch()
    os.truncate(image, 2 * SIZE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=True)
    return ["-o", "loop", str(image)]


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Give a small file system, or skip where there is none of that kind."""
    if request.param == "ext4" and find_program("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", *mounted(request.param, folder), str(folder)], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"no {request.param} can be mounted: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextlib.contextmanager
def only(folder: Path, room_bytes: int) -> Iterator[None]:
    """Fill a disk up, but for so many bytes."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(bytes(64 << 10)):
            pass
    os.truncate(ballast, max(0, ballast.stat().st_size - room_bytes))
    try:
        yield
    finally:
        ballast.unlink()


def fill_tree(place: Path) -> None:
    (place / "big").write_bytes(BIG)


def flow(store: Store) -> list[object]:
    """Some of everything that writes."""
    layer = write_layer(ENTRIES, store)
    plain = write_layer(ENTRIES, store, compression="none")
    store.put_result(layer.digest, plain.digest.encode())
    store.set_name("images", "x", plain.digest.encode())
    tree = store.tree("t", fill_tree)
    return [layer, plain, store.result(layer.digest), store.name("images", "x"), (tree / "big").stat().st_size]


def attempt(store: Store) -> str:
    """Run the flow and return why it failed, or nothing."""
    try:
        flow(store)
    except WorldError as error:
        return error.reason
    except OSError as error:  # the tree's own filler, which verbs translate (full_disk_trouble)
        return f"the disk says: {error.strerror}"
    return ""


def expect_whole(root: Path) -> None:
    for path in (root / "blobs/sha256").glob("*"):
        assert digest_of_file(path) == f"sha256:{path.name}"
    for tree in (root / "trees").glob("*"):
        assert (tree / "big").read_bytes() == BIG
    assert list((root / "tmp").glob("*")) == []


def test_a_disk_that_fills_up_at_any_write_leaves_nothing_half(disk: Path, tmp_path: Path) -> None:
    expected = flow(Store(tmp_path / "expected"))
    said = []
    for number, room_bytes in enumerate(ROOMS):
        root = disk / str(number)
        with only(disk, room_bytes):
            said.append(attempt(Store(root)))
            expect_whole(root)
        assert flow(Store(root)) == expected, room_bytes
        expect_whole(root)
        subprocess.run(["rm", "-rf", str(root)], check=True)
    assert set(said) == {"the disk says: No space left on device"}, said


def test_a_layer_or_a_file_for_which_there_is_no_room_says_what_helps(disk: Path) -> None:
    tar = io.BytesIO()
    write_tar(ENTRIES, tar.write)
    tar.seek(0)
    (disk / "tree").mkdir()
    with only(disk, 300 << 10):
        with pytest.raises(WorldError) as unpacked:
            unpack_layer(tar, disk / "tree", overlay_whiteouts=False)
        with pytest.raises(WorldError) as written:
            write_atomic(disk / "file", BIG)
    hint = "hint: make space (wideswe-pack gc may help); then the same command continues"
    assert str(unpacked.value) == f"big: cannot be unpacked: No space left on device\n{hint}"
    assert str(written.value) == f"{disk}/file: cannot be written: No space left on device\n{hint}"


def test_a_disk_without_inodes_leaves_nothing_half(tmp_path: Path) -> None:
    expected = flow(Store(tmp_path / "expected"))
    folder = tmp_path / "disk"
    folder.mkdir()
    for inodes in range(2, 40):
        options = f"size={SIZE_BYTES},nr_inodes={inodes}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
        try:
            reason = attempt(Store(folder / "store"))
            expect_whole(folder / "store")
            subprocess.run(["mount", "-o", "remount,nr_inodes=200", str(folder)], check=True)
            assert flow(Store(folder / "store")) == expected
            expect_whole(folder / "store")
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        if not reason:
            break
        assert reason == "the disk says: No space left on device"
    assert not reason
    assert inodes > 10
