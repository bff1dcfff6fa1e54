"""Takes values out of YAML that a person wrote, and notes what is wrong with each instead of stopping at the first."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.recipe.checks import Fault, Key

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_MOST_TEXT = 64 << 10
_MOST_NUMBER = 1 << 40


class Fields:
    """One mapping of a document; `faults` is shared with the mappings inside it."""

    def __init__(self, value: object, key: Key = (), faults: list[Fault] | None = None) -> None:
        self._values = value if isinstance(value, dict) else {}
        self._key = key
        self.faults: list[Fault] = [] if faults is None else faults

    def fault(self, name: str, message: str, hint: str = "") -> None:
        """Note what is wrong with a key, or with the whole mapping if no key is named."""
        self.faults.append(Fault((*self._key, name) if name else self._key, message, hint))

    def has(self, name: str) -> bool:
        """Say whether a key is there."""
        return name in self._values

    def expect_keys(self, known: Collection[str], *, needed: Collection[str] = ()) -> None:
        """Note unknown keys and missing ones."""
        for name in self._values:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, n=1)
                self.fault(str(name), "unknown key", f"did you mean {close[0]}?" if close else "")
        for name in needed:
            if name not in self._values:
                self.fault("", f"missing key {name}")

    def inner(self, name: str) -> Fields:
        """Return the mapping at a key; empty if there is none."""
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            self.fault(name, "expected keys and values")
        return Fields(value, (*self._key, name), self.faults)

    def text(self, name: str, *, default: str = "", pattern: str = "", hint: str = "") -> str:
        """Return the text at a key, which must match a pattern if one is given."""
        if name not in self._values:
            return default
        value = self._values[name]
        if not isinstance(value, str) or not value.strip() or len(value) > _MOST_TEXT or "\0" in value:
            self.fault(name, f"expected text, found {_shown(value)}", hint)
            return default
        if pattern and re.fullmatch(pattern, value, re.ASCII) is None:
            self.fault(name, f"not as expected: {_shown(value)}", hint)
            return default
        return value

    def number(self, name: str, *, default: int) -> int:
        """Return the whole number at a key, 1 or more."""
        value = self._values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_NUMBER:
            self.fault(name, f"expected a whole number, 1 or more, found {_shown(value)}")
            return default
        return value

    def unit(self, name: str, parse: Callable[[object], int], *, default: int) -> int:
        """Return what a duration or size at a key comes to; 0 is refused."""
        if name not in self._values:
            return default
        try:
            found = parse(self._values[name])
        except InputError as error:
            self.fault(name, error.reason, error.hint or "")
            return default
        if not found:
            self.fault(name, "expected more than nothing")
        return found

    def texts(self, name: str, *, pattern: str) -> dict[str, str]:
        """Return the mapping of names to texts at a key; the names match a pattern."""
        given = self.inner(name)
        for key in given._values:  # noqa: SLF001 - of our own kind
            if re.fullmatch(pattern, key, re.ASCII) is None:
                given.fault(key, "not a name that can be used here")
        return {key: given.text(key) for key in given._values}  # noqa: SLF001

    def words(
        self, name: str, *, pattern: str = "", hint: str = "", check: Callable[[str], object] | None = None
    ) -> tuple[str, ...]:
        """Return the list of texts at a key, each matching a pattern or passing a check that raises InputError."""
        value = self._values.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.fault(name, "expected a list of texts", hint)
            return ()
        for one in value:
            if pattern and re.fullmatch(pattern, one, re.ASCII) is None:
                self.fault(name, f"not as expected: {_shown(one)}", hint)
            try:
                _ = check and check(one)
            except InputError as error:
                self.fault(name, error.reason, error.hint or "")
        return tuple(value)


def _shown(value: object) -> str:
    return f"{value!r}"[:80]
