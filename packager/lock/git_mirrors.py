"""Where a repository's objects can be had: a configured mirror in place of the recipe's URL, as git's insteadOf."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from packager.base.errors import InputError, WorldError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{(path|owner|name)\}")
_SCHEMES = ("https", "http", "ssh", "git", "file")


def rewrite_url(url: str, mirrors: Mapping[str, str]) -> str:
    """Return where `url` is mirrored, or `url` itself.

    A plain key is a prefix: what follows it is appended to the value (`{"https://example.invalid/": "/mirrors/"}`).
    A key with placeholders must match the whole URL without its `.git`, and the value may use them:
    `{owner}` and `{name}` are one part each, `{path}` is one part or more
    (`{"https://example.invalid/{owner}/{name}": "/mirrors/{owner}+{name}/repo"}`).
    Of several keys that match, the one with the most literal characters wins.
    """
    for key in sorted(mirrors, key=lambda text: (-len(_PLACEHOLDER.sub("", text)), text)):
        found = _rewrite(url, key, mirrors[key])
        if found is not None:
            return found
    return url


def check_mirror(key: str, value: str) -> None:
    """Raise InputError if the value uses a placeholder that the key does not have."""
    names = set(_PLACEHOLDER.findall(key))
    for name in _PLACEHOLDER.findall(value):
        if name not in names:
            raise InputError(f"expected {{{name}}} in the prefix {key!r} too, since {value!r} uses it", where="mirrors")


def _rewrite(url: str, key: str, value: str) -> str | None:
    check_mirror(key, value)
    if _PLACEHOLDER.search(key) is None:
        rest = url.removeprefix(key)
        safe = url.startswith(key) and ".." not in rest.split("/")
        return value + rest if safe else None
    pattern = "".join(
        f"(?P<{part}>{'.+' if part == 'path' else '[^/]+'})" if number % 2 else re.escape(part)
        for number, part in enumerate(_PLACEHOLDER.split(key))
    )
    found = re.fullmatch(pattern, url.rstrip("/").removesuffix(".git"))
    if found is None or any({"..", ".", ""} & set(part.split("/")) for part in found.groupdict().values()):
        return None
    return _PLACEHOLDER.sub(lambda match: found[match[1]], value)


def local_objects(place: str) -> Path | None:
    """Return the objects directory of a repository on this disk, or None if `place` is a URL of another machine."""
    parts = urlsplit(place)
    if parts.scheme not in ("", "file"):
        return None
    path = Path(unquote(parts.path)) if parts.scheme else Path(place)
    if not path.is_absolute():
        return None
    for folder in (path, path / ".git", path.with_name(path.name + ".git")):
        if folder.is_file():
            continue
        if (folder / "objects").is_dir() and (folder / "HEAD").is_file():
            return (folder / "objects").resolve()
    raise WorldError(
        "expected a git repository (HEAD and objects, bare or in .git), found none",
        where=str(path),
        hint="correct the mirror setting, or fetch the mirror again",
    )


def check_url(url: str) -> None:
    """Raise InputError unless `url` is one that git fetches over a plain transport."""
    scp_like = re.fullmatch(r"[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:[^:].*", url)
    if url.startswith("-") or (urlsplit(url).scheme not in _SCHEMES and not url.startswith("/") and not scp_like):
        hint = "use an https, ssh, git or file URL, or an absolute path"
        raise InputError(f"expected the URL of a git repository, found {url[:120]!r}", where="repo", hint=hint)
