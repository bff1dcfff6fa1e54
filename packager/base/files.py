"""Files that are either whole or absent: written beside their place, flushed, then renamed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from packager.base.errors import WorldError


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path` so that no reader ever sees a part of it; parents are made; trouble is a WorldError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data, mode)
    except OSError as error:
        raise WorldError(f"cannot be written: {error.strerror}", where=str(path)) from error


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
