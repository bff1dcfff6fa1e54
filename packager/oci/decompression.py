"""From a layer's blob to its tar: decompressed ahead in a thread, hashed, and cut off at the declared size."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import queue
import threading
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from packager.base.digests import BLOCK_BYTES, DiffId, Digest
from packager.base.errors import InputError, IntegrityError, PackError
from packager.oci.manifest import MEDIA_DOCKER_LAYER_GZIP, MEDIA_LAYER_GZIP, MEDIA_LAYER_TAR, MEDIA_LAYER_ZSTD

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAX_WINDOW = 1 << 27
_QUEUE_BLOCKS = 4
_PLAIN_BYTES = 4 << 20


def decompress(blob: IO[bytes], media_type: str) -> IO[bytes]:
    """Return a reader of the uncompressed bytes of a layer blob."""
    if media_type == MEDIA_LAYER_TAR:
        return blob
    if media_type in (MEDIA_LAYER_GZIP, MEDIA_DOCKER_LAYER_GZIP):
        return gzip.GzipFile(fileobj=blob, mode="rb")  # type: ignore[return-value]
    if media_type == MEDIA_LAYER_ZSTD:
        import zstandard  # noqa: PLC0415 - slow to import

        unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        return unpacker.stream_reader(blob, read_size=BLOCK_BYTES, read_across_frames=True, closefd=False)
    raise InputError(f"expected a tar layer, found {media_type}", where="layer")


@dataclass(frozen=True)
class ExpectedTar:
    """What the tar of a blob must be."""

    blob: Digest
    diff_id: DiffId
    diff_size: int


class VerifiedTar:
    """Hands out a tar in blocks; the empty one at the end comes only if blob, diff id and size are right."""

    def __init__(self, blob: IO[bytes], media_type: str, expected: ExpectedTar) -> None:
        self._blob = blob
        self._plain = decompress(blob, media_type)
        self._expected = expected
        self._hash = hashlib.sha256()
        self._count = 0

    def next_block(self) -> bytes:
        """Return the next block, or nothing at the verified end."""
        block = self._read()
        self._count += len(block)
        if self._count > self._expected.diff_size:
            self._refuse(f"expected {self._expected.diff_size} bytes of tar, found more")
        self._hash.update(block)
        if not block:
            self._verify()
        return block

    def close(self) -> None:
        """Close the blob."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._blob.close)
            stack.callback(self._plain.close)

    def _read(self) -> bytes:
        return _read_plain(self._plain, self._expected.blob)

    def _verify(self) -> None:
        while self._blob.read(BLOCK_BYTES):
            pass
        if self._count != self._expected.diff_size:
            self._refuse(f"expected {self._expected.diff_size} bytes of tar, found {self._count}")
        found = f"sha256:{self._hash.hexdigest()}"
        if found != self._expected.diff_id:
            self._refuse(f"expected diff id {self._expected.diff_id}, found {found}")

    def _refuse(self, reason: str) -> None:
        raise IntegrityError(reason, where=self._expected.blob)


def measure_tar(blob: IO[bytes], media_type: str, digest: Digest) -> tuple[DiffId, int]:
    """Return diff id and size of a layer's tar; both stand nowhere beside the blob of a foreign image."""
    found, size = hashlib.sha256(), 0
    with decompress(blob, media_type) as plain:
        while block := _read_plain(plain, digest):
            found.update(block)
            size += len(block)
    return DiffId(f"sha256:{found.hexdigest()}"), size


def _read_plain(plain: IO[bytes], blob: Digest) -> bytes:
    try:
        return plain.read(_PLAIN_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise IntegrityError(f"not a gzip stream: {error}", where=blob) from error
    except _zstd_error() as error:
        raise IntegrityError(f"not a zstd stream: {error}", where=blob) from error


def _zstd_error() -> type[Exception]:
    import zstandard  # noqa: PLC0415 - slow to import, and only asked for when something is wrong

    return zstandard.ZstdError


class ReadAhead(io.RawIOBase):
    """A stream over a tar whose blocks are made in a thread of their own; errors come where the bytes would have."""

    def __init__(self, tar: VerifiedTar) -> None:
        super().__init__()
        self._tar = tar
        self._blocks: queue.Queue[bytes | BaseException] = queue.Queue(_QUEUE_BLOCKS)
        self._block = memoryview(b"")
        self._ended = False
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._work, name="unpack", daemon=True)
        self._thread.start()

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Copy what is ready; nothing means the verified end."""
        view = memoryview(buffer).cast("B")
        if not self._block and not self._ended:
            self._take()
        count = min(len(view), len(self._block))
        view[:count] = self._block[:count]
        self._block = self._block[count:]
        return count

    def close(self) -> None:
        """Stop the thread and close the blob."""
        if not self.closed:
            self._unwanted.set()
            while self._thread.is_alive():
                with contextlib.suppress(queue.Empty):
                    self._blocks.get(timeout=0.01)
            self._tar.close()
        super().close()

    def _take(self) -> None:
        block = self._blocks.get()
        if isinstance(block, BaseException):
            self._blocks.put(block)
            raise block
        self._block = memoryview(block)
        self._ended = not block

    def _work(self) -> None:
        block: bytes | BaseException = b"-"
        while block and not isinstance(block, BaseException) and not self._unwanted.is_set():
            try:
                block = self._tar.next_block()
            except (PackError, OSError, ValueError, MemoryError) as error:
                block = error
            self._blocks.put(block)
