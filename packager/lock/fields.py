"""Reads one JSON object of a lock, key by key, with complaints that carry the key's path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.digests import Digest, parse_digest
from packager.base.errors import InputError

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence


class Fields:
    """One JSON object: every getter takes a key away, `finish` refuses what is left."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise InputError(f"expected an object, found {type(value).__name__}", where=where)
        self._left = dict(value)
        self.where = where

    def has(self, name: str) -> bool:
        """Say whether an optional key is there and not taken yet."""
        return name in self._left

    def text(self, name: str) -> str:
        """Return a non-empty string."""
        value = self._take(name)
        if not isinstance(value, str) or not value:
            raise self.refusal(name, "a non-empty string", value)
        return value

    def size(self, name: str) -> int:
        """Return a number of bytes."""
        value = self._take(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.refusal(name, "a number of bytes", value)
        return value

    def digest(self, name: str) -> Digest:
        """Return a SHA-256 digest."""
        return parse_digest(self.text(name), where=f"{self.where}: {name}")

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of a few words."""
        value = self.text(name)
        if value not in choices:
            raise self.refusal(name, " or ".join(choices), value)
        return value

    def matching(self, name: str, pattern: re.Pattern[str], description: str) -> str:
        """Return a string of a certain form."""
        value = self.text(name)
        if pattern.fullmatch(value) is None:
            raise self.refusal(name, description, value)
        return value

    def expect(self, name: str, value: str) -> None:
        """Refuse any other value than this."""
        found = self._take(name)
        if found != value:
            raise self.refusal(name, value, found)

    def texts(self, name: str) -> dict[str, str]:
        """Return an object whose values are all strings."""
        value = self._take(name)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise self.refusal(name, "an object of strings", value)
        return dict(value)

    def fields(self, name: str) -> Fields:
        """Return an inner object."""
        return Fields(self._take(name), f"{self.where}: {name}")

    def rows(self, name: str) -> list[Fields]:
        """Return the objects of a list."""
        value = self._take(name)
        if not isinstance(value, list):
            raise self.refusal(name, "a list", value)
        return [Fields(row, f"{self.where}: {name}[{number}]") for number, row in enumerate(value)]

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        if self._left:
            raise InputError(f"expected no other keys, found {', '.join(sorted(self._left))[:200]}", where=self.where)

    def refusal(self, name: str, expected: str, found: object) -> InputError:
        """Return the complaint about one key."""
        return InputError(f"expected {expected}, found {str(found)[:80]!r}", where=f"{self.where}: {name}")

    def _take(self, name: str) -> Any:  # noqa: ANN401 - JSON has no narrower type
        if name not in self._left:
            raise InputError(f"expected the key {name}, found none", where=self.where)
        return self._left.pop(name)
