"""What artifacts say of their licences, as SPDX expressions: each in the place that its ecosystem has for it.

Only what is a known expression counts: a wrong licence is worse than none. Texts of licences are not recognised.
"""

from __future__ import annotations

import json
import lzma
import re
import tarfile
import tomllib
import zipfile
import zlib
from email.parser import BytesParser
from typing import TYPE_CHECKING, cast

from packager.base.errors import InputError
from packager.lock.deb import open_member
from packager.lock.spdx import every_of, parse_expression

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import IO

READER_ID = "licences/1"
"""Part of the key under which a result is kept; changes whenever the same artifact would be read otherwise."""
MOST_BYTES = 1 << 28
"""Larger artifacts are not looked into."""

_TEXT_BYTES = 1 << 20
_UNREADABLE = (
    InputError,
    OSError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
_DEBIAN = {
    "expat": "MIT",
    "gpl": None,
    "cc0": "CC0-1.0",
    "zlib/libpng": "Zlib",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
}
"""Short names of DEP-5 that are spelled otherwise than in SPDX."""
_CLASSIFIERS = {
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
    "License :: CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
}
"""The classifiers that can mean one licence only (`Apache Software License` and `BSD License` cannot)."""


def licence_of(path: Path, alias: str, key: str) -> str | None:
    """Return the expression that an artifact of a registry declares for itself, or None."""
    reader = _READERS.get(alias)
    try:
        return None if reader is None else reader(path, key)
    except _UNREADABLE:
        return None


def _deb(path: Path, key: str) -> str | None:
    name = key.rpartition("/")[2].partition("_")[0]
    with open_member(path, "data.tar") as archive:
        for member in archive:
            if member.name.removeprefix("./") == f"usr/share/doc/{name}/copyright" and member.isfile():
                stream = cast("IO[bytes]", archive.extractfile(member))
                return read_dep5(stream.read(_TEXT_BYTES).decode(errors="replace"))
    return None


def read_dep5(text: str) -> str | None:
    """Return what a machine-readable copyright file (DEP-5) says of all files together; None if one part is unknown."""
    if not text.lstrip().lower().startswith("format:") or "copyright-format" not in text.partition("\n")[0]:
        return None
    found: set[str] = set()
    for paragraph in re.split(r"\n[ \t]*\n", text):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", paragraph, re.MULTILINE))
        if "Files" not in fields:
            continue
        expression = _debian_expression(fields.get("License", ""))
        if expression is None:
            return None
        found.add(expression)
    return every_of(found) if found else None


def _debian_expression(text: str) -> str | None:
    words = re.split(r"(?:,?\s+(and|or)\s+)", text.strip(), flags=re.IGNORECASE)
    names = [_debian_name(word) if number % 2 == 0 else word.upper() for number, word in enumerate(words)]
    return None if None in names or "," in text else parse_expression(" ".join(map(str, names)))


def _debian_name(name: str) -> str | None:
    """Return the SPDX identifier of a short name: `GPL-2+` is GPL-2.0-or-later."""
    lower = name.strip().lower()
    if lower in _DEBIAN:
        return _DEBIAN[lower]
    match = re.fullmatch(r"(a?gpl|lgpl)-([123](?:\.[01])?)(\+?)", lower)
    if match is not None:
        version = match[2] if "." in match[2] else f"{match[2]}.0"
        return parse_expression(f"{match[1]}-{version}{match[3]}")
    return parse_expression(name) if " " not in name.strip() else None


def _wheel(path: Path, key: str) -> str | None:
    if not key.endswith(".whl"):
        return None
    with zipfile.ZipFile(path) as archive:
        data = _zip_member(archive, r"[^/]+\.dist-info/METADATA")
    headers = BytesParser().parsebytes(data, headersonly=True)
    declared = headers.get("License-Expression")
    if declared is not None:
        return parse_expression(declared)
    free = parse_expression(headers.get("License") or "")
    classified = {_CLASSIFIERS.get(one) for one in headers.get_all("Classifier", []) if one.startswith("License ::")}
    only = next(iter(classified)) if len(classified) == 1 else None
    return free if only in (None, free) else only if free is None else None


def _npm(path: Path, key: str) -> str | None:
    if not key.endswith(".tgz"):
        return None
    said = json.loads(_tar_member(path, r"[^/]+/package\.json"))
    licence = said.get("license")
    return parse_expression(licence["type"] if isinstance(licence, dict) else licence)


def _crate(path: Path, key: str) -> str | None:
    if not key.endswith(".crate"):
        return None
    said = tomllib.loads(_tar_member(path, r"[^/]+/Cargo\.toml").decode())
    return parse_expression(said["package"]["license"].replace("/", " OR "))


def _gem(path: Path, key: str) -> str | None:
    from packager.lock.ecosystems.gem_spec import read_gem_metadata  # noqa: PLC0415 - brings YAML

    licences = read_gem_metadata(path)["licenses"] if key.endswith(".gem") else []
    return parse_expression(licences[0]) if len(licences) == 1 else None


def _composer(path: Path, _key: str) -> str | None:
    with zipfile.ZipFile(path) as archive:
        said = json.loads(_zip_member(archive, r"(?:[^/]+/)?composer\.json"))
    licence = said["license"]
    return parse_expression(" OR ".join(licence) if isinstance(licence, list) else licence)


def _nuget(path: Path, _key: str) -> str | None:
    with zipfile.ZipFile(path) as archive:
        data = _zip_member(archive, r"[^/]+\.nuspec").decode("utf-8-sig")
    match = re.search(r"<license\s+type=\"expression\"\s*>([^<]{1,200})</license>", data)
    return None if match is None else parse_expression(match[1])


def _zip_member(archive: zipfile.ZipFile, pattern: str) -> bytes:
    """Return the start of the one member whose name fits; ValueError if there is not exactly one."""
    names = [name for name in archive.namelist() if re.fullmatch(pattern, name)]
    if len(names) != 1:
        raise ValueError(pattern)
    with archive.open(names[0]) as stream:
        return stream.read(_TEXT_BYTES)


def _tar_member(path: Path, pattern: str) -> bytes:
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.isfile() and re.fullmatch(pattern, member.name.removeprefix("./")):
                return cast("IO[bytes]", archive.extractfile(member)).read(_TEXT_BYTES)
    raise ValueError(pattern)


_READERS: dict[str, Callable[[Path, str], str | None]] = {
    "debian": _deb,
    "pypi": _wheel,
    "npm": _npm,
    "crates": _crate,
    "rubygems": _gem,
    "packagist": _composer,
    "nuget": _nuget,
}
ALIASES = frozenset(_READERS)
