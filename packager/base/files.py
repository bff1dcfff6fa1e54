"""Files that are either whole or absent: written beside their place, flushed, then renamed; read within bounds."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from packager.base.errors import InputError, WorldError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_SPACE_HINT = "make space (wideswe-pack gc may help); then the same command continues"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_DISK = (*_FULL, errno.EROFS, errno.EIO, errno.EFBIG)


def free_bytes(place: Path) -> int:
    """Return how much this user can still write to the file system of a file or folder."""
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def space_hint(error: OSError) -> str | None:
    """Return what helps where the disk is full, or None for other trouble."""
    return NO_SPACE_HINT if error.errno in _FULL else None


def disk_error(error: OSError, where: str) -> WorldError:
    """Return an OSError of the disk as a WorldError that says where."""
    return WorldError(f"the disk says: {error.strerror}", where=where, hint=space_hint(error))


@contextlib.contextmanager
def disk_trouble(path: Path) -> Iterator[None]:
    """Turn an OSError into a WorldError that names the path; one without a number is not the disk's."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise disk_error(error, str(path)) from error


@contextlib.contextmanager
def full_disk_trouble(where: str) -> Iterator[None]:
    """Turn what only a full, broken or read-only disk says into a WorldError: for verbs, which write in many places."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        raise disk_error(error, str(error.filename or where)) from error


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path` so that no reader ever sees a part of it; parents are made; trouble is a WorldError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data, mode)
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise WorldError(reason, where=str(path), hint=space_hint(error)) from error


def _write(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name[:40]}.{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_file(path: Path, *, limit: int) -> bytes:
    """Return the bytes of a file; a folder, a pipe, a device, too many bytes or nothing there are an InputError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {_reason(error)}", where=str(path)) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError("expected a file, found something else", where=str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {_reason(error)}", where=str(path)) from error
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise InputError(f"expected at most {limit} bytes, found more", where=str(path))
    return data


def read_text_file(path: Path, *, limit: int) -> str:
    """Return the text of a file that a person named; what is not UTF-8 is an InputError."""
    try:
        return read_file(path, limit=limit).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error.reason} at byte {error.start}", where=str(path)) from error


def is_there(path: Path) -> bool:
    """Say whether there is anything at `path`; a folder that may not be searched is an InputError, not a no."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path.is_symlink()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {_reason(error)}", where=str(path)) from error
    return True


def _reason(error: OSError | ValueError) -> str:
    return str(error) if isinstance(error, ValueError) else error.strerror or str(error)
