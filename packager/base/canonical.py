"""Canonical JSON: one value, one sequence of bytes; and a reader that refuses whatever is ambiguous."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_BYTES = 4 << 20
"""Larger documents are refused: containers/image has the same limit for manifests and configs."""

_DEPTH = 64


def format_canonical(value: object) -> bytes:
    """Return `value` as JSON with sorted keys, no blanks, UTF-8 and no final newline.

    Floats are refused, since their text is not canonical.
    """
    _refuse_floats(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def format_readable(value: object) -> bytes:
    """Return `value` as JSON for people: sorted keys, two blanks of indent, a final newline."""
    _refuse_floats(value)
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def parse_json(data: bytes, *, where: str, limit: int = LIMIT_BYTES) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Parse a JSON document; refuse duplicate keys, NaN, huge numbers, deep nesting, a BOM and over `limit` bytes."""
    if len(data) > limit:
        raise InputError(f"expected at most {limit} bytes of JSON, found {len(data)}", where=where)
    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_int=_bounded_int)
        _measure(value, _DEPTH)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"not acceptable JSON: {error}", where=where) from error
    return value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate key {key!r}")
        found[key] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _bounded_int(text: str) -> int:
    value = int(text) if len(text) <= len(str(1 << 63)) + 1 else None
    if value is None or not -(1 << 63) <= value < (1 << 63):
        raise ValueError(f"number out of range: {text[:40]}")
    return value


def _measure(value: object, depth: int) -> None:
    if depth == 0:
        raise ValueError(f"nested deeper than {_DEPTH}")
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        _measure(child, depth - 1)


def _refuse_floats(value: object) -> None:
    if isinstance(value, float):
        raise TypeError(f"a float has no canonical text: {value}")
    children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for child in children:
        _refuse_floats(child)
