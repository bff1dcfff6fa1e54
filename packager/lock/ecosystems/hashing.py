"""Hashes of files as package managers write them."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from typing import TYPE_CHECKING

from packager.base.digests import BLOCK_BYTES
from packager.base.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def hex_hash(path: Path, algorithm: str) -> str:
    """Return `sha256:<hex>` of a file (pip, uv)."""
    with path.open("rb") as stream:
        return f"{algorithm}:{hashlib.file_digest(stream, algorithm).hexdigest()}"


def integrity(path: Path, algorithm: str) -> str:
    """Return `sha512-<base64>` of a file (Subresource Integrity; npm)."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, algorithm).digest()
    return f"{algorithm}-{base64.b64encode(digest).decode()}"


def hash_of_zip(path: Path) -> str:
    """Return the `h1:` hash of a module's zip: SHA-256 over the sorted lines `<sha256>  <name>` (golang.org/x/mod)."""
    total = hashlib.sha256()
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist(), key=str.encode):
                total.update(f"{_hash_of_member(archive, name)}  {name}\n".encode())
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise InputError(f"expected a module's zip file: {error}", where=path.name) from error
    return f"h1:{base64.b64encode(total.digest()).decode()}"


def _hash_of_member(archive: zipfile.ZipFile, name: str) -> str:
    one = hashlib.sha256()
    with archive.open(name) as stream:
        while block := stream.read(BLOCK_BYTES):
            one.update(block)
    return one.hexdigest()


def hash_of_mod(path: Path) -> str:
    """Return the `h1:` hash of a module's go.mod file."""
    with path.open("rb") as stream:
        one = hashlib.file_digest(stream, "sha256").hexdigest()
    total = hashlib.sha256(f"{one}  go.mod\n".encode()).digest()
    return f"h1:{base64.b64encode(total).decode()}"
