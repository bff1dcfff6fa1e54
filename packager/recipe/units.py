"""Durations and sizes as people write them: a whole number and a unit."""

from __future__ import annotations

import re

from packager.base.errors import InputError

_SECONDS = {"s": 1, "m": 60, "h": 3600}
_BYTES = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DURATION = re.compile(r"(?:[0-9]{1,9}[hms])+", re.ASCII)
_PART = re.compile(r"([0-9]+)([hms])", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,12})(?:([KMGT])(?:iB?)?|(B))", re.ASCII)


def parse_duration(text: object, *, where: str = "duration") -> int:
    """Return the seconds of `90s`, `20m`, `2h` or `1h30m`."""
    if not isinstance(text, str) or _DURATION.fullmatch(text) is None:
        raise InputError(f"expected a duration with a unit, found {_shown(text)}", where=where, hint=_DURATION_HINT)
    parts = [(int(number), unit) for number, unit in _PART.findall(text)]
    order = [unit for _, unit in parts]
    if order != [unit for unit in "hms" if unit in order]:
        raise InputError(f"expected hours, minutes, seconds once each, found {text!r}", where=where)
    return sum(number * _SECONDS[unit] for number, unit in parts)


def format_duration(seconds: int) -> str:
    """Return the canonical text of a duration."""
    return f"{seconds}s"


def parse_size(text: object, *, where: str = "size") -> int:
    """Return the bytes of `512M`, `4G`, `4Gi`, `4GiB` or `1024B`; the units are powers of 1024."""
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"expected a size with a unit, found {_shown(text)}", where=where, hint=_SIZE_HINT)
    return int(match[1]) * _BYTES[match[2] or match[3]]


def format_size(size_bytes: int) -> str:
    """Return the canonical text of a size."""
    return f"{size_bytes}B"


_DURATION_HINT = "write 90s, 20m, 2h or 1h30m"
_SIZE_HINT = "write 512M or 4G; K, M, G and T are powers of 1024"


def _shown(value: object) -> str:
    return f"the number {value}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)[:80]
