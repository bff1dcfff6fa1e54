"""Applies git-format patches byte-exact: all of a patch or nothing of it.

As `git apply` does: context must match exactly, at the stated line or at the nearest place; there is no fuzz.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.evaluate.binary_patch import apply_delta, blob_id
from packager.evaluate.patch_format import FilePatch, Hunk, parse_patch
from packager.evaluate.patch_names import check_path
from packager.evaluate.predictions import Patch, Prediction, Predictions, read_predictions
from packager.evaluate.trees import Kind, Tree, join, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Applied", "Patch", "Prediction", "Predictions", "apply_patch", "read_predictions"]

_NO_ID = b"0" * 40
_DEEP = 200


@dataclass(frozen=True)
class Applied:
    """What a patch did: the paths that it wrote and removed, and each hunk that did not stand at its stated line."""

    written: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    moved_hunks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Change:
    """The end of one path: its new content and kind."""

    content: bytes
    kind: Kind
    where: str


def apply_patch(data: bytes, tree: Tree, *, strip: int = 1) -> Applied:
    """Apply a patch to a tree, or raise InputError with file, hunk and reason and leave the tree as it was.

    Everything is computed before the first write. A disk that fails while writing raises WorldError, and the tree is
    then to be thrown away.
    """
    plan = _Plan(tree)
    for patch in parse_patch(data, strip=strip):
        plan.add(patch)
    plan.check()
    return plan.carry_out()


class _Plan:
    """What is to be written and removed; every file is read as it was before the patch."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._written: dict[bytes, _Change] = {}
        self._removed: dict[bytes, str] = {}
        self._moved: list[str] = []

    def add(self, patch: FilePatch) -> None:
        """Work out one file patch."""
        content, kind = b"", Kind.FILE
        if patch.old_path is not None:
            content, kind = self._before(patch, patch.old_path)
        if patch.new_kind is not None and patch.old_path is not None and _is_link(kind) != _is_link(patch.new_kind):
            raise InputError("a file becomes a link, or a link a file, without being removed", where=patch.where)
        after = self._content(patch, content)
        if patch.old_path is not None and not patch.is_copy:
            self._remove(patch.old_path, patch)
        if patch.new_path is None:
            if after:
                raise InputError("the file is removed, but the patch leaves content in it", where=patch.where)
            return
        self._write(patch.new_path, _Change(after, patch.new_kind or kind, patch.where))

    def _before(self, patch: FilePatch, path: bytes) -> tuple[bytes, Kind]:
        kind = self._tree.look(path)
        if kind is None:
            raise InputError(f"no such file to change: {shown(path)}", where=patch.where)
        if kind in {Kind.DIRECTORY, Kind.OTHER}:
            raise InputError(f"expected a file, found something else: {shown(path)}", where=patch.where)
        if patch.old_kind is not None and _is_link(kind) != _is_link(patch.old_kind):
            raise InputError(f"expected a {_word(patch.old_kind)}, found a {_word(kind)}", where=patch.where)
        return self._tree.read(path), kind

    def _content(self, patch: FilePatch, before: bytes) -> bytes:
        if patch.binary is None:
            return self._apply_hunks(patch, before)
        expected = _NO_ID if patch.old_path is None else blob_id(before)
        if patch.old_id != expected:
            raise InputError("the binary file is not the one that the patch was made for", where=patch.where)
        binary = patch.binary
        after = apply_delta(before, binary.data, where=patch.where) if binary.is_delta else binary.data
        if patch.new_id != (_NO_ID if patch.new_path is None else blob_id(after)):
            raise InputError("the binary data does not give the file that the patch names", where=patch.where)
        return after

    def _apply_hunks(self, patch: FilePatch, before: bytes) -> bytes:
        if not patch.hunks:
            return before
        image = _Image(before)
        for number, hunk in enumerate(patch.hunks, 1):
            name = shown(patch.new_path or patch.old_path or b"?")
            where = f"{name}, hunk {number} (line {hunk.line} of the patch)"
            offset = image.apply(hunk)
            if offset is None:
                raise InputError(image.reason(hunk), where=where)
            if offset:
                self._moved.append(f"{where}: {abs(offset)} lines {'further down' if offset > 0 else 'further up'}")
        return image.content()

    def _remove(self, path: bytes, patch: FilePatch) -> None:
        if path in self._removed:
            raise InputError(f"the patch changes {shown(path)} twice", where=patch.where)
        self._removed[path] = patch.where

    def _write(self, path: bytes, change: _Change) -> None:
        if path in self._written:
            raise InputError(f"the patch writes {shown(path)} twice", where=change.where)
        if change.kind is Kind.SYMLINK and (not change.content or b"\0" in change.content):
            raise InputError("a symbolic link without a proper target", where=change.where)
        self._written[path] = change

    def check(self) -> None:
        """Refuse what cannot be written: a path that is taken, or whose parent is no directory."""
        for path, change in self._written.items():
            check_path(path, where=change.where)
            kind = self._tree.look(path)
            if kind is Kind.DIRECTORY:
                for inner in self._files_below(path):
                    raise InputError(f"there is a directory, which holds {shown(inner)}", where=change.where)
            elif kind is not None and path not in self._removed:
                raise InputError("the file is there already", where=change.where)
            self._check_parents(path, change.where)

    def _check_parents(self, path: bytes, where: str) -> None:
        parts = path.split(b"/")
        for length in range(1, len(parts)):
            parent = b"/".join(parts[:length])
            if parent in self._written:
                raise InputError(f"the patch makes {shown(parent)} a file and a directory", where=where)
            kind = self._tree.look(parent)
            if kind is None or (kind is not Kind.DIRECTORY and parent in self._removed):
                return
            if kind is not Kind.DIRECTORY:
                raise InputError(f"{shown(parent)} is a {_word(kind)}, not a directory", where=where)

    def _files_below(self, path: bytes) -> Iterator[bytes]:
        """Yield the files below a directory that the patch leaves there."""
        waiting = [path]
        while waiting:
            place = waiting.pop()
            for name in self._tree.names(place):
                inner = join(place, name)
                if self._tree.look(inner) is Kind.DIRECTORY and inner.count(b"/") < _DEEP:
                    waiting.append(inner)
                elif inner not in self._removed:
                    yield inner

    def carry_out(self) -> Applied:
        """Remove, then write."""
        removed = [path for path in self._removed if path not in self._written]
        for path in sorted(removed, reverse=True):
            self._tree.delete(path)
        for path, change in sorted(self._written.items()):
            self._tree.write(path, change.content, change.kind)
        return Applied(tuple(sorted(self._written)), tuple(sorted(removed)), tuple(self._moved))


def _is_link(kind: Kind) -> bool:
    return kind is Kind.SYMLINK


def _word(kind: Kind) -> str:
    return {Kind.SYMLINK: "symbolic link", Kind.DIRECTORY: "directory", Kind.OTHER: "special file"}.get(kind, "file")


class _Image:
    """The lines of a file while hunks are applied; a line that a hunk put there is not matched again."""

    def __init__(self, content: bytes) -> None:
        self._lines = split_lines(content)
        self._done = [False] * len(self._lines)

    def content(self) -> bytes:
        return b"".join(self._lines)

    def apply(self, hunk: Hunk) -> int | None:
        """Apply one hunk and return by how many lines it was moved; None if it fits nowhere."""
        stated = max(hunk.new_start - 1, 0)
        for place in self._places(hunk, stated):
            if self._fits(hunk.old, place):
                self._lines[place : place + len(hunk.old)] = hunk.new
                self._done[place : place + len(hunk.old)] = [True] * len(hunk.new)
                return place - stated if hunk.old_start else 0
        return None

    def _places(self, hunk: Hunk, stated: int) -> Iterator[int]:
        """Yield where to look, nearest first and down before up.

        A hunk for the first line fits only at the beginning, one without context after its change only at the end.
        """
        last = len(self._lines) - len(hunk.old)
        at_begin, at_end = hunk.old_start <= 1, not hunk.trailing
        if at_begin or at_end:
            place = 0 if at_begin else last
            if place == last or not at_end:
                yield place
            return
        stated = min(stated, len(self._lines))
        yield stated
        for distance in range(1, len(self._lines) + 1):
            yield stated + distance
            yield stated - distance

    def _fits(self, old: Sequence[bytes], place: int) -> bool:
        end = place + len(old)
        if place < 0 or end > len(self._lines) or (old and self._lines[place] != old[0]):
            return False
        return self._lines[place:end] == list(old) and not any(self._done[place:end])

    def reason(self, hunk: Hunk) -> str:
        """Say why a hunk fits nowhere: the first line that is not what it expects, at its stated place."""
        start = max(hunk.new_start - 1, 0)
        for index, expected in enumerate(hunk.old):
            found = self._lines[start + index] if start + index < len(self._lines) else None
            if found != expected:
                seen = "the end of the file" if found is None else _line(found)
                return f"does not fit: at line {start + index + 1} expected {_line(expected)}, found {seen}"
        return "does not fit: it must stand at the beginning or the end of the file, or after the hunk before it"


def _line(line: bytes) -> str:
    return ascii(line.decode("utf-8", errors="backslashreplace")[:120])


def split_lines(content: bytes) -> list[bytes]:
    """Return the lines of a file with their ends; only a line feed ends a line."""
    lines = content.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
