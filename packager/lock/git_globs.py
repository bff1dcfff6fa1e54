"""Globs over the paths of a repository, as git's `:(glob)`: anchored, `*` stays in one folder, `**` does not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from packager.base.errors import InputError


@dataclass(frozen=True)
class Globs:
    """Which paths count: those that match one of `include` (empty: all) and none of `exclude`."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def match(self, path: bytes) -> bool:
        """Return whether a path counts."""
        return self._included.fullmatch(path) is not None and self._excluded.fullmatch(path) is None

    @cached_property
    def _included(self) -> re.Pattern[bytes]:
        return _compile(self.include or ("**",))

    @cached_property
    def _excluded(self) -> re.Pattern[bytes]:
        return _compile(self.exclude)


EVERYTHING = Globs()


def translate_glob(glob: str) -> str:
    """Return the regular expression of one glob; a trailing slash means everything below a folder."""
    if not glob or glob.startswith("/") or "//" in glob or {"..", "."} & set(glob.split("/")):
        raise InputError(f"expected a glob relative to the repository, found {glob!r}", where="globs")
    parts = (glob + "**" if glob.endswith("/") else glob).split("/")
    out = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            out.append(".+" if last else "(?:.+/)?")
        else:
            out.append(_translate_part(part, glob) + ("" if last else "/"))
    return "".join(out)


def _translate_part(part: str, glob: str) -> str:
    out, place = [], 0
    while place < len(part):
        letter = part[place]
        place += 1
        if letter == "*":
            out.append("[^/]*")
        elif letter == "?":
            out.append("[^/]")
        elif letter == "[":
            end = part.find("]", place + 1)
            if end < 0:
                raise InputError(f"expected ] after [ in the glob {glob!r}", where="globs")
            inner = part[place:end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"(?!/)[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            place = end + 1
        else:
            out.append(re.escape(letter))
    return "".join(out)


def _compile(globs: tuple[str, ...]) -> re.Pattern[bytes]:
    text = "|".join(f"(?:{translate_glob(glob)})" for glob in globs) or "(?!)"
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"), re.DOTALL)
    except re.error as error:
        raise InputError(f"not a glob: {error}", where=", ".join(globs)) from error
