"""The ranges of `engines` in package.json, as far as npm itself writes them: `^`, `~`, `>=`, `<`, `||`, blanks."""

from __future__ import annotations

import re

_TERM = re.compile(r"(\^|~|>=|<=|>|<|=)?\s*v?(\d+)(?:\.(\d+|x))?(?:\.(\d+|x))?", re.ASCII)


def admits(range_text: str, version: str) -> bool:
    """Say whether a range admits an exact version; a range in another form admits nothing."""
    numbers = tuple(int(part) for part in version.split(".")[:3])
    full = (*numbers, 0, 0)[:3]
    return any(_all_admit(alternative.strip(), full) for alternative in range_text.split("||"))


def _all_admit(alternative: str, version: tuple[int, ...]) -> bool:
    if alternative in {"", "*", "x"}:
        return True
    terms = list(_TERM.finditer(alternative))
    rest = _TERM.sub("", alternative).strip()
    return bool(terms) and not rest and all(_admits(term, version) for term in terms)


def _admits(term: re.Match[str], version: tuple[int, ...]) -> bool:
    given = [int(part) for part in (term[2], term[3], term[4]) if part and part != "x"]
    low = (*given, 0, 0)[:3]
    minor = low[1] if len(given) > 1 else version[1]
    verdicts = {
        ">=": version >= low,
        ">": version > low,
        "<": version < low,
        "<=": version <= low,
        "^": version >= low and version[0] == low[0],
        "~": version >= low and version[:2] == (low[0], minor),
    }
    return verdicts.get(term[1], version[: len(given)] == tuple(given))
