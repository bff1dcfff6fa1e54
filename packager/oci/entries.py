"""What a layer is made of: one value per path, the order of paths, and the names that cannot be written."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

SOURCE_DATE_EPOCH = 315532800
"""1980-01-01T00:00:00Z, the earliest time that zip can hold: the mtime of every entry, the `created` of configs."""

CANONICALISER_ID = "c1"
"""Part of every derivation's key; changes whenever the same tree would give other tar bytes."""

WHITEOUT_PREFIX = b".wh."
OPAQUE_NAME = b".wh..wh..opq"


class Kind(enum.Enum):
    """What an entry is; OPAQUE only comes from layers that others wrote and is never written."""

    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"
    HARDLINK = "hardlink"
    WHITEOUT = "whiteout"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a layer.

    `path` has no leading slash; for WHITEOUT it is the deleted path, for OPAQUE the directory. `mode` holds the
    permission bits (0o7777), `link` a symlink's text or a hard link's target path, `content` a file's bytes or where
    they are. `capability` is the raw security.capability attribute, in its version 2 form.
    """

    path: bytes
    kind: Kind
    mode: int = 0
    uid: int = 0
    gid: int = 0
    size: int = 0
    link: bytes = b""
    capability: bytes | None = None
    content: Path | bytes | None = None


class InOrder:
    """Entries that come in canonical order, ancestors included, none twice: they can be written while they come."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Entry]:
        return self._entries

    def __next__(self) -> Entry:
        return next(self._entries)


def entry_sort_key(path: bytes) -> bytes:
    """Return what orders paths by their components as bytes: `a/b` before `a-b`, a directory before its children."""
    return path.replace(b"/", b"\0")


def sort_key(entry: Entry) -> bytes:
    """Order entries by path components; in each directory the whiteouts come first (image-spec, layer.md: SHOULD)."""
    if entry.kind is not Kind.WHITEOUT:
        return entry_sort_key(entry.path)
    parent, slash, name = entry.path.rpartition(b"/")
    return entry_sort_key(parent + slash) + b"\0" + name


def missing_ancestors(paths: Collection[bytes]) -> list[bytes]:
    """Return the directories on the way to the paths that are not among them, each once."""
    found: dict[bytes, None] = {}
    for path in paths:
        parent = path.rpartition(b"/")[0]
        while parent and parent not in paths and parent not in found:
            found[parent] = None
            parent = parent.rpartition(b"/")[0]
    return list(found)


def show_path(path: bytes) -> str:
    """Return a path for messages: readable, on one line, whatever its bytes."""
    return ascii(path)[2:-1] or "(empty)"


def check_path(path: bytes) -> None:
    """Raise InputError unless `path` is relative and plain: no empty, `.`, `..` parts, no NUL, no whiteout name."""
    if not path or b"\0" in path:
        raise InputError("expected a path of a layer, found an empty one or a NUL byte", where=show_path(path))
    for name in path.split(b"/"):
        if name in (b"", b".", b".."):
            raise InputError("expected a plain path inside the layer", where=show_path(path))
        if name.startswith(WHITEOUT_PREFIX):
            raise InputError(
                "a name that starts with .wh. means a deletion in a layer and cannot be stored",
                where=show_path(path),
                hint="remove the file in the step that makes it, or give it another name",
            )


def file_entry(path: bytes, content: bytes, *, mode: int = 0o644) -> Entry:
    """Return a file of the given bytes, owned by root."""
    return Entry(path, Kind.FILE, mode, size=len(content), content=content)


def dir_entry(path: bytes, *, mode: int = 0o755) -> Entry:
    """Return a directory owned by root."""
    return Entry(path, Kind.DIR, mode)


def symlink_entry(path: bytes, link: bytes) -> Entry:
    """Return a symbolic link owned by root."""
    return Entry(path, Kind.SYMLINK, 0o777, link=link)
