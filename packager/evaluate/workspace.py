"""The checkouts of one run: patches go in, then protected files and hidden tests, whatever is in their way."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.evaluate.sections import ABSENT, EVERYWHERE
from packager.evaluate.trees import DirectoryTree, Kind, join, shown
from packager.recipe.globs import matches_any
from packager.store.trees import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from packager.evaluate.guards import Guard
    from packager.evaluate.predictions import Patch
    from packager.sandbox.engine import Tree

HiddenFiles = Mapping[str, tuple[int, bytes]]
"""Path in the checkout → (mode, bytes); mode 0o120000 is a symbolic link and its bytes the target."""

_SYMLINK_MODE = 0o120000
_GIT = b".git"
_MOST_PARTS = 256
_READABLE = (Kind.FILE, Kind.PROGRAM)


class Workspace:
    """The `/workspace` of an open tree, changed from the host without following a link out of it."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def require(self, targets: Sequence[str]) -> None:
        """Raise InputError if the tree lacks the checkout of a target: a real folder below a real `/workspace`."""
        for target in targets:
            _checkout(self.tree.root, target)

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

    def restore(self, target: str, guard: Guard, *, prepared: bool) -> None:
        """Make guarded files what they are in the image, of those that were changed since."""
        files_of = (self.tree.lower, self.tree.root)
        written = self.tree.upper / "workspace" / target
        if not written.is_dir():
            return  # nobody wrote anything
        with contextlib.ExitStack() as held:
            before, files = (held.enter_context(DirectoryTree(_checkout(root, target))) for root in files_of)
            upper = held.enter_context(DirectoryTree(written))
            for path in sorted(set(_changed(upper, before, files))):
                name = path.decode("utf-8", "surrogateescape")
                section = None if prepared else guard.section(name)
                if prepared and name in guard.own and before.look(path) is None:
                    continue  # prepare commands may well make what the test command runs
                if guard.covers(name, prepared=prepared) or (section and _differs(before, files, path, section)):
                    _put_back(before, files, path)

    def altered(self, target: str, hidden: HiddenFiles) -> str:
        """Return the first hidden file that is not what was placed, or nothing."""
        try:
            with DirectoryTree(_checkout(self.tree.root, target)) as files:
                return next((name for name in sorted(hidden) if not _is_placed(files, name, hidden[name])), "")
        except InputError:
            return f"/workspace/{target}"

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


def keep_out(upper: Path, targets: list[str]) -> None:
    """Forget what was written to the checkouts of other targets, so that a prepared tree can lie below theirs."""
    place = upper / "workspace"
    for name in targets if place.is_dir() and not place.is_symlink() else ():
        found = place / name
        if found.is_dir() and not found.is_symlink():
            remove_tree(found)
        else:
            found.unlink(missing_ok=True)


def _checkout(root: Path, target: str) -> Path:
    path = root / "workspace" / target
    if path.is_symlink() or not path.is_dir() or path.parent.is_symlink():
        raise InputError("the image has no checkout of this target", where=f"/workspace/{target}")
    return path


def _kind(mode: int) -> Kind:
    if mode == _SYMLINK_MODE:
        return Kind.SYMLINK
    return Kind.PROGRAM if mode & 0o100 else Kind.FILE


def _is_placed(files: DirectoryTree, name: str, wanted: tuple[int, bytes]) -> bool:
    path = name.encode("utf-8", "surrogateescape")
    found, is_link = files.look(path), _kind(wanted[0]) is Kind.SYMLINK
    return found in (*_READABLE, Kind.SYMLINK) and (found is Kind.SYMLINK) == is_link and files.read(path) == wanted[1]


def _changed(upper: DirectoryTree, before: DirectoryTree, files: DirectoryTree) -> Iterator[bytes]:
    """Yield every path that is no folder and may not be what it was: what was written, and what that hides."""
    waiting = [b""]
    while waiting:
        place = waiting.pop()
        if place.count(b"/") >= _MOST_PARTS:
            raise InputError(f"folders are nested deeper than {_MOST_PARTS}", where=f"{shown(place)[:80]}…")
        written = upper.names(place)
        is_old = not place or before.look(place) is Kind.DIRECTORY
        is_there = not place or files.look(place) is Kind.DIRECTORY
        here = set(files.names(place)) if is_there else set()
        gone = {name for name in before.names(place) if name not in here} if is_old else set()
        for path in [join(place, name) for name in {*written, *gone} if join(place, name) != _GIT]:
            if upper.look(path) is Kind.DIRECTORY:
                waiting.append(path)
            if before.look(path) is not Kind.DIRECTORY:
                yield path
            elif files.look(path) is not Kind.DIRECTORY:
                yield path
                yield from _walk(before, path)


def _differs(before: DirectoryTree, files: DirectoryTree, path: bytes, section: Callable[[bytes], object]) -> bool:
    if (
        before.look(path) is None
        and b"/" in path
        and path.rpartition(b"/")[2].decode(errors="replace") not in EVERYWHERE
    ):
        return False
    old, new = (one.read(path) if one.look(path) in _READABLE else ABSENT for one in (before, files))
    if files.look(path) is Kind.SYMLINK:
        return True
    return old != new and section(old) != section(new)


def _put_back(before: DirectoryTree, files: DirectoryTree, path: bytes) -> None:
    kind = before.look(path)
    if kind in _READABLE or kind is Kind.SYMLINK:
        content = before.read(path)
        if not _is_same(files, path, kind, content):
            put(files, path, content, kind)
    elif files.look(path) not in (None, Kind.DIRECTORY):
        files.delete(path)


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
