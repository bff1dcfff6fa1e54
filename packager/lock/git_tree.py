"""A commit's tree as entries of a layer, read from its objects: nothing is checked out, filtered or left out."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from packager.base.errors import InputError, WorldError
from packager.lock.git_globs import EVERYTHING, Globs
from packager.lock.git_objects import BLOCK_BYTES, SUBMODULE_MODE, TREE_MODE, MissingObjectError, ObjectId
from packager.oci.entries import Entry, Kind, dir_entry, show_path, symlink_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from packager.lock.git_objects import ObjectReader, RawObject

INLINE_FILE_BYTES = 64 << 10
INLINE_TREE_BYTES = 32 << 20
"""So much of a tree's content is kept in memory; the rest lies in files of the cache."""

LFS_START = b"version https://git-lfs.github.com/spec/"
_LFS_BYTES = 1024
_LINK_BYTES = 4095
_SHOWN = 8


class TreeFile(NamedTuple):
    """One path of a tree, directories and submodules included."""

    path: bytes
    mode: int
    id: ObjectId

    @property
    def is_tree(self) -> bool:
        """Whether it is a directory."""
        return self.mode == TREE_MODE

    @property
    def is_submodule(self) -> bool:
        """Whether it names a commit of another repository."""
        return self.mode == SUBMODULE_MODE


@dataclass(frozen=True)
class Pins:
    """What stands for the things that a tree only points at.

    `submodules`: path → the files of that submodule (paths relative to it). `lfs`: path → the file's real content;
    None leaves the pointer as it is.
    """

    submodules: Mapping[bytes, Iterable[Entry]] = field(default_factory=dict)
    lfs: Mapping[bytes, Path | None] = field(default_factory=dict)


NO_PINS = Pins()


def list_tree(reader: ObjectReader, root: ObjectId) -> list[TreeFile]:
    """Return all paths of a tree in the order of git's index, each directory before what it holds."""
    return list(_list(reader, root, b""))


def _list(reader: ObjectReader, root: ObjectId, prefix: bytes) -> Iterator[TreeFile]:
    pending = [iter([TreeFile(prefix, TREE_MODE, root)])]
    while pending:
        found = next(pending[-1], None)
        if found is None:
            pending.pop()
            continue
        if found.path:
            yield found
        if found.is_tree:
            pending.append(iter(_children(reader, found)))


def _children(reader: ObjectReader, parent: TreeFile) -> list[TreeFile]:
    try:
        items = reader.tree(parent.id)
    except MissingObjectError as error:
        place = show_path(parent.path) or "the root"
        raise WorldError(f"the source lacks tree {parent.id} of {place}", where="git source") from error
    prefix = parent.path + b"/" if parent.path else b""
    children = [TreeFile(prefix + item.name, item.mode, item.id) for item in items]
    for item, child in zip(items, children, strict=True):
        if item.name in (b"", b".", b"..") or b"/" in item.name or item.name.lower() == b".git":
            hint = "such a tree was made to harm whoever checks it out; do not use this commit"
            raise InputError("the tree holds a name that no checkout may have", where=show_path(child.path), hint=hint)
        if not (child.is_tree or child.is_submodule or stat.S_ISREG(item.mode) or stat.S_ISLNK(item.mode)):
            raise InputError(f"the tree holds an entry of mode {item.mode:o}", where=show_path(child.path))
    if len({child.path for child in children}) != len(children):
        raise InputError("the tree holds one name twice", where=show_path(parent.path) or "the root")
    return children


class TreeEntries:
    """Turns a listed tree into entries; large content goes to files below `cache`, named by object id."""

    def __init__(self, reader: ObjectReader, cache: Path, pins: Pins = NO_PINS) -> None:
        self._reader = reader
        self._cache = cache
        self._pins = pins
        self._inline = 0
        self._pointers: set[ObjectId] = set()

    def collect(self, items: Iterable[TreeFile], prefix: bytes = b"", globs: Globs = EVERYTHING) -> list[Entry]:
        """Return the entries of those files that count, below `prefix`; directories only where all files count."""
        chosen = [
            item
            for item in items
            if (item.is_tree and globs == EVERYTHING) or (not item.is_tree and globs.match(item.path))
        ]
        self._refuse_submodules(chosen)
        contents = self._contents([item for item in chosen if not item.is_tree and not item.is_submodule])
        start = prefix + b"/" if prefix else b""
        entries = [dir_entry(prefix)] if prefix and globs == EVERYTHING else []
        pointers = []
        for item in chosen:
            if item.is_tree or item.is_submodule:
                entries.append(dir_entry(start + item.path))
                entries += self._submodule(item, start) if item.is_submodule else ()
                continue
            size, content = contents[item.id]
            if item.id in self._pointers and stat.S_ISREG(item.mode) and item.path not in self._pins.lfs:
                pointers.append(item.path)
            entries.append(self._file(item, start + item.path, size, content))
        _refuse(
            "Git LFS pointers",
            pointers,
            "their content is not in the repository; pin each by its sha256, or choose another commit",
        )
        return entries

    def _file(self, item: TreeFile, path: bytes, size: int, content: Path | bytes) -> Entry:
        if stat.S_ISLNK(item.mode):
            link = content if isinstance(content, bytes) else b""
            if not link or b"\0" in link or len(link) > _LINK_BYTES:
                raise InputError("the tree holds a symbolic link without a usable target", where=show_path(item.path))
            return symlink_entry(path, link)
        pinned = self._pins.lfs.get(item.path)
        if pinned is not None:
            size, content = pinned.stat().st_size, pinned
        return Entry(path, Kind.FILE, 0o755 if item.mode & 0o100 else 0o644, size=size, content=content)

    def _submodule(self, item: TreeFile, start: bytes) -> Iterator[Entry]:
        for entry in self._pins.submodules[item.path]:
            yield Entry(
                start + item.path + b"/" + entry.path,
                entry.kind,
                entry.mode,
                size=entry.size,
                link=entry.link,
                content=entry.content,
            )

    def _refuse_submodules(self, items: Iterable[TreeFile]) -> None:
        unpinned = [item.path for item in items if item.is_submodule and item.path not in self._pins.submodules]
        _refuse("submodules", unpinned, "pin each submodule's repository, or choose a commit without them")

    def _contents(self, files: list[TreeFile]) -> dict[ObjectId, tuple[int, Path | bytes]]:
        paths = {item.id: item.path for item in files}
        links = {item.id for item in files if stat.S_ISLNK(item.mode)}
        found: dict[ObjectId, tuple[int, Path | bytes]] = {}
        try:
            for raw in self._reader.read_many(paths):
                if raw.kind != "blob":
                    raise InputError(f"expected a blob, found a {raw.kind}", where=show_path(paths[raw.id]))
                found[raw.id] = (raw.size, raw.data(_LINK_BYTES) if raw.id in links else self._keep(raw))
        except MissingObjectError as error:
            raise WorldError(
                f"the source lacks blob {error.name} of {show_path(paths[error.name])}, which the commit needs",
                where="git source",
                hint="use a source that has it",
            ) from error
        return found

    def _keep(self, raw: RawObject) -> Path | bytes:
        small = raw.data() if raw.size <= INLINE_FILE_BYTES else None
        if small is not None and len(small) < _LFS_BYTES and small.startswith(LFS_START):
            self._pointers.add(raw.id)
        if small is not None and self._inline + raw.size <= INLINE_TREE_BYTES:
            self._inline += raw.size
            return small
        path = self._cache / raw.id[:2] / raw.id[2:]
        if path.is_file() and path.stat().st_size == raw.size and _hashes_to(path, raw):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as stream:
                for block in raw.blocks() if small is None else (small,):
                    stream.write(block)
            temporary.chmod(0o444)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return path


def _hashes_to(path: Path, raw: RawObject) -> bool:
    found = hashlib.sha1(b"blob %d\0" % raw.size, usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            found.update(block)
    return found.hexdigest() == raw.id


def _refuse(what: str, paths: list[bytes], hint: str) -> None:
    if not paths:
        return
    shown = ", ".join(show_path(path) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    raise InputError(f"the tree holds {what}: {shown}{more}", where="git source", hint=hint)
