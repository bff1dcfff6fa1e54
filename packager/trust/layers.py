"""Measures a layer blob in one pass: its own digest and that of the tar inside, with a bound that no document sets.

Who signs an image may still be wrong about it, or be somebody else by now: `check_layer` also reads what is in the tar.
"""

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
from packager.base.errors import InputError, IntegrityError
from packager.base.progress import Event, Progress, silent
from packager.oci.decompression import decompress
from packager.oci.tar_reader import read_tar
from packager.oci.unpack import MAX_DEPTH, MAX_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

    from packager.oci.descriptor import Descriptor
    from packager.oci.layer import BlobSource

LIMIT_BYTES = 64 << 30
"""The most that one layer may unpack to, whatever manifest and config say."""
LEAST_BYTES = 1 << 30
MOST_TIMES = 1024
"""Beyond LEAST_BYTES a layer unpacks to so many times its blob at most: who fetched little is not made to hash much."""

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
    with open_bounded(store, layer, limit_bytes=limit_bytes, progress=progress) as stream:
        hashed = _Hashed(stream)
        return hashed.measured()


def check_layer(store: BlobSource, layer: Descriptor, *, progress: Progress = silent) -> Measured:
    """Read a layer blob once, look at every entry of its tar, and return its measures.

    Beyond what `measure_layer` refuses, an entry that no layer may have (a device, a path that leads out of the tree,
    too many or too deep ones) is an IntegrityError; that of the blob's digest goes before it.
    """
    with open_bounded(store, layer, progress=progress) as stream:
        hashed = _Hashed(stream)
        try:
            _look_through(hashed)
        except (InputError, IntegrityError) as error:
            if isinstance(error, IntegrityError) and error.where != "layer":  # of the blob, not of what is in it
                raise
            hashed.measured()
            raise IntegrityError(error.complaint, where=layer.digest) from error
        return hashed.measured()


def _look_through(tar: _Hashed) -> None:
    for count, (entry, _) in enumerate(read_tar(io.BufferedReader(tar, BLOCK_BYTES)), start=1):
        if count > MAX_ENTRIES:
            raise InputError(f"expected at most {MAX_ENTRIES} entries, found more")
        if entry.path.count(b"/") > MAX_DEPTH:
            name = entry.path[:80].decode(errors="backslashreplace")
            raise InputError(f"expected at most {MAX_DEPTH} directories inside each other", where=f"{name}…")


@contextlib.contextmanager
def open_bounded(
    store: BlobSource, layer: Descriptor, *, limit_bytes: int = LIMIT_BYTES, progress: Progress = silent
) -> Iterator[BoundedTar]:
    """Open the tar in a layer blob; what was read is only vouched for after `finish`."""
    most = min(limit_bytes, max(LEAST_BYTES, MOST_TIMES * layer.size))
    with contextlib.closing(store.open(layer.digest)) as blob:
        counted = _Counted(blob, layer, progress)
        yield BoundedTar(decompress(counted, layer.media_type), counted, most)  # type: ignore[arg-type]


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


class _Hashed(io.RawIOBase):
    """A tar that is hashed while somebody reads it."""

    def __init__(self, tar: BoundedTar) -> None:
        super().__init__()
        self._tar = tar
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        count = self._tar.readinto(view)
        self._hash.update(view[:count])
        return count

    def measured(self) -> Measured:
        """Read what is left, and return what the layer is."""
        while block := self._tar.read(BLOCK_BYTES):
            self._hash.update(block)
        self._tar.finish()
        return Measured(DiffId(f"sha256:{self._hash.hexdigest()}"), self._tar.count)
