"""A tree of files in memory, with the same door as a directory on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import InputError, WorldError
from packager.evaluate.trees import Kind, shown

if TYPE_CHECKING:
    from collections.abc import Mapping


class MemoryTree:
    """Files and links by path; directories are what paths imply."""

    def __init__(self, files: Mapping[bytes, tuple[Kind, bytes]] | None = None) -> None:
        self.files = dict(files or {})

    def look(self, path: bytes) -> Kind | None:
        if path in self.files:
            return self.files[path][0]
        return Kind.DIRECTORY if any(one.startswith(path + b"/") for one in self.files) else None

    def names(self, path: bytes) -> list[bytes]:
        start = path + b"/" if path else b""
        return sorted({one[len(start) :].partition(b"/")[0] for one in self.files if one.startswith(start)})

    def read(self, path: bytes) -> bytes:
        if path not in self.files:
            raise InputError("no such file", where=shown(path))
        return self.files[path][1]

    def write(self, path: bytes, content: bytes, kind: Kind) -> None:
        if self.look(path) is Kind.DIRECTORY:
            raise WorldError("cannot be written: Directory not empty", where=shown(path))
        self.files[path] = (kind, content)

    def delete(self, path: bytes) -> None:
        if path not in self.files:
            raise WorldError("cannot be removed: No such file or directory", where=shown(path))
        del self.files[path]
