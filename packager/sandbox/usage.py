"""How much a running command has written: looked at now and then, since no quota works on every file system."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_BLOCK_BYTES = 512  # man 2 stat, st_blocks
_LOOK_S = 0.5
_LEISURE = 10
"""Times what a look took until the next one: looking must not become the work."""


def used_bytes(folders: Sequence[Path], *, most: int) -> int:
    """Return the bytes that the files below folders take on the disk; counting ends soon above `most`."""
    total = 0
    waiting = [os.fspath(folder) for folder in folders]
    while waiting and total <= most:
        size, inside = _look_into(waiting.pop())
        total += size
        waiting += inside
    return total


def _look_into(folder: str) -> tuple[int, list[str]]:
    """Return what the entries of one folder take, and its folders; it may change while we look."""
    total, inside = 0, []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
            if entry.is_dir(follow_symlinks=False):
                inside.append(entry.path)
    return total, inside


class Watch:
    """Looks at folders now and then; `is_over` says whether they hold more than `most` bytes, once for ever."""

    def __init__(self, folders: Sequence[Path], most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folders = folders
        self._most = most
        self._clock = clock
        self._next = clock() + _LOOK_S
        self.is_over = False

    def wait_s(self) -> float:
        """Return how long to wait until the next look; one that is due is taken now."""
        started = self._clock()
        if started >= self._next:
            self.is_over = self.is_over or used_bytes(self._folders, most=self._most) > self._most
            ended = self._clock()
            self._next = ended + max(_LOOK_S, _LEISURE * (ended - started))
        return max(0.0, self._next - self._clock())
