"""Measures a layer blob in one pass: its own digest and that of the tar inside, with a bound that no document sets."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import zstandard

from packager.base.digests import BLOCK_BYTES, DiffId
from packager.base.errors import IntegrityError
from packager.base.progress import Event, Progress, silent
from packager.oci.decompression import decompress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

    from packager.oci.descriptor import Descriptor
    from packager.oci.layer import BlobSource

LIMIT_BYTES = 64 << 30
"""The most that one layer may unpack to, whatever manifest and config say."""

_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError, ValueError)


@dataclass(frozen=True)
class Measured:
    """What a layer really is: the digest and size of its uncompressed tar."""

    diff_id: DiffId
    diff_size: int


def measure_layer(
    store: BlobSource, layer: Descriptor, *, limit_bytes: int = LIMIT_BYTES, progress: Progress = silent
) -> Measured:
    """Read a layer blob once and return the measures of its tar.

    IntegrityError if the blob is not what its descriptor says (this goes before any complaint of the decompressor),
    if it does not decompress, or if it unpacks to more than `limit_bytes`.
    """
    found = hashlib.sha256()
    with open_bounded(store, layer, limit_bytes=limit_bytes, progress=progress) as stream:
        while block := stream.read(BLOCK_BYTES):
            found.update(block)
        stream.finish()
    return Measured(DiffId(f"sha256:{found.hexdigest()}"), stream.count)


@contextlib.contextmanager
def open_bounded(
    store: BlobSource, layer: Descriptor, *, limit_bytes: int = LIMIT_BYTES, progress: Progress = silent
) -> Iterator[BoundedTar]:
    """Open the tar in a layer blob; what was read is only vouched for after `finish`."""
    with contextlib.closing(store.open(layer.digest)) as blob:
        counted = _Counted(blob, layer, progress)
        yield BoundedTar(decompress(counted, layer.media_type), counted, limit_bytes)  # type: ignore[arg-type]


class _Counted:
    """The blob as the decompressor reads it; the store verifies its digest, this counts its size."""

    def __init__(self, blob: IO[bytes], layer: Descriptor, progress: Progress) -> None:
        self._blob = blob
        self._count = 0
        self._progress = progress
        self.layer = layer

    def read(self, size: int = -1) -> bytes:
        block = self._blob.read(BLOCK_BYTES if size < 0 else min(size, BLOCK_BYTES))
        self._count += len(block)
        if self._count > self.layer.size:
            raise IntegrityError(f"expected {self.layer.size} bytes, found more", where=self.layer.digest)
        if block:
            self._progress(Event(f"verify {self.layer.digest[:19]}", self._count, self.layer.size, "bytes"))
        return block

    def finish(self) -> None:
        while self.read(BLOCK_BYTES):
            pass
        if self._count != self.layer.size:
            raise IntegrityError(f"expected {self.layer.size} bytes, found {self._count}", where=self.layer.digest)


class BoundedTar(io.RawIOBase):
    """The uncompressed bytes of a layer, up to a limit."""

    def __init__(self, plain: IO[bytes], blob: _Counted, limit_bytes: int) -> None:
        super().__init__()
        self._plain = plain
        self._blob = blob
        self._limit = limit_bytes
        self.count = 0

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer with the next bytes; 0 at the end."""
        view = memoryview(buffer)
        try:
            block = self._plain.read(len(view))
        except _BROKEN as error:
            self._blob.finish()
            raise IntegrityError(f"does not decompress: {error}", where=self._blob.layer.digest) from error
        self.count += len(block)
        if self.count > self._limit:
            raise IntegrityError(f"unpacks to more than {self._limit} bytes", where=self._blob.layer.digest)
        view[: len(block)] = block
        return len(block)

    def finish(self) -> None:
        """Read the rest of the blob, so that its digest and size are known to hold."""
        self._blob.finish()
