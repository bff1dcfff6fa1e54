"""Git's binary patches: base 85, zlib, and git's delta (git: apply.c, base85.c, patch-delta.c, diff.c)."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from dataclasses import dataclass

from packager.base.errors import InputError

MAX_BYTES = 512 << 20
_HEAD = re.compile(rb"(literal|delta) ([0-9]{1,10})", re.ASCII)
_LINE_BYTES = 52


@dataclass(frozen=True)
class BinaryHunk:
    """One half of a binary patch: the new content itself, or a delta that makes it from the old."""

    is_delta: bool
    data: bytes


def blob_id(content: bytes) -> bytes:
    """Return the id that git gives to a file's content, as 40 digits."""
    digest = hashlib.sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest().encode()


def read_binary_hunk(lines: list[bytes], at: int, *, where: str) -> tuple[BinaryHunk, int] | None:
    """Read one hunk of a binary patch at line `at`; return it and the next line, or None if none begins there."""
    head = _HEAD.fullmatch(lines[at].rstrip(b"\n")) if at < len(lines) else None
    if head is None:
        return None
    packed: list[bytes] = []
    at += 1
    while at < len(lines) and lines[at].rstrip(b"\n"):
        packed.append(_decode_line(lines[at].rstrip(b"\n"), where=where))
        at += 1
    if at == len(lines):
        raise InputError("the binary data ends without an empty line", where=where)
    data = _inflate(b"".join(packed), int(head[2]), where=where)
    return BinaryHunk(head[1] == b"delta", data), at + 1


def _decode_line(line: bytes, *, where: str) -> bytes:
    first, rest = line[:1], line[1:]
    size = line[0] - 64 if b"A" <= first <= b"Z" else line[0] - 70 if b"a" <= first <= b"z" else 0
    if not size or len(rest) != (size + 3) // 4 * 5:
        raise InputError(f"not a line of base 85: {line[:40]!r}", where=where)
    try:
        return base64.b85decode(rest)[:size]
    except ValueError as error:
        raise InputError(f"not base 85: {error}", where=where) from error


def _inflate(packed: bytes, size: int, *, where: str) -> bytes:
    if size > MAX_BYTES:
        raise InputError(f"expected at most {MAX_BYTES} bytes, found {size}", where=where)
    engine = zlib.decompressobj()
    try:
        data = engine.decompress(packed, size + 1)
    except zlib.error as error:
        raise InputError(f"the binary data does not inflate: {error}", where=where) from error
    if len(data) != size or not engine.eof or engine.unused_data:
        raise InputError(f"expected {size} bytes of binary data, found another number", where=where)
    return data


def format_binary_hunk(content: bytes) -> bytes:
    """Return `content` as a literal hunk, with its empty line."""
    packed = zlib.compress(content, 9)
    lines = [b"literal %d\n" % len(content)]
    for start in range(0, len(packed), _LINE_BYTES):
        block = packed[start : start + _LINE_BYTES]
        first = bytes([len(block) + (64 if len(block) <= 26 else 70)])  # noqa: PLR2004 - A to Z, then a to z
        lines.append(first + base64.b85encode(block, pad=True) + b"\n")
    return b"".join(lines) + b"\n"


def apply_delta(old: bytes, delta: bytes, *, where: str) -> bytes:
    """Return what git's delta makes of `old`."""
    try:
        return _apply_delta(old, delta)
    except (IndexError, ValueError) as error:
        raise InputError(f"a broken delta: {error}", where=where) from error


def _apply_delta(old: bytes, delta: bytes) -> bytes:
    old_size, at = _varint(delta, 0)
    new_size, at = _varint(delta, at)
    if old_size != len(old):
        raise ValueError(f"made for {old_size} bytes, found {len(old)}")
    if new_size > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes, found {new_size}")
    new = bytearray()
    while at < len(delta):
        code = delta[at]
        at += 1
        if code & 0x80:
            offset, size, at = _copy_range(delta, at, code)
            block = old[offset : offset + size]
        else:
            size = code
            block = delta[at : at + size]
            at += size
        if not size or len(block) != size or len(new) + size > new_size:
            raise ValueError("an instruction reaches beyond the data")
        new += block
    if len(new) != new_size:
        raise ValueError(f"expected {new_size} bytes, made {len(new)}")
    return bytes(new)


def _copy_range(delta: bytes, at: int, code: int) -> tuple[int, int, int]:
    offset = size = 0
    for bit in range(4):
        if code & (1 << bit):
            offset |= delta[at] << (8 * bit)
            at += 1
    for bit in range(3):
        if code & (0x10 << bit):
            size |= delta[at] << (8 * bit)
            at += 1
    return offset, size or 0x10000, at


def _varint(delta: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = delta[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
        if shift > 63:  # noqa: PLR2004 - sizes have 64 bits
            raise ValueError("a size without end")
