"""A disk whose n-th call fails: the fake behind the fault sweep."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from packager.store.disk import Disk

if TYPE_CHECKING:
    from pathlib import Path


class FaultyDisk(Disk):
    """Counts calls that change the disk; the call number `fail_at` (1, 2, …) fails half way with ENOSPC."""

    def __init__(self, fail_at: int) -> None:
        self.fail_at = fail_at
        self.calls = 0

    @property
    def met_fault(self) -> bool:
        """Whether the fault was reached."""
        return self.calls >= self.fail_at

    def create(self, path: Path) -> int:
        self._count()
        return super().create(path)

    def write(self, descriptor: int, data: bytes) -> None:
        try:
            self._count()
        except OSError:
            super().write(descriptor, data[: len(data) // 2])
            raise
        super().write(descriptor, data)

    def finish(self, descriptor: int, mode: int) -> None:
        self._count()
        super().finish(descriptor, mode)

    def rename(self, old: Path, new: Path) -> None:
        self._count()
        super().rename(old, new)

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.fail_at:
            raise OSError(errno.ENOSPC, "No space left on device")
