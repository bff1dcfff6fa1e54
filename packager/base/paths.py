"""Relative paths that cannot leave the tree they are used in."""

from __future__ import annotations

import posixpath
from typing import NewType

from packager.base.errors import InputError

RelativePath = NewType("RelativePath", str)
"""A normalised path without leading slash, `.` or `..` parts and NUL bytes."""


def parse_relative(text: str, *, where: str = "path") -> RelativePath:
    """Return `text` as a path inside a tree, or raise InputError."""
    parts = text.split("/")
    if not text or text.startswith("/") or "\0" in text or ".." in parts or posixpath.normpath(text) != text:
        raise InputError(f"expected a plain path inside the tree, found {text[:120]!r}", where=where)
    return RelativePath(text)
