"""Unpacked trees: filled under another name, then renamed; and removed whatever their modes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.files import disk_trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.store.disk import Disk


def make_tree(disk: Disk, place: Path, fill: Callable[[Path], None], *, scratch: Path) -> None:
    """Make the tree at `place` unless another process just did; the caller holds its lock."""
    if place.is_dir():
        return
    temporary = scratch / os.urandom(12).hex()
    with disk_trouble(temporary):
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir(mode=0o755, parents=True)
    mark = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX)
        fill(temporary)
        with disk_trouble(place):
            disk.rename(temporary, place)
    except BaseException:
        remove_tree(temporary)
        raise
    finally:
        os.close(mark)


def discard_tree(path: Path, *, scratch: Path) -> None:
    """Delete a visible tree; it is gone from its place at once, so that a kill leaves no half of it there."""
    scratch.mkdir(parents=True, exist_ok=True)
    doomed = scratch / os.urandom(12).hex()
    path.rename(doomed)
    remove_tree(doomed)


def remove_tree(path: Path) -> None:
    """Delete a tree, also where directories deny it; what is gone already is no error."""
    import shutil  # noqa: PLC0415 - slow to import

    if os.geteuid() != 0:
        _open_up(path)
    shutil.rmtree(path, ignore_errors=True)


def _open_up(path: Path) -> None:
    for folder, names, _ in os.walk(path, onerror=None):
        for name in names:
            _open_folder(Path(folder, name))


def _open_folder(path: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        with contextlib.suppress(PermissionError):  # another user's; where that matters, the caller looks
            path.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
