"""Files that hold secrets: made once, whole or not at all, readable by their owner alone, never written over."""

from __future__ import annotations

import os
from pathlib import Path

from packager.base.errors import InputError, WorldError
from packager.base.files import read_file

LIMIT_BYTES = 1 << 20


def create_secret_file(path: Path, data: bytes) -> None:
    """Write a new file with mode 0600; an existing one (a dangling link too) is an InputError and stays as it is."""
    import tempfile  # noqa: PLC0415 - slow to import, and reading needs none

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:40]}.") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), 0o600)
            os.fsync(stream.fileno())
            _link(Path(stream.name), path)
    except OSError as error:
        raise WorldError(f"cannot be written: {error.strerror}", where=str(path)) from error


def _link(temporary: Path, path: Path) -> None:
    try:
        path.hardlink_to(temporary)
    except FileExistsError as error:
        raise InputError("exists already and is not written over", where=str(path), hint=_HINT) from error


def read_secret_file(path: Path) -> bytes:
    """Return the content of a secret file; errors never show any of it."""
    return read_file(path, limit=LIMIT_BYTES)


_HINT = "choose another path, or move the old key to a safe place first: what it opened needs it"
