"""Locks that hold between processes and between threads, and that a kill releases (flock)."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.base.files import disk_trouble

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def hold(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold a lock on a file that stays; without `wait`, a lock that others hold raises WorldError."""
    with disk_trouble(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, mode if wait else mode | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise WorldError(
                "another command is using the store",
                where=str(path),
                hint="wait until it has ended, then try again",
                retryable=True,
            ) from error
        yield
    finally:
        os.close(descriptor)
