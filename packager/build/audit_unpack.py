"""Looks into whatever can hold files: compressed streams, tars, zips (wheels, jars, modules), ar (deb), zlib objects.

Everything here reads what anybody may have made. What cannot be unpacked is no error: test data of toolchains is
full of broken archives; the caller still searches the raw bytes.
"""

from __future__ import annotations

import bz2
import io
import lzma
import mmap
import tempfile
import zlib
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_BYTES = 1 << 20
HEAD_BYTES = 64 << 10
"""How far into a file the start of an embedded zip or gzip is looked for (HTTP caches put headers before it)."""

_LOCAL = b"PK\x03\x04"
_LOCAL_BYTES = 30
_STORED, _DEFLATED = 0, 8
_STREAMED_FLAG = 0x08
_UNKNOWN_SIZE = 0xFFFFFFFF
_AR = b"!<arch>\n"
_AR_HEADER_BYTES = 60
_CACHED_RESPONSE = b"cc="
_TAR_MAGIC_AT = 257
_TAR_BLOCK = 512
_TAR_EMPTY = (b"1", b"2", b"3", b"4", b"5", b"6")
_LONG_NAME_BYTES = 64 << 10

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    ArithmeticError,
    LookupError,
    zlib.error,
    lzma.LZMAError,
)
"""What the standard library raises on broken archives."""


def is_broken_archive(error: Exception) -> bool:
    """Return whether an error of the UNREADABLE kinds speaks of the archive, not of this machine's disk."""
    return not (isinstance(error, OSError) and error.errno is not None)


class Source(Protocol):
    """Something to read from once."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, nothing at the end."""


Member = tuple[str, Source]
Read = Callable[[int], bytes]


class Blocks:
    """An iterator of byte blocks as something to read from."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._held = b""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, fewer only at the end."""
        parts, have = [self._held], len(self._held)
        while size < 0 or have < size:
            block = next(self._blocks, None)
            if block is None:
                break
            parts.append(block)
            have += len(block)
        data = b"".join(parts)
        end = have if size < 0 else min(size, have)
        self._held = data[end:]
        return data[:end]


class Joined:
    """A head that was read already, and the rest."""

    def __init__(self, head: bytes, rest: Source) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, nothing at the end."""
        return self._head.read(size) or self._rest.read(size)


def sniff(head: bytes) -> str:
    """Return what a file is by its first bytes: the name of one of the unpackers, or an empty text."""
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
        return "tar"
    for magic, name in _MAGICS.items():
        if head.startswith(magic):
            return name
    if head.startswith(_CACHED_RESPONSE) and b"\x1f\x8b\x08" in head[:HEAD_BYTES]:
        return "cached gzip"
    if len(head) > 1 and head[0] == 0x78 and int.from_bytes(head[:2], "big") % 31 == 0:  # noqa: PLR2004 - RFC 1950
        return "zlib"
    return "zip" if _LOCAL in head[:HEAD_BYTES] else ""


def unpack(kind: str, source: Source) -> Iterator[Member]:
    """Yield the members of a container; each must be read before the next. May raise what UNREADABLE lists."""
    return _UNPACKERS[kind](source)


def spool(source: Source) -> IO[bytes]:
    """Return a temporary file that holds the whole source."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    while block := source.read(BLOCK_BYTES):
        file.write(block)
    file.flush()
    file.seek(0)
    return file


def _gzip(source: Source) -> Iterator[Member]:
    yield "gz", Blocks(_inflate(31, source.read))


def _cached_gzip(source: Source) -> Iterator[Member]:
    head = source.read(HEAD_BYTES)
    return _gzip(Joined(head[max(head.find(b"\x1f\x8b\x08"), 0) :], source))


def _xz(source: Source) -> Iterator[Member]:
    yield "xz", Blocks(_expand(lzma.LZMADecompressor, source.read))


def _bzip2(source: Source) -> Iterator[Member]:
    yield "bz2", Blocks(_expand(bz2.BZ2Decompressor, source.read))


def _expand(make: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor], read: Read) -> Iterator[bytes]:
    """Yield all streams of a file one after the other, up to where it is cut or damaged."""
    expander = make()
    pending = read(BLOCK_BYTES)
    while pending or not expander.needs_input:
        try:
            yield expander.decompress(pending, BLOCK_BYTES)
        except (OSError, ValueError, lzma.LZMAError):
            return
        if expander.eof:
            pending = expander.unused_data or read(BLOCK_BYTES)
            expander = make()
        else:
            pending = read(BLOCK_BYTES) if expander.needs_input else b""


def _zstd(source: Source) -> Iterator[Member]:
    import zstandard  # noqa: PLC0415 - slow to import, rarely needed

    reader = zstandard.ZstdDecompressor().stream_reader(_plain(source), read_across_frames=True)

    def blocks() -> Iterator[bytes]:
        try:
            while block := reader.read(BLOCK_BYTES):
                yield block
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from error

    yield "zst", Blocks(blocks())


def _zlib(source: Source) -> Iterator[Member]:
    yield "zlib", Blocks(_inflate(15, source.read))


def _inflate(window: int, read: Read) -> Iterator[bytes]:
    """Yield all zlib or gzip streams of a file one after the other, up to where it is cut or damaged."""
    inflater = zlib.decompressobj(window)
    pending = read(BLOCK_BYTES)
    while pending:
        try:
            yield inflater.decompress(pending, BLOCK_BYTES)
        except zlib.error:
            return
        pending = inflater.unconsumed_tail or inflater.unused_data or read(BLOCK_BYTES)
        if inflater.eof:
            inflater = zlib.decompressobj(window)


def _tar(source: Source) -> Iterator[Member]:
    """Read members one after the other, also behind the end mark; a bad header ends it. Sparse maps are not applied."""
    long_name = b""
    while len(header := _read_exactly(source, _TAR_BLOCK)) == _TAR_BLOCK:
        if not header.strip(b"\0"):
            continue
        size = _tar_size(header)
        if size is None:
            return
        name = (long_name or header[:100].rstrip(b"\0")).decode("utf-8", "surrogateescape")
        content = Blocks(_limited(source, size))
        if header[156:157] == b"L":
            long_name = content.read(_LONG_NAME_BYTES).rstrip(b"\0")
        else:
            long_name = b""
            yield name, Joined(header[157:257].strip(b"\0"), content)
        while content.read(BLOCK_BYTES):
            pass
        _read_exactly(source, -size % _TAR_BLOCK)


def _tar_size(header: bytes) -> int | None:
    total = sum(header[:148]) + sum(header[156:]) + 8 * 0x20
    try:
        checksum = int(header[148:156].strip(b" \0") or b"0", 8)
        binary = header[124] & 0x80
        size = int.from_bytes(header[125:136], "big") if binary else int(header[124:136].strip(b" \0") or b"0", 8)
    except ValueError:
        return None
    if checksum != total:
        return None
    return 0 if header[156:157] in _TAR_EMPTY else size


def _ar(source: Source) -> Iterator[Member]:
    _read_exactly(source, len(_AR))
    while len(header := _read_exactly(source, _AR_HEADER_BYTES)) == _AR_HEADER_BYTES:
        size = int(header[48:58])
        member = Blocks(_limited(source, size))
        yield header[:16].decode("ascii", "replace").rstrip(" /"), member
        while member.read(BLOCK_BYTES):
            pass
        _read_exactly(source, size % 2)


def _limited(source: Source, left: int) -> Iterator[bytes]:
    while left and (block := source.read(min(left, BLOCK_BYTES))):
        left -= len(block)
        yield block


def _zip(source: Source) -> Iterator[Member]:
    """Find members by their own headers: the central directory may be missing, or hide some."""
    with spool(source) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place = data.find(_LOCAL)
        while place >= 0:
            found = _zip_member(data, place)
            place += len(_LOCAL)
            if found is not None:
                name, member, end = found
                yield name, member
                place = max(place, end())
            place = data.find(_LOCAL, place)


def _zip_member(data: mmap.mmap, place: int) -> tuple[str, Source, Callable[[], int]] | None:
    header = data[place : place + _LOCAL_BYTES]
    if len(header) < _LOCAL_BYTES:
        return None
    flags, method = int.from_bytes(header[6:8], "little"), int.from_bytes(header[8:10], "little")
    packed = int.from_bytes(header[18:22], "little")
    name_bytes, extra_bytes = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    start = place + _LOCAL_BYTES + name_bytes + extra_bytes
    name = data[place + _LOCAL_BYTES : place + _LOCAL_BYTES + name_bytes].decode("utf-8", "replace")
    if method == _STORED:
        unknown = (flags & _STREAMED_FLAG and not packed) or packed == _UNKNOWN_SIZE
        end = data.find(b"PK", start) if unknown else start + packed
        stop = end if end >= 0 else len(data)
        return name, Blocks(_slices(data, start, stop)), lambda: stop
    if method == _DEFLATED:
        deflated = _Deflated(data, start)
        return name, Blocks(deflated.blocks()), lambda: deflated.end
    return None


class _Deflated:
    """A deflated member, which ends where its own stream says so; `end` is known once it was read."""

    def __init__(self, data: mmap.mmap, start: int) -> None:
        self._data = data
        self._place = start
        self.end = 0

    def blocks(self) -> Iterator[bytes]:
        inflater = zlib.decompressobj(-15)
        pending = self._read()
        while pending and not inflater.eof:
            try:
                yield inflater.decompress(pending, BLOCK_BYTES)
            except zlib.error:
                return
            pending = inflater.unconsumed_tail or self._read()
        if inflater.eof:
            self.end = self._place - len(inflater.unused_data) - len(pending)

    def _read(self) -> bytes:
        block = self._data[self._place : self._place + BLOCK_BYTES]
        self._place += len(block)
        return block


def _slices(data: mmap.mmap, start: int, stop: int) -> Iterator[bytes]:
    for place in range(start, stop, BLOCK_BYTES):
        yield data[place : min(stop, place + BLOCK_BYTES)]


def _read_exactly(source: Source, size: int) -> bytes:
    parts: list[bytes] = []
    while size and (block := source.read(size)):
        parts.append(block)
        size -= len(block)
    return b"".join(parts)


class _Plain(io.RawIOBase):
    """A source for the standard library's readers, which want more than `read`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._place = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        data = self._source.read(len(view))
        view[: len(data)] = data
        self._place += len(data)
        return len(data)


def _plain(source: Source) -> IO[bytes]:
    return io.BufferedReader(_Plain(source), BLOCK_BYTES)


_MAGICS = {
    b"\x1f\x8b\x08": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    _LOCAL: "zip",
    _AR: "ar",
    b"PACK\x00\x00\x00": "pack",
    b"# v2 git bundle\n": "bundle",
    b"# v3 git bundle\n": "bundle",
}

_UNPACKERS: dict[str, Callable[[Source], Iterator[Member]]] = {
    "gzip": _gzip,
    "cached gzip": _cached_gzip,
    "xz": _xz,
    "bzip2": _bzip2,
    "zstd": _zstd,
    "zlib": _zlib,
    "tar": _tar,
    "ar": _ar,
    "zip": _zip,
}
