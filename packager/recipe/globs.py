"""Globs of a recipe: `*` and `?` stay inside one component of a path, `**` stands for any number of components."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIMIT = 400


def parse_glob(text: str, *, where: str = "glob") -> str:
    """Return `text` as a glob below a checkout, or raise InputError: not absolute, no `..`, no backslash."""
    parts = text.split("/")
    if not text or len(text) > _LIMIT or "\0" in text or "\n" in text:
        raise InputError(f"expected a glob of 1 to {_LIMIT} characters on one line, found {text[:80]!r}", where=where)
    if text.startswith("/"):
        raise InputError(f"expected a glob relative to the checkout, found {text!r}", where=where, hint="drop the /")
    if ".." in parts or "." in parts or "" in parts:
        raise InputError(f"expected a glob without empty, . and .. parts, found {text!r}", where=where)
    if "\\" in text or text.startswith("!"):
        raise InputError(f"expected a glob without backslash and leading !, found {text!r}", where=where)
    if any("**" in part and part != "**" for part in parts):
        raise InputError(f"expected ** as a whole part of the path, found {text!r}", where=where, hint="write **/*.go")
    _compiled(text, where)
    return text


def matches(glob: str, path: str) -> bool:
    """Say whether `path` (relative, with /) matches `glob`; a glob that names a folder does not match what is in it."""
    return _compiled(glob, "glob").fullmatch(path) is not None


def matches_any(globs: Iterable[str], path: str) -> bool:
    """Say whether `path` matches one of `globs`."""
    return any(matches(glob, path) for glob in globs)


@functools.lru_cache(maxsize=1024)
def _compiled(glob: str, where: str) -> re.Pattern[str]:
    parts = glob.split("/")
    last = len(parts) - 1
    pieces: list[str] = []
    for index, part in enumerate(parts):
        if part == "**":
            pieces.append(".+" if index == last else "(?:[^/]+/)*")
        else:
            pieces.append(_component(part, where) + ("" if index == last else "/"))
    return re.compile("".join(pieces), re.DOTALL)


def _component(part: str, where: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            end = part.find("]", at + 2 if part[at : at + 1] in {"!", "^"} else at + 1)
            if end < 0:
                raise InputError(f"expected ] after [ in {part!r}", where=where, hint="write [[] for a bracket")
            out.append(_character_class(part[at:end], where))
            at = end + 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def _character_class(body: str, where: str) -> str:
    negated = body[:1] in {"!", "^"}
    inner = body[1:] if negated else body
    try:
        # a slash never matches, as in the shell's pathname expansion
        text = f"(?!/)[{'^' if negated else ''}{re.escape(inner).replace(chr(92) + '-', '-')}]"
        re.compile(text)
    except re.error as error:
        raise InputError(f"expected a range in [{body}]: {error}", where=where) from error
    return text
