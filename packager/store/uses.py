"""When something in the store was last used: the time of an empty file of its name, since blobs never change."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = "used"


def note_use(root: Path, name: str) -> None:
    """Remember that a blob or tree is being used now; a store that cannot be written to remembers nothing.

    Access times will not do (many disks keep none), nor another time of the blob: marks of layers rely on all of them.
    """
    path = f"{root}/{_FOLDER}/{name}"
    try:
        os.utime(path)
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            os.makedirs(f"{root}/{_FOLDER}", exist_ok=True)  # noqa: PTH103 - pathlib doubles the time
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    except OSError:
        pass


def last_use_s(root: Path, path: Path) -> float:
    """Return when something was last used, or came to its place if it never was, in seconds since 1970."""
    came = path.lstat().st_ctime
    try:
        return max(came, (root / _FOLDER / path.name).stat().st_mtime)
    except OSError:
        return came


def forget_uses(root: Path, gone: Path) -> None:
    """Forget when something was used that is there no more."""
    (root / _FOLDER / gone.name).unlink(missing_ok=True)
