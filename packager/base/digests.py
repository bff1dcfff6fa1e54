"""SHA-256 digests as OCI spells them: `sha256:` and 64 lower-case hexadecimal digits (image-spec, descriptor.md)."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NewType

from packager.base.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

Digest = NewType("Digest", str)
"""Digest of the bytes of a blob, as stored and transported."""

DiffId = NewType("DiffId", str)
"""Digest of a layer's uncompressed tar."""

BLOCK_BYTES = 1 << 20

_PATTERN = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


def parse_digest(text: str, *, where: str = "digest") -> Digest:
    """Return `text` as a digest, or raise InputError."""
    if not isinstance(text, str) or _PATTERN.fullmatch(text) is None:
        raise InputError(f"expected sha256: and 64 hexadecimal digits, found {str(text)[:80]!r}", where=where)
    return Digest(text)


def digest_of(data: bytes) -> Digest:
    """Return the digest of `data`."""
    return Digest(f"sha256:{hashlib.sha256(data).hexdigest()}")


def digest_of_file(path: Path) -> Digest:
    """Return the digest of a file's content, read in blocks."""
    with path.open("rb") as stream:
        return Digest(f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}")


def hex_of(digest: Digest | DiffId) -> str:
    """Return the 64 hexadecimal digits of a digest."""
    return digest.removeprefix("sha256:")
