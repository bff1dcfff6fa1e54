"""Reads tars that anybody may have written: ustar, old GNU and PAX; bounded, and never a path outside the tree.

Refused: absolute paths, `..`, devices, pipes, sparse files, wrong checksums, trailing bytes. `./` and final slashes
are taken away, the root entry is skipped, mtimes and names of owners are ignored.
"""

from __future__ import annotations

import functools
import re
import zlib
from typing import IO, TYPE_CHECKING

from packager.base.digests import BLOCK_BYTES
from packager.base.errors import InputError, IntegrityError
from packager.oci.capability import normalise_capability
from packager.oci.entries import OPAQUE_NAME, WHITEOUT_PREFIX, Entry, Kind, show_path
from packager.oci.tar_writer import CAPABILITY_RECORD, RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_PATH = 4096
MAX_META = 1 << 20
_ADLER_MODULUS = 65521
_PLAIN = re.compile(rb"(?!/)(?:(?!\.{1,2}(?:/|\Z))[^/\0]+(?:/(?=[^/])|\Z))+")
_OCTAL = re.compile(rb"[0-7]+")
_FILES = (b"0", b"\0", b"7")
_META = (b"x", b"g", b"L", b"K")
_LINKS = {b"1": Kind.HARDLINK, b"2": Kind.SYMLINK}
_REFUSED = {b"3": "a character device", b"4": "a block device", b"6": "a named pipe", b"S": "a sparse file"}


class EntryReader:
    """The bytes of one file of the tar; gone when the next entry is asked for."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self.left = size

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes (all that is left by default), nothing at the end."""
        wanted = self.left if size < 0 else min(size, self.left)
        data = self._stream.read(wanted) if wanted else b""
        if len(data) < wanted:
            raise IntegrityError("the tar ends inside a file", where="layer")
        self.left -= wanted
        return data


def read_tar(
    stream: IO[bytes], *, skip: Callable[[IO[bytes], int], None] | None = None
) -> Iterator[tuple[Entry, EntryReader]]:
    """Yield each entry and a reader of its bytes, to the end of the stream; a bad tar raises InputError.

    `skip` passes over bytes that nobody asked for (by default they are read); it must raise where the stream ends.
    """
    pending: dict[bytes, bytes] = {}
    while (header := _read_header(stream)) is not None:
        kind = header[156:157]
        size = _number(header[124:136])
        if kind in _META:
            _take_meta(pending, kind, _read_meta(stream, size))
            continue
        records, pending = pending, {}
        entry = _entry(header, kind, size, records)
        body = _size(records, size) if kind in _FILES else 0
        reader = EntryReader(stream, body)
        if entry is not None:
            yield entry, reader
        (skip or _skip)(stream, reader.left + -body % RECORD)


def _read_header(stream: IO[bytes]) -> bytes | None:
    header = stream.read(RECORD)
    if not header:
        return None
    if len(header) < RECORD:
        raise IntegrityError("the tar ends inside a header", where="layer")
    if header[0] == 0 and header == bytes(RECORD):
        _expect_zeros(stream)
        return None
    # Adler-32's low half is one plus the sum of the bytes, modulo 65521: much faster than sum() over a header.
    total = (zlib.adler32(header) & 0xFFFF) - 1 - sum(header[148:156]) + 8 * ord(" ")
    if (total - _number(header[148:156])) % _ADLER_MODULUS:
        raise InputError("a header's checksum is wrong", where=show_path(header[:100].rstrip(b"\0")))
    return header


def _expect_zeros(stream: IO[bytes]) -> None:
    while block := stream.read(BLOCK_BYTES):
        if block.count(0) != len(block):
            raise InputError("expected the end of the tar, found more after it", where="layer")


def _read_meta(stream: IO[bytes], size: int) -> bytes:
    if not 0 <= size <= MAX_META:
        raise InputError(f"expected at most {MAX_META} bytes of extended header, found {size}", where="layer")
    data = stream.read(size + -size % RECORD)
    if len(data) < size:
        raise IntegrityError("the tar ends inside an extended header", where="layer")
    return data[:size]


def _take_meta(pending: dict[bytes, bytes], kind: bytes, data: bytes) -> None:
    if kind == b"x":
        pending.update(_parse_records(data))
    elif kind == b"L":
        pending[b"path"] = data.rstrip(b"\0")
    elif kind == b"K":
        pending[b"linkpath"] = data.rstrip(b"\0")
    elif any(key in (b"path", b"linkpath", b"size", b"uid", b"gid") for key in _parse_records(data)):
        raise InputError("a global extended header may not name files", where="layer")


def _parse_records(data: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    while data:
        digits, blank, _ = data[:21].partition(b" ")
        length = int(digits) if blank and digits.isdigit() else 0
        key, equals, value = data[len(digits) + 1 : length].partition(b"=")
        if not equals or length > len(data) or not value.endswith(b"\n"):
            raise InputError("a record of an extended header is malformed", where="layer")
        found[key] = value[:-1]
        data = data[length:]
    return found


def _entry(header: bytes, kind: bytes, size: int, records: dict[bytes, bytes]) -> Entry | None:
    path = _plain(records.get(b"path") or _ustar_path(header))
    if path is None:
        return None
    if kind in _REFUSED or any(key.startswith(b"GNU.sparse.") for key in records):
        found = _REFUSED.get(kind, "a sparse file")
        raise InputError(f"expected files, directories and links, found {found}", where=show_path(path))
    mode = _known_number(header[100:108]) & 0o7777
    uid = _decimal(records, b"uid", header[108:116])
    gid = _decimal(records, b"gid", header[116:124])
    parent, slash, name = path.rpartition(b"/")
    if name.startswith(WHITEOUT_PREFIX):
        return _whiteout(parent, slash, name)
    if kind == b"5":
        return Entry(path, Kind.DIR, mode, uid, gid)
    link = records.get(b"linkpath", header[157:257].partition(b"\0")[0])
    if kind in _LINKS:
        return Entry(path, _LINKS[kind], mode, uid, gid, link=_link(link, _LINKS[kind], path))
    if kind not in _FILES:
        raise InputError(f"expected files, directories and links, found the type {kind!r}", where=show_path(path))
    capability = records.get(CAPABILITY_RECORD)
    if capability is not None:
        capability = normalise_capability(capability, where=show_path(path))
    return Entry(path, Kind.FILE, mode, uid, gid, _size(records, size), capability=capability)


def _ustar_path(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] != b"ustar\0":
        return name
    prefix = header[345:500].partition(b"\0")[0]
    return prefix + b"/" + name if prefix else name


def _plain(path: bytes) -> bytes | None:
    """Return a path without `./` and final slashes, None for the root; refuse whatever could lead out of the tree."""
    while path.startswith(b"./"):
        path = path[2:].lstrip(b"/")
    path = path.rstrip(b"/") if path != b"/" else path
    if path in (b"", b"."):
        return None
    if len(path) > MAX_PATH or _PLAIN.fullmatch(path) is None:
        raise InputError("expected a plain path inside the layer", where=show_path(path[:MAX_PATH]))
    return path


def _link(link: bytes, kind: Kind, path: bytes) -> bytes:
    if kind is Kind.HARDLINK:
        target = _plain(link)
        if target is None:
            raise InputError("expected a hard link to a file, found one to the root", where=show_path(path))
        return target
    if not link or b"\0" in link or len(link) > MAX_PATH:
        raise InputError("expected a symbolic link's text", where=show_path(path))
    return link


def _whiteout(parent: bytes, slash: bytes, name: bytes) -> Entry:
    if name == OPAQUE_NAME:
        return Entry(parent, Kind.OPAQUE)
    deleted = name[len(WHITEOUT_PREFIX) :]
    if deleted in (b"", b".", b"..") or deleted.startswith(WHITEOUT_PREFIX):
        raise InputError("expected the name that a whiteout deletes", where=show_path(parent + slash + name))
    return Entry(parent + slash + deleted, Kind.WHITEOUT)


def _size(records: dict[bytes, bytes], size: int) -> int:
    text = records.get(b"size")
    return size if text is None else _digits(text)


def _decimal(records: dict[bytes, bytes], key: bytes, octets: bytes) -> int:
    text = records.get(key)
    return _known_number(octets) if text is None else _digits(text)


def _digits(text: bytes) -> int:
    if not text.isdigit() or len(text) > len(str(1 << 63)):
        raise InputError(f"expected a number, found {text[:40]!r}", where="layer")
    return int(text)


def _number(octets: bytes) -> int:
    """Return a number of a header: octal digits, or GNU's base 256."""
    if octets[0] == 0x80:  # noqa: PLR2004 - the mark of base 256
        return int.from_bytes(octets[1:], "big")
    text = octets.strip(b" \0")
    if text and _OCTAL.fullmatch(text) is None:
        raise InputError(f"expected an octal number, found {octets!r}", where="layer")
    return int(text, 8) if text else 0


_known_number = functools.lru_cache(1024)(_number)
"""Modes and owners are few."""


def _skip(stream: IO[bytes], count: int) -> None:
    while count:
        data = stream.read(min(count, BLOCK_BYTES))
        if not data:
            raise IntegrityError("the tar ends inside a file", where="layer")
        count -= len(data)
