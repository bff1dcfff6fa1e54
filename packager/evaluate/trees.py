"""Trees that patches change: the door, and a directory behind it that an agent may have filled with anything."""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import stat
from typing import TYPE_CHECKING, Protocol, Self

from packager.base.errors import InputError, WorldError
from packager.base.files import space_hint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_FILE_BYTES = 512 << 20
"""Larger files are not read: a patch neither changes nor holds them."""

_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Kind(enum.IntEnum):
    """What a path is, as git counts it; the values are git's modes."""

    DIRECTORY = 0o040000
    FILE = 0o100644
    PROGRAM = 0o100755
    SYMLINK = 0o120000
    OTHER = 0
    """A device, socket or pipe."""


class Tree(Protocol):
    """Files by relative path in bytes; a path whose parent is not a real directory is not there (None)."""

    def look(self, path: bytes) -> Kind | None:
        """Return what is at `path`, never following a symbolic link; None if nothing is."""

    def names(self, path: bytes) -> list[bytes]:
        """Return the names in the directory at `path`, sorted; b"" is the root."""

    def read(self, path: bytes) -> bytes:
        """Return the content of a file, or the target of a symbolic link."""

    def write(self, path: bytes, content: bytes, kind: Kind) -> None:
        """Put a file, program or symbolic link at `path` and replace a file or an empty directory; make parents."""

    def delete(self, path: bytes) -> None:
        """Remove the file at `path`, and its parents as far as that leaves them empty."""


def join(parent: bytes, name: bytes) -> bytes:
    """Return the path of `name` in the directory `parent` (b"": the root)."""
    return parent + b"/" + name if parent else name


def shown(path: bytes) -> str:
    """Return a path for people."""
    return path.decode("utf-8", errors="backslashreplace")


class DirectoryTree:
    """A directory; each component of a path is opened on its own and must be a real directory.

    Files are replaced, never written in place, so that no hard link carries a change out of the tree.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._root)

    def look(self, path: bytes) -> Kind | None:
        """Return what is at `path`, never following a symbolic link; None if nothing is."""
        with self._parent(path) as (parent, name):
            if parent < 0:
                return None
            try:
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            except OSError as error:
                if error.errno in _NOT_THERE:
                    return None
                raise WorldError(f"cannot be seen: {error.strerror}", where=shown(path)) from error
            return _kind(found.st_mode)

    def names(self, path: bytes) -> list[bytes]:
        """Return the names in the directory at `path`, sorted; b"" is the root."""
        with self._parent(join(path, b".")) as (directory, _):
            if directory < 0:
                raise InputError("not a directory", where=shown(path))
            return sorted(os.fsencode(name) for name in os.listdir(directory))  # noqa: PTH208 - by descriptor

    def read(self, path: bytes) -> bytes:
        """Return the content of a file, or the target of a symbolic link."""
        with self._parent(path) as (parent, name):
            if parent < 0:
                raise InputError("no such file", where=shown(path))
            try:
                return _read(parent, name, path)
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", where=shown(path)) from error

    def write(self, path: bytes, content: bytes, kind: Kind) -> None:
        """Put a file, program or symbolic link at `path` and replace a file or an empty directory; make parents."""
        with self._parent(path, make=True) as (parent, name):
            try:
                _remove(parent, name)
                _create(parent, name, content, kind)
            except OSError as error:
                reason = f"cannot be written: {error.strerror}"
                raise WorldError(reason, where=shown(path), hint=space_hint(error)) from error

    def delete(self, path: bytes) -> None:
        """Remove the file at `path`, and its parents as far as that leaves them empty."""
        with self._parent(path) as (parent, name):
            try:
                os.unlink(name, dir_fd=parent)
            except OSError as error:
                raise WorldError(f"cannot be removed: {error.strerror}", where=shown(path)) from error
        above = path.rpartition(b"/")[0]
        with contextlib.suppress(OSError):
            while above:
                with self._parent(above) as (parent, name):
                    os.rmdir(name, dir_fd=parent)
                above = above.rpartition(b"/")[0]

    @contextlib.contextmanager
    def _parent(self, path: bytes, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield a descriptor of the directory that holds `path`, and the last component; -1 if there is none."""
        *parts, name = path.split(b"/")
        current = os.dup(self._root)
        try:
            for part in parts:
                current = _step(current, part, make=make)
                if current < 0:
                    break
            if make and current < 0:
                raise WorldError("a parent is not a directory", where=shown(path))
            yield current, name
        finally:
            if current >= 0:
                os.close(current)


def _step(current: int, part: bytes, *, make: bool) -> int:
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=current)
                os.chmod(part, 0o755, dir_fd=current)  # noqa: S103 - as git makes folders, whatever the umask
        return os.open(part, _DIRECTORY, dir_fd=current)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return -1
        raise WorldError(f"cannot be opened: {error.strerror}", where=shown(part)) from error
    finally:
        os.close(current)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.PROGRAM if mode & stat.S_IXUSR else Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.DIRECTORY
    return Kind.SYMLINK if stat.S_ISLNK(mode) else Kind.OTHER


def _read(parent: int, name: bytes, path: bytes) -> bytes:
    if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return os.readlink(name, dir_fd=parent)
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise InputError("not a file", where=shown(path))
        if found.st_size > MAX_FILE_BYTES:
            raise InputError(f"expected at most {MAX_FILE_BYTES} bytes, found {found.st_size}", where=shown(path))
        return stream.read(MAX_FILE_BYTES + 1)


def _create(parent: int, name: bytes, content: bytes, kind: Kind) -> None:
    if kind is Kind.SYMLINK:
        os.symlink(content, name, dir_fd=parent)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=parent)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        os.fchmod(descriptor, kind & 0o777)


def _remove(parent: int, name: bytes) -> None:
    """Remove what is at `name`: a file, or a directory that holds nothing but empty directories."""
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=parent)
        return
    directory = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        for inner in os.listdir(directory):  # noqa: PTH208 - by descriptor
            if not stat.S_ISDIR(os.stat(inner, dir_fd=directory, follow_symlinks=False).st_mode):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
            _remove(directory, os.fsencode(inner))
    finally:
        os.close(directory)
    os.rmdir(name, dir_fd=parent)
