"""The WWW-Authenticate header (RFC 9110, 11.6.1): several challenges, quoted commas, no guessing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import WorldError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMIT = 8192
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - the grammar's `token`, not a secret
_PARAMETER = re.compile(rf'({_TOKEN})[ \t]*=[ \t]*(?:({_TOKEN})|"((?:[^"\\]|\\.)*)")(?=[ \t]*(?:,|$))')
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+|(?=,|$))")
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))")
_BLANKS = re.compile(r"[ \t,]*")


@dataclass(frozen=True)
class Challenge:
    """One way in which a registry wants to be asked: the scheme and the parameters' names are lower-case."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse_challenges(header: str, *, where: str) -> list[Challenge]:
    """Return the challenges of a header in order; WorldError if it is too long, repeats a parameter or is not one."""
    if len(header) > _LIMIT:
        raise WorldError(f"expected at most {_LIMIT} bytes of WWW-Authenticate, found {len(header)}", where=where)
    found: list[Challenge] = []
    position = _skip(header, 0)
    while position < len(header):
        scheme = _SCHEME.match(header, position)
        if scheme is None:
            raise WorldError(f"not a WWW-Authenticate header: {header[:80]!r}", where=where)
        parameters, position = _read_parameters(header, _skip(header, scheme.end()), where=where)
        found.append(Challenge(scheme[1].lower(), parameters))
    return found


def _read_parameters(header: str, position: int, *, where: str) -> tuple[dict[str, str], int]:
    found: dict[str, str] = {}
    while match := _PARAMETER.match(header, position):
        name = match[1].lower()
        if name in found:
            raise WorldError(f"WWW-Authenticate says {name} twice: {header[:80]!r}", where=where)
        found[name] = match[2] if match[2] is not None else re.sub(r"\\(.)", r"\1", match[3])
        position = _skip(header, match.end())
    if not found and (match := _TOKEN68.match(header, position)) and _SCHEME.match(header, position) is None:
        position = _skip(header, match.end())
    return found, position


def _skip(header: str, position: int) -> int:
    match = _BLANKS.match(header, position)
    return match.end() if match else position
