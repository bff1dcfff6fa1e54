"""The output of a command: its end is kept, its last line is progress."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from packager.base.progress import Event

if TYPE_CHECKING:
    from packager.base.progress import Progress

_TAIL_BYTES = 6000


class Log:
    """Keeps the end of what a step wrote and passes its last line on as progress."""

    def __init__(self, progress: Progress, step: str) -> None:
        self._blocks: deque[bytes] = deque()
        self._size = 0
        self._progress = progress
        self._step = step

    def write(self, block: bytes) -> None:
        """Take a block of output."""
        self._blocks.append(block)
        self._size += len(block)
        while self._size - len(self._blocks[0]) > _TAIL_BYTES:
            self._size -= len(self._blocks.popleft())
        line = block.decode(errors="replace").strip().rpartition("\n")[2]
        if line:
            self._progress(Event(f"step {self._step}", message=line[:160]))

    def tail(self) -> bytes:
        """Return the end of the output, a few thousand bytes at the most."""
        return b"".join(self._blocks)[-_TAIL_BYTES:]
