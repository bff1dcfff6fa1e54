"""A stack of layers as values: takes the tars of any engine, without a file system, and says what each layer changes.

Engines write the same change in different ways (opaque directories, unchanged parents, run state) and agree by content.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Protocol

from packager.base.errors import InputError
from packager.oci.dropped import DROPPED
from packager.oci.entries import Entry, Kind, missing_ancestors, show_path, sort_key
from packager.oci.tar_reader import read_tar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from packager.oci.tar_reader import EntryReader

    Again = Callable[[Iterable[bytes]], Iterable[bytes]]


class Made(enum.Enum):
    """How a layer came to be: files laid down as they are, another tree copied, or a command that ran."""

    PLACED = "ADD"
    COPIED = "COPY"
    RAN = "RUN"


class Readable(Protocol):
    """The bytes of one file, to be read once."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, nothing at the end."""


@dataclass(frozen=True, slots=True)
class _Node:
    """What is at a path: the entry (a hard link as the file that it is), its bytes' digest, and which file it is."""

    entry: Entry
    digest: bytes = b""
    file: object = None

    def same_as(self, other: _Node | None) -> bool:
        """Say whether both are equal but for their place and time."""
        if other is None:
            return False
        a, b = self.entry, other.entry
        same = (a.kind, a.uid, a.gid, a.link, a.capability) == (b.kind, b.uid, b.gid, b.link, b.capability)
        return same and self.digest == other.digest and (a.mode == b.mode or a.kind is Kind.SYMLINK)


class Stack:
    """The merged tree of the layers so far; `keep` stores a file's bytes for as long as the caller needs them."""

    def __init__(self, keep: Callable[[Readable, int], Path | bytes]) -> None:
        self._keep = keep
        self._nodes: dict[bytes, _Node] = {}
        self._children: dict[bytes, set[bytes]] = {}
        self._placed_nodes: dict[bytes, _Node] = {}

    def read(self, path: bytes) -> bytes | None:
        """Return the bytes of a file, if there is one."""
        node = self._nodes.get(path)
        if node is None or node.entry.kind is not Kind.FILE or node.entry.content is None:
            return None
        content = node.entry.content
        return content if isinstance(content, bytes) else content.read_bytes()

    def placed_below(self, folder: bytes) -> list[bytes]:
        """Return the files of a checkout that placed layers laid down and nothing has changed since."""
        return [path for path, node in self._placed_nodes.items() if self._is_below(path, folder, node)]

    def _is_below(self, path: bytes, folder: bytes, node: _Node) -> bool:
        inside = path.startswith(folder) and not path.startswith(folder + b".git/")
        return inside and node.entry.kind is not Kind.DIR and node.same_as(self._nodes.get(path))

    def apply(self, tar: IO[bytes], made: Made, *, again: Again = lambda _: ()) -> list[Entry]:
        """Put a layer on top and return the entries of the canonical layer that has the same effect.

        Of a placed layer every file counts, also one that was there before, and what `again` names for what was
        written: some engines leave out what is the same below. Of other layers only what differs counts, without what
        DROPPED names. A copy has no hard links: they were broken when the layers that it was made of were unpacked.
        """
        before: dict[bytes, _Node | None] = {}
        written: list[bytes] = []
        added: list[tuple[Entry, bytes]] = []
        for entry, reader in read_tar(tar):
            if entry.kind in (Kind.WHITEOUT, Kind.OPAQUE):
                self._delete(entry, before)
            else:
                added.append(self._taken(entry, reader))
        for entry, digest in added:
            self._add(entry, digest, before)
            written.append(entry.path)
        if made is Made.PLACED:
            return self._placed(before, {*written, *(path for path in again(written) if path in self._nodes)})
        found = self._changed(before)
        return [self._unlinked(entry) for entry in found] if made is Made.COPIED else found

    def _unlinked(self, entry: Entry) -> Entry:
        return self._nodes[entry.path].entry if entry.kind is Kind.HARDLINK else entry

    def _taken(self, entry: Entry, reader: EntryReader) -> tuple[Entry, bytes]:
        if entry.kind is not Kind.FILE:
            return entry, b""
        found = _Hashing(reader)
        content = self._keep(found, entry.size)
        return replace(entry, content=content), found.digest()

    def _delete(self, entry: Entry, before: dict[bytes, _Node | None]) -> None:
        if entry.kind is Kind.WHITEOUT:
            self._remove(entry.path, before)
            return
        for name in list(self._children.get(entry.path, ())):
            self._remove(name, before)

    def _remove(self, path: bytes, before: dict[bytes, _Node | None]) -> None:
        pending = [path]
        while pending:
            one = pending.pop()
            pending.extend(self._children.pop(one, ()))
            old = self._nodes.pop(one, None)
            if old is not None:
                before.setdefault(one, old)
        self._children.get(path.rpartition(b"/")[0], set()).discard(path)

    def _add(self, entry: Entry, digest: bytes, before: dict[bytes, _Node | None]) -> None:
        node = self._linked(entry) if entry.kind is Kind.HARDLINK else _Node(entry, digest, object())
        path = entry.path
        old = self._nodes.get(path)
        if old is not None and not (old.entry.kind is entry.kind is Kind.DIR):
            self._remove(path, before)
        before.setdefault(path, old)
        self._nodes[path] = node
        parent = path.rpartition(b"/")[0]
        if not self._is_there(parent):
            raise InputError("the layer has no directory for it, and none below has", where=show_path(path))
        self._children.setdefault(parent, set()).add(path)

    def _linked(self, entry: Entry) -> _Node:
        target = self._nodes.get(entry.link)
        if target is None or target.entry.kind is not Kind.FILE:
            raise InputError(f"a hard link to nothing: {show_path(entry.link)}", where=show_path(entry.path))
        return _Node(replace(target.entry, path=entry.path), target.digest, target.file)

    def _placed(self, before: dict[bytes, _Node | None], written: Iterable[bytes]) -> list[Entry]:
        """Return all files that were written, and of the directories those that are new, changed or on the way."""
        paths = {path for path in written if self._nodes[path].entry.kind is not Kind.DIR}
        paths.update(path for path, old in before.items() if path in self._nodes and not self._nodes[path].same_as(old))
        self._placed_nodes.update((path, self._nodes[path]) for path in paths)
        return self._entries(paths, ())

    def _changed(self, before: dict[bytes, _Node | None]) -> list[Entry]:
        touched = [path for path in before if not _is_dropped(path)]
        paths = {path for path in touched if path in self._nodes and not self._nodes[path].same_as(before[path])}
        gone = {path for path in touched if path not in self._nodes and before[path] is not None}
        topmost = (path for path in gone if self._is_there(path.rpartition(b"/")[0]))
        return self._entries(paths, topmost)

    def _is_there(self, folder: bytes) -> bool:
        """Say whether a directory is there in which something can be deleted."""
        return not folder or (folder in self._nodes and self._nodes[folder].entry.kind is Kind.DIR)

    def _entries(self, paths: set[bytes], gone: Iterable[bytes]) -> list[Entry]:
        deleted = [Entry(path, Kind.WHITEOUT) for path in gone]
        everything = {*paths, *(entry.path for entry in deleted)}
        everything.update(missing_ancestors(everything))
        nodes = [self._nodes[path] for path in sorted(everything, key=_order) if path in self._nodes]
        return sorted([*_with_links(nodes), *deleted], key=sort_key)


def _order(path: bytes) -> bytes:
    return path.replace(b"/", b"\0")


def _with_links(nodes: Iterable[_Node]) -> Iterator[Entry]:
    """Yield the entries; of several names of one file the first is the file."""
    first: dict[int, bytes] = {}
    for node in nodes:
        entry = node.entry
        known = first.setdefault(id(node.file), entry.path) if entry.kind is Kind.FILE else entry.path
        if known == entry.path:
            yield entry
        else:
            yield Entry(entry.path, Kind.HARDLINK, entry.mode, entry.uid, entry.gid, link=known)


def _is_dropped(path: bytes) -> bool:
    """Say whether a path or a directory above it never enters a layer."""
    while path:
        parent = path.rpartition(b"/")[0]
        if DROPPED.names(path, parent) or DROPPED.inside(parent):
            return True
        path = parent
    return False


class _Hashing:
    """Passes a file's bytes on and hashes them."""

    def __init__(self, reader: EntryReader) -> None:
        self._reader = reader
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._reader.read(size)
        self._hash.update(block)
        return block

    def digest(self) -> bytes:
        return self._hash.digest()
