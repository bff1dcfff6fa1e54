"""The first bytes of a blob that is on its way: a temporary file of the store that has not been verified yet."""

from __future__ import annotations

import fcntl
import hashlib
import os
from typing import TYPE_CHECKING, Self

from packager.base.digests import BLOCK_BYTES, Digest, hex_of
from packager.base.errors import IntegrityError
from packager.base.files import disk_trouble
from packager.store.blobs import BLOB_MODE
from packager.store.disk import DISK
from packager.store.store import PARTIAL_PREFIX

if TYPE_CHECKING:
    from pathlib import Path

    from packager.oci.descriptor import Descriptor
    from packager.store.store import Store


class Partial:
    """A growing file whose digest is known at any time; used by one thread, under the store's lock for the blob.

    It lies in the store's `tmp/`, so that a collection removes what nobody continues; while it is open it is locked
    like every file there. Complete and verified it becomes the blob by a rename, without being copied.
    """

    def __init__(self, store: Store, blob: Descriptor) -> None:
        self.path = partial_path(store, blob.digest)
        self._blob = blob
        self._place = store.root / "blobs" / "sha256" / hex_of(blob.digest)
        self._descriptor = -1
        self._hash = hashlib.sha256()
        self.size = 0

    def __enter__(self) -> Self:
        """Continue the file that an earlier run left, or begin it; one that is too long is begun anew."""
        with disk_trouble(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = _open(self.path)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            while block := os.read(self._descriptor, BLOCK_BYTES):
                self._hash.update(block)
                self.size += len(block)
        if self.size > self._blob.size:
            self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def write(self, block: bytes) -> None:
        """Add bytes at the end."""
        with disk_trouble(self.path):
            DISK.write(self._descriptor, block)
        self._hash.update(block)
        self.size += len(block)

    def digest(self) -> Digest:
        """Return the digest of the bytes so far."""
        return Digest(f"sha256:{self._hash.hexdigest()}")

    def restart(self) -> None:
        """Drop all bytes."""
        with disk_trouble(self.path):
            os.ftruncate(self._descriptor, 0)
        self._hash = hashlib.sha256()
        self.size = 0

    def drop(self) -> None:
        """Delete the file; what it held is not needed any more."""
        self.path.unlink(missing_ok=True)

    def promote(self) -> None:
        """Make the complete file a blob of the store; it must be what its digest and size say."""
        if (self.size, self.digest()) != (self._blob.size, self._blob.digest):
            reason = (
                f"expected {self._blob.digest} ({self._blob.size} bytes), found {self.digest()} ({self.size} bytes)"
            )
            raise IntegrityError(reason, where=str(self.path))
        with disk_trouble(self._place):
            DISK.finish(self._descriptor, BLOB_MODE)
            self._place.parent.mkdir(parents=True, exist_ok=True)
            DISK.rename(self.path, self._place)


def _open(path: Path) -> int:
    """Open a partial; one that a kill left read-only, just before its rename, is begun anew."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except PermissionError:
        path.unlink()
        return os.open(path, flags, 0o600)


def partial_path(store: Store, digest: Digest) -> Path:
    """Return where the first bytes of a blob are kept between runs."""
    return store.root / "tmp" / f"{PARTIAL_PREFIX}{hex_of(digest)}"
