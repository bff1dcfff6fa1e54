"""Reading signed documents without leniency: what one tool ignores another one believes."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from packager.base.errors import InputError
from packager.oci.descriptor import expect_object, expect_text

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_NONE: frozenset[str] = frozenset()


def expect_fields(
    value: object, required: AbstractSet[str], *, optional: AbstractSet[str] = _NONE, where: str
) -> dict[str, Any]:
    """Return a JSON object that has all `required` fields, perhaps `optional` ones, and no other."""
    fields = expect_object(value, where=where)
    missing = sorted(required - fields.keys())
    strange = sorted(fields.keys() - required - optional)
    if missing:
        raise InputError(f"the field {missing[0]} is missing", where=where)
    if strange:
        raise InputError(f"unknown field {strange[0][:80]!r}", where=where)
    return fields


def parse_base64(value: object, *, where: str) -> bytes:
    """Return the bytes of standard, padded, canonical Base64; the URL-safe alphabet is refused."""
    text = expect_text(value, where=where)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    if data is None or base64.b64encode(data).decode() != text:
        raise InputError("not canonical standard Base64", where=where)
    return data
