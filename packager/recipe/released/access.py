"""Takes values out of plain YAML that nobody has checked: what is of another kind is not there."""

from __future__ import annotations

from typing import Any


def text(plain: dict[str, Any], key: str) -> str | None:
    """Return the text at a key, None where there is none or something else."""
    found = plain.get(key)
    return found if isinstance(found, str) and found not in ("", "null", "~") else None


def texts(plain: dict[str, Any], key: str) -> list[str]:
    """Return the texts in the list at a key."""
    found = plain.get(key)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def mapping(plain: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the mapping at a key, an empty one where there is none."""
    found = plain.get(key)
    return found if isinstance(found, dict) else {}


def mappings(plain: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the mappings in the list at a key."""
    found = plain.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
