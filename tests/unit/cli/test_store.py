"""`store check` and `gc --max-size` as a person calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.digests import digest_of, hex_of
from packager.oci.descriptor import Descriptor
from packager.oci.manifest import MEDIA_MANIFEST
from packager.oci.record import ImageRecord, format_record
from packager.store.store import Store
from tests.support.command_line import call

if TYPE_CHECKING:
    from pathlib import Path

AGAIN = "the blob was set aside; run the command again to get it anew"


def test_a_whole_store_is_a_yes_and_a_damaged_one_a_no_that_is_said_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    good, bad = store.put(b"good"), store.put(b"bad")
    done = call(tmp_path, "--store", "store", "store", "check")
    assert (done.exit_code, done.stdout) == (0, b"2 blobs, 0 unpacked layers, 0 images: all whole\n")
    path = store.path(bad)
    path.chmod(0o644)
    path.write_bytes(b"bat")
    done = call(tmp_path, "--store", "store", "--quiet", "store", "check")
    said = f"blobs/sha256/{hex_of(bad)}: expected the digest {bad}, found {digest_of(b'bat')} (hint: {AGAIN})\n"
    assert (done.exit_code, done.stderr) == (1, b"")
    assert done.stdout.decode() == f"2 blobs, 0 unpacked layers, 0 images: 1 problems\n{said}"
    assert (store.root / "quarantine" / hex_of(bad)).read_bytes() == b"bat"
    done = call(tmp_path, "--store", "store", "store", "check")
    assert (done.exit_code, done.stdout) == (0, b"1 blobs, 0 unpacked layers, 0 images: all whole\n")
    assert store.has(good)


def test_an_image_that_lacks_something_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    manifest = digest_of(b"not here")
    store.set_name("images", "t-001", format_record(ImageRecord(Descriptor(MEDIA_MANIFEST, manifest, 8))))
    done = call(tmp_path, "--store", "store", "store", "check")
    said = "the image cannot be read: the blob is not in the store"
    hint = "wideswe-pack build --task t-001, or pull it again"
    assert (done.exit_code, done.stdout.decode()) == (
        1,
        f"0 blobs, 0 unpacked layers, 1 images: 1 problems\nnames/images/t-001: {said} (hint: {hint})\n",
    )


def test_the_store_shrinks_to_the_size_that_is_allowed(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for letter in (b"a", b"b", b"c"):
        store.put(letter * 1000)
    done = call(tmp_path, "--store", "store", "gc", "--max-size", "2K")
    assert (done.exit_code, done.stdout.decode()) == (
        0,
        "1 blobs, 0 unpacked layers and 0 repositories and damaged files deleted, 1000 bytes; 2000 bytes are left\n",
    )


def test_a_size_without_a_unit_is_the_command_lines_fault(tmp_path: Path) -> None:
    done = call(tmp_path, "--store", "store", "gc", "--max-size", "20")
    said = "error: --max-size: expected a size with a unit, found '20'"
    hint = "hint: write 512M or 4G; K, M, G and T are powers of 1024"
    assert (done.exit_code, done.stderr.decode()) == (2, f"{said}\n{hint}\n")
