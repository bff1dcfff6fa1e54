"""Writers and readers of single blobs: guilty until hashed, kept under another name, promoted by a rename."""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
from typing import TYPE_CHECKING, Self

from packager.base.digests import Digest
from packager.base.errors import IntegrityError
from packager.base.files import disk_trouble

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from _typeshed import WriteableBuffer

    from packager.store.disk import Disk

BLOB_MODE = 0o444

_SYNC_BYTES = 16 << 20


class Temporary:
    """A file below `tmp/` that its writer holds a lock on, so that a sweep knows the abandoned ones."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self.path = folder / os.urandom(12).hex()
        with disk_trouble(self.path):
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = disk.create(self.path)
        self._written = 0
        self._synced = 0
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def write(self, data: bytes) -> None:
        """Add bytes; trouble with the disk raises WorldError."""
        with disk_trouble(self.path):
            self._disk.write(self._descriptor, data)
        self._written += len(data)
        if self._written - self._synced >= _SYNC_BYTES:
            self._disk.begin_sync(self._descriptor, self._synced, self._written - self._synced)
            self._synced = self._written

    def promote(self, target: Path, mode: int) -> None:
        """Make the content durable and move the file to its place."""
        with disk_trouble(target):
            self._disk.finish(self._descriptor, mode)
            target.parent.mkdir(parents=True, exist_ok=True)
            self._disk.rename(self.path, target)

    def close(self) -> None:
        """Give the file up; it is deleted unless it was promoted."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


class BlobWriter:
    """Takes a blob in blocks; it is visible, under its digest, only after `commit`."""

    def __init__(
        self,
        temporary: Temporary,
        place: Callable[[Digest], Path],
        *,
        expected: Digest | None = None,
        size: int | None = None,
    ) -> None:
        self._temporary = temporary
        self._place = place
        self._expected = expected
        self._size = size
        self._hash = hashlib.sha256()
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._temporary.close()

    def write(self, block: bytes, /) -> None:
        """Take the next block; more than the expected size raises IntegrityError at once."""
        self._count += len(block)
        if self._size is not None and self._count > self._size:
            raise IntegrityError(f"expected {self._size} bytes, found more", where=self._expected)
        self._hash.update(block)
        self._temporary.write(block)

    def commit(self) -> tuple[Digest, int]:
        """Check size, then digest; move the blob to its place; return its digest and size."""
        if self._size is not None and self._count != self._size:
            raise IntegrityError(f"expected {self._size} bytes, found {self._count}", where=self._expected)
        digest = Digest(f"sha256:{self._hash.hexdigest()}")
        if self._expected is not None and digest != self._expected:
            raise IntegrityError(f"expected the digest {self._expected}, found {digest}")
        self._temporary.promote(self._place(digest), BLOB_MODE)
        return digest, self._count


class BlobReader(io.RawIOBase):
    """Reads a file and compares its digest when the end is reached; `on_mismatch` is told before the error."""

    def __init__(self, path: Path, digest: Digest, on_mismatch: Callable[[], object]) -> None:
        super().__init__()
        self._path = path
        self._digest = digest
        self._on_mismatch = on_mismatch
        self._hash = hashlib.sha256()
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read up to the buffer's size; at the end a wrong digest raises IntegrityError."""
        view = memoryview(buffer).cast("B")
        count = os.readv(self._descriptor, (view,))
        self._hash.update(view[:count])
        if count == 0 and len(view):
            self._verify()
        return count

    def _verify(self) -> None:
        found = f"sha256:{self._hash.hexdigest()}"
        if found != self._digest:
            self._on_mismatch()
            raise IntegrityError(
                f"expected the digest {self._digest}, found {found}",
                where=str(self._path),
                hint="the blob was set aside; run the command again to get it anew",
            )

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()
