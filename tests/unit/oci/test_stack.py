"""Layers as other engines write them become ours: the same effect in other words is the same canonical layer."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.oci.stack import Made, Readable, Stack
from tests.support.raw_tar import END, raw_file, raw_header

if TYPE_CHECKING:
    from packager.oci.entries import Entry

DIRS = b"".join(raw_header(name, b"5", mode=0o755) for name in (b"a/", b"etc/", b"tmp/"))
BASE = DIRS + raw_file(b"a/keep", b"1") + raw_file(b"a/gone", b"2") + raw_file(b"etc/hosts", b"") + END


def keep(reader: Readable, size: int) -> bytes:
    return reader.read(size)


def stack() -> Stack:
    found = Stack(keep)
    found.apply(io.BytesIO(BASE), Made.RAN)
    return found


def change(*parts: bytes, made: Made = Made.RAN) -> list[str]:
    return said(stack().apply(io.BytesIO(b"".join(parts) + END), made))


def said(entries: list[Entry]) -> list[str]:
    return [f"{one.kind.value} {one.mode:o} {one.path.decode()}" for one in entries]


def whiteout(name: bytes) -> bytes:
    return raw_header(name, mode=0o600)


def test_a_first_layer_is_whole_but_for_what_is_dropped() -> None:
    found = Stack(keep).apply(io.BytesIO(BASE), Made.RAN)
    assert said(found) == ["dir 755 a", "file 644 a/gone", "file 644 a/keep", "dir 755 etc", "dir 755 tmp"]


def test_unchanged_parents_and_files_are_left_out() -> None:
    assert change(DIRS, raw_file(b"a/keep", b"1")) == []
    assert change(raw_header(b"a/", b"5", mode=0o755), raw_file(b"a/new", b"")) == ["dir 755 a", "file 644 a/new"]


def test_a_change_of_content_mode_or_kind_counts() -> None:
    assert change(raw_file(b"a/keep", b"9")) == ["dir 755 a", "file 644 a/keep"]
    assert change(raw_header(b"a/keep", size=1, mode=0o755) + b"1".ljust(512, b"\0")) == [
        "dir 755 a",
        "file 755 a/keep",
    ]
    assert change(raw_header(b"a/keep", b"2", link=b"gone")) == ["dir 755 a", "symlink 644 a/keep"]


def test_a_deletion_is_a_deletion_however_it_is_written() -> None:
    expected = ["dir 755 a", "whiteout 0 a/gone"]
    assert change(whiteout(b"a/.wh.gone")) == expected
    assert (
        change(raw_header(b"a/", b"5", mode=0o755), whiteout(b"a/.wh..wh..opq"), raw_file(b"a/keep", b"1")) == expected
    )


def test_an_opaque_mark_hides_only_what_lies_below_whatever_the_order() -> None:
    parts = (raw_header(b"a/", b"5", mode=0o755), raw_file(b"a/new", b""), whiteout(b"a/.wh..wh..opq"))
    assert change(*parts) == ["dir 755 a", "whiteout 0 a/gone", "whiteout 0 a/keep", "file 644 a/new"]


def test_a_new_directory_may_be_opaque() -> None:
    parts = (raw_header(b"b/", b"5", mode=0o755), whiteout(b"b/.wh..wh..opq"), raw_file(b"b/x", b""))
    assert change(*parts) == ["dir 755 b", "file 644 b/x"]


def test_a_deleted_directory_is_one_deletion_and_can_become_a_file() -> None:
    assert change(whiteout(b".wh.a")) == ["whiteout 0 a"]
    assert change(whiteout(b".wh.a"), raw_file(b"a", b"file")) == ["file 644 a"]
    assert change(raw_file(b"a", b"file")) == ["file 644 a"]


def test_deleting_what_never_was_is_nothing() -> None:
    assert change(whiteout(b"a/.wh.never")) == []


def test_names_of_one_file_stay_together_with_the_first_as_the_file() -> None:
    parts = (raw_file(b"a/z", b"x"), raw_header(b"a/b", b"1", link=b"a/z"))
    assert change(*parts) == ["dir 755 a", "file 644 a/b", "hardlink 644 a/z"]
    assert change(*parts, made=Made.COPIED) == ["dir 755 a", "file 644 a/b", "file 644 a/z"]


def test_run_state_is_dropped_from_what_commands_wrote_but_not_from_what_was_placed() -> None:
    parts = (raw_file(b"etc/hosts", b"other"), raw_file(b"tmp/x", b""), raw_file(b".dockerenv", b""))
    assert change(*parts) == []
    assert change(raw_file(b"etc/hosts", b""), made=Made.PLACED) == ["dir 755 etc", "file 644 etc/hosts"]


def test_placed_files_count_though_they_were_there_and_unchanged_directories_do_not() -> None:
    parts = (DIRS, raw_file(b"a/keep", b"1"))
    assert change(*parts, made=Made.PLACED) == ["dir 755 a", "file 644 a/keep"]


def test_what_an_engine_left_out_is_put_back() -> None:
    found = stack()
    checkout = b"".join(raw_header(name, b"5", mode=0o755) for name in (b"w/", b"w/r/", b"w/r/.git/"))
    found.apply(io.BytesIO(checkout + raw_file(b"w/r/f", b"1") + raw_file(b"w/r/.git/HEAD", b"x") + END), Made.PLACED)
    assert found.placed_below(b"w/r/") == [b"w/r/f"]
    only = io.BytesIO(raw_file(b"w/r/g", b"2") + END)
    entries = found.apply(only, Made.PLACED, again=lambda written: [*found.placed_below(b"w/r/"), b"w/never", *written])
    assert said(entries) == ["dir 755 w", "dir 755 w/r", "file 644 w/r/f", "file 644 w/r/g"]
    found.apply(io.BytesIO(raw_file(b"w/r/f", b"3") + END), Made.RAN)
    assert found.placed_below(b"w/r/") == [b"w/r/g"]


def test_a_file_can_be_read_again() -> None:
    assert stack().read(b"a/keep") == b"1"
    assert stack().read(b"a") is None
    assert stack().read(b"a/never") is None


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (raw_file(b"none/x", b""), "none/x: the layer has no directory for it, and none below has"),
        (raw_file(b"a/keep/x", b""), "a/keep/x: the layer has no directory for it, and none below has"),
        (raw_header(b"a/l", b"1", link=b"a/never"), "a/l: a hard link to nothing: a/never"),
        (raw_header(b"a/d", b"3"), "a/d: expected files, directories and links, found a character device"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(part: bytes, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        change(part)
    assert str(caught.value) == complaint
