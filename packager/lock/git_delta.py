"""Our own delta encoder for packs: plain, linear, and the same bytes everywhere (format: gitformat-pack(5))."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COPY_BYTES = 0x10000
_INSERT_BYTES = 127
_SHORTEST_COPY = 16
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_TREE_ITEMS = re.compile(rb"[0-7]+ [^\0]+\0.{20}", re.DOTALL)


def make_delta(base: bytes, target: bytes, *, tree: bool = False) -> bytes:
    """Return the instructions that turn `base` into `target`.

    What both share at the ends is copied; between them whole lines (items of a tree) that the base has are copied.
    """
    head = _shared_head(base, target)
    tail = _shared_tail(base, target, min(len(base), len(target)) - head)
    out = bytearray(_varint(len(base)) + _varint(len(target)))
    _copy(out, 0, head)
    _middle(out, base, target[head : len(target) - tail], (head, len(base) - tail), tree=tree)
    _copy(out, len(base) - tail, tail)
    return bytes(out)


def _middle(out: bytearray, base: bytes, middle: bytes, window: tuple[int, int], *, tree: bool) -> None:
    pattern = _TREE_ITEMS if tree else _LINES
    lines: dict[bytes, int] = {}
    # A line of the base may begin before what is shared and still match; so its window grows to whole lines.
    first = 0 if tree else base.rfind(b"\n", 0, window[0]) + 1
    for match in pattern.finditer(base, first, window[1]):
        lines.setdefault(match[0], match.start())
    plain = bytearray()
    start = end = 0
    for piece in _pieces(pattern, middle):
        if end > start and base.startswith(piece, end):
            end += len(piece)
            continue
        place = lines.get(piece, -1)
        if end > start:
            _flush(out, plain, base, (start, end))
        start = end = 0
        if place < 0:
            plain += piece
        else:
            start, end = place, place + len(piece)
    _flush(out, plain, base, (start, end))
    _insert(out, plain)


def _pieces(pattern: re.Pattern[bytes], data: bytes) -> Iterator[bytes]:
    place = 0
    for match in pattern.finditer(data):
        if match.start() > place:
            yield data[place : match.start()]
        yield match[0]
        place = match.end()
    if place < len(data):
        yield data[place:]


def _flush(out: bytearray, plain: bytearray, base: bytes, run: tuple[int, int]) -> None:
    start, end = run
    if end - start < _SHORTEST_COPY:
        plain += base[start:end]
        return
    _insert(out, plain)
    plain.clear()
    _copy(out, start, end - start)


def _insert(out: bytearray, plain: bytes | bytearray) -> None:
    for place in range(0, len(plain), _INSERT_BYTES):
        piece = plain[place : place + _INSERT_BYTES]
        out.append(len(piece))
        out += piece


def _copy(out: bytearray, offset: int, size: int) -> None:
    while size:
        piece = min(size, _COPY_BYTES)
        flags, arguments = 0x80, bytearray()
        for bit in range(4):
            if byte := offset >> 8 * bit & 0xFF:
                flags |= 1 << bit
                arguments.append(byte)
        for bit in range(2):
            if byte := (piece & 0xFFFF) >> 8 * bit & 0xFF:
                flags |= 0x10 << bit
                arguments.append(byte)
        out.append(flags)
        out += arguments
        offset += piece
        size -= piece


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _shared_head(one: bytes, two: bytes) -> int:
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shared_tail(one: bytes, two: bytes, most: int) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[len(one) - middle : len(one) - low] == two[len(two) - middle : len(two) - low]:
            low = middle
        else:
            high = middle - 1
    return low
