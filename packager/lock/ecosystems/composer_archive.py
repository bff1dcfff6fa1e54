"""What an archive of a PHP package says of itself, and the part of it that a Composer repository repeats."""

from __future__ import annotations

import json
import tarfile
import zipfile
from typing import IO, TYPE_CHECKING, Any, cast

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.lock.ecosystems.asked import Held

_NAME = "composer.json"
_MANIFEST_BYTES = 4 << 20
_LASTING = (
    "autoload",
    "bin",
    "conflict",
    "extra",
    "include-path",
    "provide",
    "replace",
    "require",
    "require-dev",
    "suggest",
    "target-dir",
    "type",
)


def lasting_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides how a package is chosen and installed; not times, links and people, which only say."""
    return {"type": "library"} | {name: row[name] for name in _LASTING if row.get(name)}


def read_composer_json(one: Held) -> dict[str, Any]:
    """Read composer.json at the top of an archive, or in its only folder; a package without one has nothing to say."""
    try:
        text = _read_zip(one) if zipfile.is_zipfile(one.path) else _read_tar(one)
        found = json.loads(text)
    except (zipfile.BadZipFile, tarfile.TarError, NotImplementedError, OSError, EOFError, ValueError) as error:
        raise InputError(f"the archive cannot be read: {error}", where=one.key) from error
    if not isinstance(found, dict):
        raise InputError("expected an object in composer.json", where=one.key)
    return found


def _read_zip(one: Held) -> bytes:
    with zipfile.ZipFile(one.path) as archive:
        names = [name for name in archive.namelist() if _is_manifest(name)]
        if not names:
            return b"{}"
        with archive.open(min(names, key=len)) as stream:
            return stream.read(_MANIFEST_BYTES)


def _read_tar(one: Held) -> bytes:
    with tarfile.open(one.path) as archive:
        members = [member for member in archive if member.isfile() and _is_manifest(member.name)]
        if not members:
            return b"{}"
        first = min(members, key=lambda member: len(member.name))
        return cast("IO[bytes]", archive.extractfile(first)).read(_MANIFEST_BYTES)


def _is_manifest(name: str) -> bool:
    plain = name.removeprefix("./")
    return plain.rpartition("/")[2] == _NAME and plain.count("/") <= 1
