"""Names of images in registries: `registry/repository[:tag][@digest]` (distribution, reference grammar)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packager.base.digests import Digest, parse_digest
from packager.base.errors import InputError

_REGISTRY = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:]+\])"
    r"(?::[0-9]{1,5})?",
    re.ASCII,
)
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_MAX_NAME = 255


@dataclass(frozen=True)
class Reference:
    """An image in a registry, by tag, by digest, by both, or neither."""

    registry: str
    repository: str
    tag: str | None = None
    digest: Digest | None = None

    def __str__(self) -> str:
        text = self.name
        if self.tag is not None:
            text += f":{self.tag}"
        return text if self.digest is None else f"{text}@{self.digest}"

    @property
    def name(self) -> str:
        """The registry and the repository, without tag and digest."""
        return f"{self.registry}/{self.repository}"


def parse_reference(text: str, *, where: str = "reference") -> Reference:
    """Return a reference, or raise InputError; the registry must be named, there is no default."""
    name, at, digest = text.partition("@")
    registry, slash, rest = name.partition("/")
    if not slash or not (any(sign in registry for sign in ".:") or registry == "localhost"):
        raise InputError(
            f"expected registry/repository[:tag][@digest], found {text[:200]!r}",
            where=where,
            hint="name the registry, for example localhost:5000/suite/task:v1",
        )
    repository, colon, tag = rest.partition(":")
    _expect(_REGISTRY, registry, what="a registry host", where=where)
    _expect(_REPOSITORY, repository, what="a repository (lower case, digits, separators)", where=where)
    if colon:
        _expect(_TAG, tag, what="a tag", where=where)
    if len(name) > _MAX_NAME:
        raise InputError(f"expected a name of at most {_MAX_NAME} characters, found {len(name)}", where=where)
    return Reference(registry, repository, tag if colon else None, parse_digest(digest, where=where) if at else None)


def _expect(pattern: re.Pattern[str], text: str, *, what: str, where: str) -> None:
    if pattern.fullmatch(text) is None:
        raise InputError(f"expected {what}, found {text[:120]!r}", where=where)
