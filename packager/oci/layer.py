"""Layers: entries become a canonical, compressed, hashed blob, and a blob becomes a verified stream of tar bytes."""

from __future__ import annotations

import hashlib
import io
import queue
import threading
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal, Protocol, Self

from packager.base.digests import BLOCK_BYTES, DiffId, Digest
from packager.base.errors import WorldError
from packager.oci.decompression import ExpectedTar, ReadAhead, VerifiedTar, decompress
from packager.oci.descriptor import Descriptor
from packager.oci.manifest import MEDIA_LAYER_GZIP, MEDIA_LAYER_TAR, MEDIA_LAYER_ZSTD
from packager.oci.tar_writer import write_tar
from packager.oci.unpack import unpack_layer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from packager.oci.entries import Entry

__all__ = [
    "COMPRESSOR_ID",
    "BlobSink",
    "BlobSource",
    "Layer",
    "decompress",
    "open_layer",
    "unpack_layer",
    "write_layer",
]

Compression = Literal["zstd", "gzip", "none"]

ZSTD_LEVEL = 3
GZIP_LEVEL = 6
ZSTANDARD_VERSION = "0.25.0"
LIBZSTD_VERSION = (1, 5, 7)
COMPRESSOR_ID = "zstd;zstandard=0.25.0;libzstd=1.5.7;level=3;threads>=1"
"""Everything that the bytes of a compressed layer depend on; the number of threads matters only between 0 and 1."""

_THREADS = 2
_QUEUE_BLOCKS = 4
_MEDIA_TYPES = {"zstd": MEDIA_LAYER_ZSTD, "gzip": MEDIA_LAYER_GZIP, "none": MEDIA_LAYER_TAR}


class BlobWriter(Protocol):
    """Takes a blob in blocks; nothing is visible before `commit`."""

    def write(self, block: bytes, /) -> object:
        """Take the next block."""

    def commit(self) -> tuple[Digest, int]:
        """Make the blob visible; return its digest and size."""


class BlobSink(Protocol):
    """Where blobs go (the store, or a fake)."""

    def writer(self) -> AbstractContextManager[BlobWriter]:
        """Open a writer; leaving its context without commit drops the blob."""


class BlobSource(Protocol):
    """Where blobs come from (the store, or a fake)."""

    def open(self, digest: Digest, /) -> IO[bytes]:
        """Open a blob whose bytes are verified by the time its end is read."""


@dataclass(frozen=True)
class Layer:
    """One layer: `diff_id` and `diff_size` of the tar, `digest` and `size` of the blob."""

    diff_id: DiffId
    digest: Digest
    size: int
    diff_size: int
    media_type: str

    def descriptor(self) -> Descriptor:
        """Return the layer's line in a manifest."""
        return Descriptor(self.media_type, self.digest, self.size)


def write_layer(entries: Iterable[Entry], store: BlobSink, *, compression: Compression = "zstd") -> Layer:
    """Write the canonical tar of `entries` into the store; hashing and compression run in a thread of their own."""
    with store.writer() as out, _Pipeline(out, compressor(compression)) as pipeline:
        diff_size = write_tar(entries, pipeline.put)
        diff_id = pipeline.finish()
        digest, size = out.commit()
    return Layer(diff_id, digest, size, diff_size, _MEDIA_TYPES[compression])


class Compressor(Protocol):
    """What zlib and zstandard have in common."""

    def compress(self, block: bytes, /) -> bytes:
        """Take a block and return what is ready."""

    def flush(self) -> bytes:
        """Return the rest."""


def compressor(compression: Compression) -> Compressor:
    """Return a compressor whose output depends on its input alone, not on how it is cut."""
    if compression == "gzip":
        return _Gzip()
    return _zstd() if compression == "zstd" else _Plain()


def _zstd() -> Compressor:
    import zstandard  # noqa: PLC0415 - slow to import, and a build with nothing to do needs none

    found = (zstandard.__version__, zstandard.ZSTD_VERSION)
    if found != (ZSTANDARD_VERSION, LIBZSTD_VERSION):
        raise WorldError(
            f"expected zstandard {ZSTANDARD_VERSION} with libzstd {LIBZSTD_VERSION}, found {found[0]} with {found[1]}",
            hint=f"pip install zstandard=={ZSTANDARD_VERSION}; the bytes of layers depend on it",
        )
    parameters = zstandard.ZstdCompressor(
        level=ZSTD_LEVEL, threads=_THREADS, write_checksum=False, write_content_size=False
    )
    return _Zstd(parameters.chunker(chunk_size=BLOCK_BYTES))


class _Chunker(Protocol):
    def compress(self, block: bytes, /) -> Iterable[bytes]: ...

    def finish(self) -> Iterable[bytes]: ...


class _Zstd:
    """Large pieces come out: with compressobj's small ones there is a wait for the interpreter's lock at each."""

    def __init__(self, chunker: _Chunker) -> None:
        self._chunker = chunker

    def compress(self, block: bytes, /) -> bytes:
        return b"".join(self._chunker.compress(block))

    def flush(self) -> bytes:
        return b"".join(self._chunker.finish())


class _Plain:
    def compress(self, block: bytes, /) -> bytes:
        return block

    def flush(self) -> bytes:
        return b""


class _Gzip:
    """RFC 1952 with a header of our own: no time, no name, operating system unknown."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
        self._check = 0
        self._size = 0

    def compress(self, block: bytes, /) -> bytes:
        self._check = zlib.crc32(block, self._check)
        self._size += len(block)
        head, self._head = self._head, b""
        return head + self._deflate.compress(block)

    def flush(self) -> bytes:
        trailer = self._check.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")
        return self._head + self._deflate.flush() + trailer


class _Pipeline:
    """Hashes, compresses and writes blocks in a thread, in order; `put` waits when it is ahead."""

    def __init__(self, out: BlobWriter, packer: Compressor) -> None:
        self._out = out
        self._packer = packer
        self._hash = hashlib.sha256()
        self._blocks: queue.Queue[bytes | None] = queue.Queue(_QUEUE_BLOCKS)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="layer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def put(self, block: bytes) -> None:
        if self._error is not None:
            raise self._error
        self._blocks.put(block)

    def finish(self) -> DiffId:
        """Wait until everything is written; return the digest of what was put."""
        self._stop()
        if self._error is not None:
            raise self._error
        rest = self._packer.flush()
        if rest:
            self._out.write(rest)
        return DiffId(f"sha256:{self._hash.hexdigest()}")

    def _stop(self) -> None:
        if self._thread.is_alive():
            self._blocks.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (block := self._blocks.get()) is not None:
            if self._error is None:
                self._take(block)

    def _take(self, block: bytes) -> None:
        try:
            self._hash.update(block)
            packed = self._packer.compress(block)
            if packed:
                self._out.write(packed)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that puts
            self._error = error


def open_layer(store: BlobSource, layer: Layer) -> IO[bytes]:
    """Open a layer's tar; blob digest, diff id and both sizes hold once the end is read, else IntegrityError."""
    blob = store.open(layer.digest)
    try:
        tar = VerifiedTar(blob, layer.media_type, ExpectedTar(layer.digest, layer.diff_id, layer.diff_size))
    except BaseException:
        blob.close()
        raise
    return io.BufferedReader(ReadAhead(tar), BLOCK_BYTES)
