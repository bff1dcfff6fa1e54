"""The bytes of the canonical tar, corner by corner; WIDESWE_UPDATE_GOLDEN=1 writes the files anew (and `c1` is over)."""

from __future__ import annotations

import io
import os
import struct
import tarfile
from pathlib import Path

import pytest

from packager.base.digests import digest_of
from packager.oci.entries import Entry, Kind, dir_entry, file_entry, symlink_entry
from packager.oci.layer import compressor
from packager.oci.tar_writer import write_tar

OUT = Path(__file__).parent / "out" / "tar"
ZSTD_GOLDEN = "sha256:6c45aee6f8831348f6fb9f91c8ce264c19c8ddc97d28408b1775de021fcefd73"
CAPABILITY = struct.pack("<5I", 0x02000001, 0x2000, 0, 0, 0)
LENGTHS = (99, 100, 101, 155, 156, 255, 256, 257, 300)


def long_names() -> list[Entry]:
    """One component where it fits, else two that cannot always be split as ustar would."""
    flat = [file_entry(b"f" * length, b"x") for length in LENGTHS]
    deep = [file_entry((b"d" * 120 + b"/" + b"e" * 300)[:length], b"y") for length in LENGTHS if length > 121]
    split = [file_entry(b"p" * 155 + b"/" + b"n" * 100, b"z"), file_entry(b"q" * 156 + b"/" + b"n" * 99, b"z")]
    links = [symlink_entry(b"link-%d" % length, b"t" * length) for length in (100, 101, 300)]
    return [*flat, *deep, *split, *links]


CASES: dict[str, list[Entry]] = {
    "empty": [],
    "plain": [file_entry(b"a/b", b"hello\n"), dir_entry(b"a"), symlink_entry(b"a/l", b"b"), file_entry(b"z", b"")],
    "order": [
        file_entry(path, b"") for path in (b"a.c", b"a/b", b"a b", b"a-b", b"a", b"ab/c", b"Z/z") if path != b"a"
    ],
    "long-names": long_names(),
    "not-ascii": [
        file_entry(b"caf\xe9", b"latin"),
        file_entry("café".encode(), b"nfc"),
        file_entry("cafe\u0301".encode(), b"nfd"),
        file_entry(b"new\nline", b""),
        symlink_entry(b"to", b"caf\xe9"),
    ],
    "hard-links": [
        Entry(b"z", Kind.FILE, 0o4755, 7, 8, 3, content=b"abc"),
        Entry(b"b/a", Kind.HARDLINK, 0o600, 1, 1, link=b"z"),
        Entry(b"a", Kind.HARDLINK, 0o644, link=b"z"),
    ],
    "capability": [Entry(b"ping", Kind.FILE, 0o755, size=2, capability=CAPABILITY, content=b"hi")],
    "owners": [
        Entry(b"most", Kind.DIR, 0o1777, 0o7777777, 0o7777777),
        Entry(b"more", Kind.FILE, 0o2755, 0o10000000, 3_000_000, 1, content=b"1"),
        Entry(b"type-bits", Kind.FILE, 0o100644, content=b""),
    ],
    "whiteouts": [
        Entry(b"d/zz", Kind.WHITEOUT, 0o644, 5, 5),
        Entry(b"d/-first", Kind.FILE, 0o644, size=1, content=b"-"),
        Entry(b"d", Kind.DIR, 0o1777, 1, 2),
        Entry(b"aa", Kind.WHITEOUT),
        file_entry(b"!", b""),
    ],
}


def tar_of(entries: list[Entry]) -> bytes:
    blocks: list[bytes] = []
    size = write_tar(entries, blocks.append)
    data = b"".join(blocks)
    assert size == len(data)
    return data


@pytest.mark.parametrize("name", CASES)
def test_the_tar_has_the_golden_bytes_whatever_the_order_of_entries(name: str) -> None:
    golden = OUT / f"{name}.tar"
    data = tar_of(CASES[name])
    if os.environ.get("WIDESWE_UPDATE_GOLDEN"):
        golden.write_bytes(data)
    assert golden.read_bytes() == data
    assert data == tar_of(list(reversed(CASES[name])))


@pytest.mark.parametrize("name", CASES)
def test_another_reader_sees_what_was_meant(name: str) -> None:
    data = tar_of(CASES[name])
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as found:
        members = found.getmembers()
    assert all(member.mtime == 315532800 and not member.uname and not member.gname for member in members)
    seen = {os.fsencode(member.name): member for member in members}
    for entry in CASES[name]:
        if entry.kind is Kind.WHITEOUT:
            continue
        member = seen[entry.path]
        assert os.fsencode(member.linkname) == entry.link or entry.kind in (Kind.FILE, Kind.HARDLINK)
        if entry.kind in (Kind.FILE, Kind.DIR) and name != "hard-links":
            assert (member.mode, member.uid, member.gid) == (entry.mode & 0o7777, entry.uid, entry.gid)
            assert member.size == entry.size


def test_hard_links_carry_their_file_s_mode_and_owner_and_the_first_name_is_the_file() -> None:
    with tarfile.open(fileobj=io.BytesIO(tar_of(CASES["hard-links"]))) as found:
        said = [(member.name, member.type, member.linkname, member.mode, member.uid, member.gid) for member in found]
    assert said == [
        ("a", tarfile.REGTYPE, "", 0o4755, 7, 8),
        ("b", tarfile.DIRTYPE, "", 0o755, 0, 0),
        ("b/a", tarfile.LNKTYPE, "a", 0o4755, 7, 8),
        ("z", tarfile.LNKTYPE, "a", 0o4755, 7, 8),
    ]


def test_whiteouts_come_first_in_their_directory() -> None:
    with tarfile.open(fileobj=io.BytesIO(tar_of(CASES["whiteouts"]))) as found:
        said = [(member.name, member.mode, member.uid, member.size) for member in found]
    assert said == [
        (".wh.aa", 0, 0, 0),
        ("!", 0o644, 0, 0),
        ("d", 0o1777, 1, 0),
        ("d/.wh.zz", 0, 0, 0),
        ("d/-first", 0o644, 0, 1),
    ]


def test_the_names_are_sorted_by_components() -> None:
    with tarfile.open(fileobj=io.BytesIO(tar_of(CASES["order"]))) as found:
        assert found.getnames() == ["Z", "Z/z", "a", "a/b", "a b", "a-b", "a.c", "ab", "ab/c"]


def test_zstd_has_golden_bytes_however_its_input_is_cut() -> None:
    data = b"".join(b"%d squared is %d\n" % (n, n * n) for n in range(900_000))
    for step in (len(data), 1 << 20, 777_777):
        packer = compressor("zstd")
        parts = [packer.compress(data[at : at + step]) for at in range(0, len(data), step)]
        assert digest_of(b"".join([*parts, packer.flush()])) == ZSTD_GOLDEN


def test_gzip_has_no_time_no_name_and_does_not_depend_on_how_its_input_is_cut() -> None:
    data = b"some text " * 100_000
    found = set()
    for step in (len(data), 1 << 16, 999):
        packer = compressor("gzip")
        parts = [packer.compress(data[at : at + step]) for at in range(0, len(data), step)]
        found.add(b"".join([*parts, packer.flush()]))
    (packed,) = found
    assert packed[:10] == bytes.fromhex("1f8b08000000000000ff")
