"""What holds for any patch: its size, git's C-style quoting of paths, and which paths it may touch."""

from __future__ import annotations

import re

from packager.base.errors import InputError

MAX_PATCH_BYTES = 256 << 20
_MAX_PATH = 4096
_MAX_NAME = 255
_ESCAPES = {
    b"a": b"\a",
    b"b": b"\b",
    b"t": b"\t",
    b"n": b"\n",
    b"v": b"\v",
    b"f": b"\f",
    b"r": b"\r",
    b'"': b'"',
    b"\\": b"\\",
}
_QUOTES = {value: b"\\" + key for key, value in _ESCAPES.items()}
_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})')
_QUOTED = re.compile(rb'"((?:[^"\\\n]|\\(?:[abtnvfr"\\]|[0-3][0-7]{2}))*)"')
_SPECIAL = re.compile(rb'[\x00-\x1f\x7f-\xff"\\]')


def quote(path: bytes) -> bytes:
    """Return a path as git writes it: as it is, or in quotes with escapes (core.quotePath)."""
    if _SPECIAL.search(path) is None:
        return path
    return b'"' + _SPECIAL.sub(lambda match: _QUOTES.get(match[0], b"\\%03o" % match[0][0]), path) + b'"'


def split_quoted(text: bytes) -> tuple[bytes, bytes] | None:
    """Return the path that a quoted text begins with and what follows it; None if it does not begin so."""
    match = _QUOTED.match(text)
    return None if match is None else (_ESCAPE.sub(_unescape, match[1]), text[match.end() :])


def _unescape(match: re.Match[bytes]) -> bytes:
    return _ESCAPES[match[1]] if match[1] in _ESCAPES else bytes([int(match[1], 8)])


def unquote(text: bytes, *, where: str) -> bytes:
    """Return the path of a header line: quoted, or plain to the end (a tab ends a plain name)."""
    if not text.startswith(b'"'):
        return text.partition(b"\t")[0]
    found = split_quoted(text)
    if found is None or found[1].strip():
        raise InputError(f"expected a quoted path, found {text[:120]!r}", where=where)
    return found[0]


def strip_parts(path: bytes, count: int, *, where: str) -> bytes:
    """Return a path without its first `count` components, as `git apply -p` does."""
    for _ in range(count):
        _, slash, path = path.partition(b"/")
        if not slash:
            raise InputError("expected a path with a prefix such as a/", where=where, hint="write it with git diff")
    return check_path(path, where=where)


def is_repository(name: bytes) -> bool:
    """Say whether some file system takes a name for .git (git: path.c, is_ntfs_dotgit)."""
    return name.lower().rstrip(b". ") in {b".git", b"git~1"}


def check_path(path: bytes, *, where: str) -> bytes:
    """Return `path` if a patch may touch it: relative, inside the tree, and nothing of .git."""
    parts = path.split(b"/")
    plain = path.decode("utf-8", errors="backslashreplace")[:200]
    if path.startswith(b"/") or b".." in parts or b"." in parts or b"" in parts or b"\0" in path:
        raise InputError(f"expected a plain path inside the tree, found {plain!r}", where=where)
    if len(path) > _MAX_PATH or max(map(len, parts)) > _MAX_NAME:
        raise InputError(f"the path is too long: {plain!r}", where=where)
    if any(map(is_repository, parts)):
        raise InputError(f"a patch must not touch the repository itself: {plain!r}", where=where)
    return path
