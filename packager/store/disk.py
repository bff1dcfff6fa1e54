"""The store's door to the file system: the few calls that can fail half way, so that tests can let them fail."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Disk:
    """The real file system."""

    def create(self, path: Path) -> int:
        """Create a file that does not exist yet and return its descriptor."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of `data`."""
        written = os.write(descriptor, data)
        view = memoryview(data)
        while written < len(data):
            written += os.write(descriptor, view[written:])

    def begin_sync(self, descriptor: int, start: int, size: int) -> None:
        """Let the kernel write a range out while more comes, so that `finish` waits for little."""
        os.posix_fadvise(descriptor, start, size, os.POSIX_FADV_DONTNEED)

    def finish(self, descriptor: int, mode: int) -> None:
        """Set the mode and make the content durable."""
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """Move a file or directory to its place at once."""
        os.rename(old, new)  # noqa: PTH104 - replaces nothing but files, and says so by its name


DISK = Disk()
