"""Two layers side by side: every path and field that differs, both values."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from packager.oci.compare import KEPT_BYTES, compare_layers, first_difference
from packager.oci.entries import Entry, Kind, dir_entry, file_entry, symlink_entry
from packager.oci.tar_writer import write_tar

if TYPE_CHECKING:
    from packager.oci.compare import EntryDifference

NET_RAW = bytes.fromhex("0000000200200000000000000000000000000000")
BASE = [dir_entry(b"d"), file_entry(b"d/f", b"same")]


def compare(one: list[Entry], other: list[Entry]) -> list[tuple[bytes, str, str, str]]:
    return [(row.path, row.field, row.a, row.b) for row in raw(one, other)]


def raw(one: list[Entry], other: list[Entry]) -> tuple[EntryDifference, ...]:
    tars = []
    for entries in (one, other):
        out = io.BytesIO()
        write_tar(entries, out.write)
        tars.append(out.getvalue())
    return compare_layers(lambda: io.BytesIO(tars[0]), lambda: io.BytesIO(tars[1]))


def test_equal_layers_have_no_difference_whatever_the_order_of_their_entries() -> None:
    assert compare(BASE, BASE[::-1]) == []
    tars = []
    for entries in (BASE, BASE[::-1]):
        out = io.BytesIO()
        for entry in entries:  # two tars glued together entry by entry: another order than the canonical one
            part = io.BytesIO()
            write_tar([entry], part.write)
            out.write(part.getvalue()[:-1024])
        out.write(bytes(1024))
        tars.append(out.getvalue())
    assert tars[0] != tars[1]
    assert compare_layers(lambda: io.BytesIO(tars[0]), lambda: io.BytesIO(tars[1])) == ()


def test_contents_are_shown_around_their_first_difference() -> None:
    assert compare([file_entry(b"f", b"x" * 100 + b"one")], [file_entry(b"f", b"x" * 100 + b"other!")]) == [
        (
            b"f",
            "content",
            f"103 bytes, from byte 77: {b'x' * 23 + b'one'!r}",
            f"106 bytes, from byte 77: {b'x' * 23 + b'other!'!r}",
        )
    ]


def test_a_difference_far_behind_the_beginning_is_told_by_digests() -> None:
    (row,) = raw([file_entry(b"f", bytes(KEPT_BYTES) + b"1")], [file_entry(b"f", bytes(KEPT_BYTES) + b"2")])
    assert row.a.startswith(f"file 0644 0:0 {KEPT_BYTES + 1} bytes, sha256:")
    assert row.a != row.b
    assert row.contents == (bytes(KEPT_BYTES), bytes(KEPT_BYTES))


def test_every_field_has_its_own_line_and_paths_come_in_order() -> None:
    one = [
        Entry(b"a", Kind.FILE, 0o644, 1, 2, 0, content=b""),
        symlink_entry(b"l", b"here"),
        Entry(b"gone", Kind.WHITEOUT),
        dir_entry(b"z"),
        Entry(b"cap", Kind.FILE, 0o755, size=0, capability=NET_RAW, content=b""),
    ]
    other = [
        Entry(b"a", Kind.FILE, 0o600, 3, 2, 0, content=b""),
        symlink_entry(b"l", b"there"),
        file_entry(b"gone", b""),
        symlink_entry(b"z", b"d"),
        Entry(b"cap", Kind.FILE, 0o755, size=0, content=b""),
        file_entry(b"new", b"n"),
    ]
    empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert compare(one, other) == [
        (b"a", "mode", "0644", "0600"),
        (b"a", "owner", "1:2", "3:2"),
        (b"cap", "capability", NET_RAW.hex(), "none"),
        (b"gone", "kind", "deleted", f"file 0644 0:0 0 bytes, {empty}"),
        (b"l", "link", "here", "there"),
        (
            b"new",
            "entry",
            "absent",
            "file 0644 0:0 1 bytes, sha256:1b16b1df538ba12dc3f97edbb85caa7050d46c148134290feba80f8236c83db9",
        ),
        (b"z", "kind", "dir 0755 0:0", "symlink 0777 0:0 to d"),
    ]


def test_the_first_difference_is_the_first() -> None:
    assert first_difference(b"", b"") is None
    assert first_difference(b"ab", b"ab") is None
    assert first_difference(b"ab", b"abc") == 2
    for place in range(9):
        data = bytearray(9)
        data[place] = 1
        assert first_difference(bytes(9), bytes(data)) == place
