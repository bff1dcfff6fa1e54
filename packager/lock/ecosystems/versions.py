"""The order of semantic versions (semver.org §11), as npm and Go use it."""

from __future__ import annotations

import re

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)

Order = tuple[int, int, int, bool, list[tuple[bool, int, str]]]


def order_of(version: str) -> Order:
    """Return what sorts versions: a pre-release before its release, numbers before words; others before all."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (-1, 0, 0, False, [(False, 0, version)])
    words = found[4].split(".") if found[4] else []
    parts = [(not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words]
    return (int(found[1]), int(found[2]), int(found[3]), found[4] is None, parts)
