"""SPDX licence expressions (spdx-spec v2.3, annex D) as packages write them; what is not one is nothing, no guess."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_IDS = """
0BSD AFL-2.1 AFL-3.0 AGPL-3.0-only AGPL-3.0-or-later Apache-1.1 Apache-2.0 Artistic-1.0 Artistic-1.0-Perl
Artistic-2.0 BlueOak-1.0.0 BSD-1-Clause BSD-2-Clause BSD-2-Clause-Patent BSD-3-Clause BSD-4-Clause BSD-4-Clause-UC
BSD-Source-Code BSL-1.0 bzip2-1.0.6 CC-BY-3.0 CC-BY-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 CC0-1.0 CDDL-1.0 CDDL-1.1 CPL-1.0
curl EPL-1.0 EPL-2.0 EUPL-1.2 FSFAP FSFUL FSFULLR FTL GFDL-1.2-or-later GFDL-1.3-or-later GPL-1.0-only GPL-1.0-or-later
GPL-2.0-only GPL-2.0-or-later GPL-3.0-only GPL-3.0-or-later HPND ICU IJG ISC LGPL-2.0-only LGPL-2.0-or-later
LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only LGPL-3.0-or-later MIT MIT-0 MIT-CMU MPL-1.1 MPL-2.0 MS-PL NCSA OFL-1.1
OLDAP-2.8 OpenSSL PHP-3.01 PostgreSQL PSF-2.0 Python-2.0 Ruby TCL Unicode-3.0 Unicode-DFS-2016 Unlicense Vim W3C
WTFPL X11 Zlib ZPL-2.1
"""
_EXCEPTIONS = """
Autoconf-exception-2.0 Autoconf-exception-3.0 Bison-exception-2.2 Classpath-exception-2.0 GCC-exception-3.1
LLVM-exception OpenSSL-exception
"""
_KNOWN = {name.lower(): name for name in _IDS.split()}
_WITH = {name.lower(): name for name in _EXCEPTIONS.split()}
_OLD = {
    f"{kind.lower()}-{version}{mark}": f"{kind}-{version}-{'or-later' if mark else 'only'}"
    for kind, version in (
        ("AGPL", "3.0"),
        ("GPL", "1.0"),
        ("GPL", "2.0"),
        ("GPL", "3.0"),
        ("LGPL", "2.0"),
        ("LGPL", "2.1"),
        ("LGPL", "3.0"),
    )
    for mark in ("", "+")
}
"""Identifiers that SPDX has given up, with their present spelling."""
_TOKEN = re.compile(r"\(|\)|[A-Za-z0-9.+-]+")
_MOST_TOKENS = 200


def parse_expression(text: str) -> str | None:
    """Return an expression in its usual spelling, or None if any part of it is not one that we know."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s+", "", text) or not 1 <= len(tokens) <= _MOST_TOKENS:
        return None
    words = _Words(tokens)
    found = words.either()
    return found if found is not None and words.at_end() else None


def every_of(expressions: set[str]) -> str:
    """Return one expression that says that all of them apply."""
    several = len(expressions) > 1
    return " AND ".join(f"({one})" if several and " OR " in one else one for one in sorted(expressions))


class _Words:
    """The tokens of one expression, read from the left; OR binds weaker than AND."""

    def __init__(self, tokens: list[str]) -> None:
        self._left = tokens

    def at_end(self) -> bool:
        return not self._left

    def either(self) -> str | None:
        return self._joined("OR", self.both)

    def both(self) -> str | None:
        return self._joined("AND", self._one)

    def _joined(self, word: str, part: Callable[[], str | None]) -> str | None:
        found = part()
        while found is not None and self._left and self._left[0].upper() == word:
            self._left.pop(0)
            following = part()
            found = None if following is None else f"{found} {word} {following}"
        return found

    def _one(self) -> str | None:
        if not self._left:
            return None
        word = self._left.pop(0)
        if word == "(":
            inner = self.either()
            if inner is None or not self._left or self._left.pop(0) != ")":
                return None
            return f"({inner})"
        name = _KNOWN.get(word.lower()) or _OLD.get(word.lower())
        if name is None or not self._left or self._left[0].upper() != "WITH":
            return name
        self._left.pop(0)
        exception = _WITH.get(self._left.pop(0).lower()) if self._left else None
        return None if exception is None else f"{name} WITH {exception}"
