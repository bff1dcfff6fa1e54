"""Our own pack and its index: the bytes depend on the objects alone, not on a version of git, zlib or on threads.

Every body is a zlib stream of *stored* blocks (RFC 1950, 1951): the layer's zstd compresses better across objects, and
no compressor's version shows. Older versions of a path are deltas against the next newer one (git_delta.py).
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.lock.git_delta import make_delta
from packager.lock.git_objects import ObjectId, measure_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import IO

    from packager.lock.git_objects import ObjectReader, RawObject
    from packager.lock.git_runner import GitDirectory
    from packager.lock.git_walk import Placed, Reached

PACK_FORMAT_ID = "p1"
"""Changes whenever the same objects would give other pack bytes; part of the name under which packs are kept."""

_KINDS = {"commit": 1, "tree": 2, "blob": 3}
_OFS_DELTA = 6
_DEPTH = 50
_DELTA_LIMIT_BYTES = 16 << 20
_STORED_BYTES = 0xFFFF
_ZLIB_HEADER = b"\x78\x01"
_SHOWN = 5


@dataclass(frozen=True)
class Packed:
    """A pack on disk: the hexadecimal name of its trailer, and both files."""

    name: str
    pack: Path
    index: Path
    objects: int


@dataclass
class _Chain:
    """The object that the next one may be a delta of."""

    path: bytes
    data: bytes
    offset: int
    depth: int


class PackWriter:
    """Writes objects one after the other; `count` must be known from the start."""

    def __init__(self, stream: IO[bytes], count: int) -> None:
        self._stream = stream
        self._hash = hashlib.sha1(usedforsecurity=False)
        self._offset = 0
        self._crc = 0
        self._chain: _Chain | None = None
        self.rows: list[tuple[str, int, int]] = []
        self._write(b"PACK" + struct.pack(">II", 2, count))

    def add(self, raw: RawObject, path: bytes) -> None:
        """Write one object; successive calls for one path make one chain of deltas."""
        offset, self._crc = self._offset, 0
        if raw.size > _DELTA_LIMIT_BYTES:
            self._write(_entry_header(_KINDS[raw.kind], raw.size))
            self._write_stored(raw.blocks(), raw.size)
            self._chain = None
        else:
            self._add_small(raw, path)
        self.rows.append((raw.id, self._crc, offset))

    def finish(self) -> bytes:
        """Write the trailer and return it: the SHA-1 of everything before."""
        trailer = self._hash.digest()
        self._stream.write(trailer)
        return trailer

    def _add_small(self, raw: RawObject, path: bytes) -> None:
        offset, data, chain = self._offset, raw.data(), self._chain
        depth, delta = 0, None
        if raw.kind != "commit" and chain is not None and chain.depth < _DEPTH and _alike(chain.path, path):
            delta = make_delta(chain.data, data, tree=raw.kind == "tree")
        if chain is not None and delta is not None and len(delta) < len(data) // 2:
            depth = chain.depth + 1
            self._write(_entry_header(_OFS_DELTA, len(delta)) + _distance(offset - chain.offset))
            self._write_stored([delta], len(delta))
        else:
            self._write(_entry_header(_KINDS[raw.kind], len(data)))
            self._write_stored([data], len(data))
        self._chain = _Chain(path, data, offset, depth)

    def _write_stored(self, blocks: Iterable[bytes], size: int) -> None:
        for piece in stored_stream(blocks, size):
            self._write(piece)

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._hash.update(data)
        self._crc = zlib.crc32(data, self._crc)
        self._offset += len(data)


def stored_stream(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield a zlib stream of stored blocks: no compressor, so no version of one, decides its bytes."""
    yield _ZLIB_HEADER
    adler, left = 1, size
    for piece in _cut(blocks):
        left -= len(piece)
        yield struct.pack("<BHH", not left, len(piece), len(piece) ^ 0xFFFF) + piece
        adler = zlib.adler32(piece, adler)
    if not size:
        yield b"\x01\x00\x00\xff\xff"
    yield struct.pack(">I", adler)


def write_pack(reader: ObjectReader, reached: Reached, commits: Iterable[RawObject], folder: Path) -> Packed:
    """Write the pack of `commits` and of all reached trees and blobs, and its index, into `folder`."""
    trees, blobs = (sorted(group, key=lambda placed: _family(placed.path)) for group in (reached.trees, reached.blobs))
    count = len(reached.commits) + len(trees) + len(blobs)
    temporary = folder / f".pack.{os.getpid()}"
    with temporary.open("wb") as stream:
        writer = PackWriter(stream, count)
        for raw in commits:
            writer.add(raw, b"")
        for group in (trees, blobs):
            for raw, placed in zip(reader.read_many(item.id for item in group), group, strict=True):
                writer.add(raw, placed.path)
        trailer = writer.finish()
        stream.flush()
        os.fsync(stream.fileno())
    index = folder / f"pack-{trailer.hex()}.idx"
    index.write_bytes(format_pack_index(writer.rows, trailer))
    pack = temporary.replace(folder / f"pack-{trailer.hex()}.pack")
    return Packed(trailer.hex(), pack, index, count)


def refuse_missing_blobs(source: GitDirectory, blobs: Iterable[Placed]) -> Mapping[ObjectId, int]:
    """Return the sizes of all blobs, or raise one WorldError that names the paths of those that the source lacks."""
    placed = list(blobs)
    sizes = measure_objects(source, [blob.id for blob in placed])
    missing = [blob for blob in placed if blob.id not in sizes]
    if missing:
        shown = ", ".join(f"{ascii(blob.path)[2:-1]} (blob {blob.id})" for blob in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise WorldError(
            f"the source lacks {len(missing)} of the history's {len(placed)} blobs: {shown}{more}",
            where="git source",
            hint="write `history: none` for this repository, or use a source that has them",
        )
    return sizes


def format_pack_index(rows: Iterable[tuple[str, int, int]], trailer: bytes) -> bytes:
    """Return the index, version 2, of a pack; rows are object id, CRC-32 and offset."""
    ordered = sorted(rows)
    counts = [0] * 256
    for name, _, _ in ordered:
        counts[int(name[:2], 16)] += 1
    fanout = [sum(counts[: first + 1]) for first in range(256)]
    large = [offset for _, _, offset in ordered if offset >> 31]
    places = {offset: 1 << 31 | number for number, offset in enumerate(large)}
    body = b"\xfftOc" + struct.pack(">I256I", 2, *fanout)
    body += b"".join(bytes.fromhex(name) for name, _, _ in ordered)
    body += b"".join(struct.pack(">I", crc) for _, crc, _ in ordered)
    body += b"".join(struct.pack(">I", places.get(offset, offset)) for _, _, offset in ordered)
    body += b"".join(struct.pack(">Q", offset) for offset in large) + trailer
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _family(path: bytes) -> tuple[bytes, bytes]:
    """Files that keep their name while their folder moves stay neighbours."""
    return path.rpartition(b"/")[2], path


def _alike(one: bytes, two: bytes) -> bool:
    return one == two or one.rpartition(b"/")[2] == two.rpartition(b"/")[2]


def _cut(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut blocks at multiples of a stored block's size, however the reader delivered them."""
    held = b""
    for block in blocks:
        held += block
        whole = len(held) - len(held) % _STORED_BYTES
        for place in range(0, whole, _STORED_BYTES):
            yield held[place : place + _STORED_BYTES]
        held = held[whole:]
    if held:
        yield held


def _entry_header(kind: int, size: int) -> bytes:
    out = bytearray()
    byte, size = kind << 4 | size & 0xF, size >> 4
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    out.append(byte)
    return bytes(out)


def _distance(value: int) -> bytes:
    out = [value & 0x7F]
    while value := value >> 7:
        value -= 1
        out.append(value & 0x7F | 0x80)
    return bytes(reversed(out))
