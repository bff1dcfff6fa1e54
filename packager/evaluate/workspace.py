"""The checkouts of one run: patches go in, then protected files and hidden tests, whatever is in their way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.evaluate.trees import DirectoryTree, Kind, join, shown
from packager.recipe.globs import matches_any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.evaluate.predictions import Patch
    from packager.sandbox.engine import Tree

HiddenFiles = Mapping[str, tuple[int, bytes]]
"""Path in the checkout → (mode, bytes); mode 0o120000 is a symbolic link and its bytes the target."""

_SYMLINK_MODE = 0o120000
_GIT = b".git"
_MOST_PARTS = 256


class Workspace:
    """The `/workspace` of an open tree, changed from the host without following a link out of it."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def apply(self, target: str, patch: Patch) -> None:
        """Apply a patch to a target's checkout, wholly or not at all; InputError says which hunk does not fit."""
        if not patch.data:
            return
        from packager.evaluate.patches import apply_patch  # noqa: PLC0415 - no patch, no reader of patches

        with DirectoryTree(_checkout(self.tree.root, target)) as files:
            apply_patch(patch.data, files, strip=patch.strip)

    def protect(self, target: str, globs: tuple[str, ...]) -> None:
        """Make every file that matches one of the globs what it is in the image; files that are not there go away."""
        if not globs:
            return
        with (
            DirectoryTree(_checkout(self.tree.lower, target)) as before,
            DirectoryTree(_checkout(self.tree.root, target)) as files,
        ):
            wanted = {path for path in _walk(before, b"") if _is_named(globs, path)}
            for path in [path for path in _walk(files, b"") if _is_named(globs, path) and path not in wanted]:
                files.delete(path)
            for path in sorted(wanted):
                kind, content = before.look(path), before.read(path)
                if kind is not None and not _is_same(files, path, kind, content):
                    put(files, path, content, kind)

    def place(self, target: str, hidden: HiddenFiles) -> None:
        """Write hidden files over the checkout."""
        with DirectoryTree(_checkout(self.tree.root, target)) as files:
            for name, (mode, content) in sorted(hidden.items()):
                path = name.encode("utf-8", "surrogateescape")
                put(files, path, content, _kind(mode))


def put(files: DirectoryTree, path: bytes, content: bytes, kind: Kind) -> None:
    """Write a file where it belongs: links and files among its parents and a directory in its place are removed."""
    parts = path.split(b"/")
    for count in range(1, len(parts)):
        parent = b"/".join(parts[:count])
        if files.look(parent) not in (None, Kind.DIRECTORY):
            files.delete(parent)
    if files.look(path) is Kind.DIRECTORY:
        _empty(files, path)
    files.write(path, content, kind)


def _checkout(root: Path, target: str) -> Path:
    path = root / "workspace" / target
    if path.is_symlink() or not path.is_dir() or path.parent.is_symlink():
        raise InputError("the image has no checkout of this target", where=f"/workspace/{target}")
    return path


def _kind(mode: int) -> Kind:
    if mode == _SYMLINK_MODE:
        return Kind.SYMLINK
    return Kind.PROGRAM if mode & 0o100 else Kind.FILE


def _is_named(globs: tuple[str, ...], path: bytes) -> bool:
    return matches_any(globs, path.decode("utf-8", "surrogateescape"))


def _is_same(files: DirectoryTree, path: bytes, kind: Kind, content: bytes) -> bool:
    return files.look(path) is kind and files.read(path) == content


def _walk(files: DirectoryTree, folder: bytes) -> Iterator[bytes]:
    """Yield the files and links below a folder, without `.git`; too deep a folder is an InputError."""
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        if place.count(b"/") >= _MOST_PARTS:
            raise InputError(f"folders are nested deeper than {_MOST_PARTS}", where=f"{shown(place)[:80]}…")
        for path in [join(place, name) for name in files.names(place)]:
            if path == _GIT:
                continue
            if files.look(path) is Kind.DIRECTORY:
                waiting.append(path)
            else:
                yield path


def _empty(files: DirectoryTree, folder: bytes) -> None:
    for path in list(_walk(files, folder)):
        files.delete(path)
