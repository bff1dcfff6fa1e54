"""Unpacked trees: filled under another name, then renamed; and removed whatever their modes."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import stat
from typing import TYPE_CHECKING

from packager.base.files import disk_trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.store.disk import Disk

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


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


def discard_tree(path: Path, *, scratch: Path) -> bool:
    """Delete a visible tree and say whether all of it is gone.

    It leaves its place at once, so that a kill leaves no half of it there.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    doomed = scratch / os.urandom(12).hex()
    path.rename(doomed)
    remove_tree(doomed)
    return not doomed.exists()


def remove_tree(path: Path) -> None:
    """Delete a tree, also where directories deny it and however deep they are; what cannot be deleted stays.

    Folders in folders are moved to the top first, so that neither the stack nor open files grow with the depth.
    """
    try:
        top = os.open(path, _DIRECTORY)
    except OSError:
        return
    try:
        fresh = map(f"{os.urandom(8).hex()}-{{}}".format, itertools.count())
        while _thin(top, top, fresh):
            pass
    finally:
        os.close(top)
    with contextlib.suppress(OSError):
        path.rmdir()


def _thin(top: int, folder: int, fresh: Iterator[str]) -> bool:
    """Delete what is in a folder; below the top, folders are moved there instead. Say whether anything changed."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    changed = False
    for name, is_folder in found:
        with contextlib.suppress(OSError):
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif folder == top:
                _remove_folder(top, name, fresh)
            else:
                os.chmod(name, stat.S_IRWXU, dir_fd=folder)
                os.rename(name, next(fresh), src_dir_fd=folder, dst_dir_fd=top)
            changed = True
    return changed


def _remove_folder(top: int, name: str, fresh: Iterator[str]) -> None:
    os.chmod(name, stat.S_IRWXU, dir_fd=top)
    inner = os.open(name, _DIRECTORY, dir_fd=top)
    try:
        _thin(top, inner, fresh)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
