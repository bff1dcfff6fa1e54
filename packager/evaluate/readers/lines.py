"""What test programs print: lines without colour, and the JSON objects among them."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLOUR = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")
_CHECKOUT = re.compile(r"^(?:file://)?/workspace/[^/]+/")


def text_lines(data: bytes) -> Iterator[str]:
    """Yield every line without colour and line end; bytes that are not UTF-8 become U+FFFD."""
    for raw in io.BytesIO(data):
        yield _COLOUR.sub("", raw.decode("utf-8", errors="replace").rstrip("\r\n"))


def json_objects(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the lines that are JSON objects; others are passed over."""
    for line in text_lines(data):
        if (found := parse_object(line)) is not None:
            yield found


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is, or None."""
    text = text.strip()
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def text_of(value: dict[str, Any], key: str) -> str:
    """Return a text of a JSON object; anything else is no text."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def in_checkout(path: str) -> str:
    """Return a path as it is inside the checkout that it lies in."""
    return _CHECKOUT.sub("", path)
