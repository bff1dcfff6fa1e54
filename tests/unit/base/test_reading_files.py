"""What a person names as a file may be anything: it is read only if it is a file, and no further than it may go."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.base.files import is_there, read_file, read_text_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda _path: None, "cannot be read: No such file or directory"),
    "folder": (lambda path: path.mkdir(), "expected a file, found something else"),
    "pipe": (os.mkfifo, "expected a file, found something else"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "expected a file, found something else"),
    "circle": (lambda path: path.symlink_to(path.name), "cannot be read: Too many levels of symbolic links"),
    "nowhere": (lambda path: path.symlink_to("x"), "cannot be read: No such file or directory"),
    "much": (lambda path: path.write_bytes(b"12345"), "expected at most 4 bytes, found more"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_what_is_no_file_of_the_right_size_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "named"
    make, reason = DAMAGES[kind]
    make(path)
    with pytest.raises(InputError) as caught:
        read_file(path, limit=4)
    assert str(caught.value) == f"{path}: {reason}"


def test_a_file_up_to_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "named"
    path.write_bytes(b"1234")
    assert (read_file(path, limit=4), is_there(path), is_there(tmp_path / "other")) == (b"1234", True, False)


def test_text_that_is_not_utf_8_says_where(tmp_path: Path) -> None:
    path = tmp_path / "named"
    path.write_bytes(b"ab\xff")
    with pytest.raises(InputError) as caught:
        read_text_file(path, limit=4)
    assert str(caught.value) == f"{path}: not UTF-8: invalid start byte at byte 2"


def test_a_link_to_nowhere_is_there_and_a_name_with_nul_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert is_there(tmp_path / "link")
    with pytest.raises(InputError) as caught:
        read_file(tmp_path / "a\0b", limit=4)
    assert str(caught.value) == f"{tmp_path}/a\0b: cannot be read: embedded null byte"
