"""Lock files of Python's package managers: requirements with hashes, uv, poetry, pdm and pylock.toml, as promises."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from packager.base.errors import InputError
from packager.lock.ecosystems.asked import Promise
from packager.lock.ecosystems.pip_index import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*===?\s*(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash[=\s](?P<algorithm>sha256|sha384|sha512):(?P<value>[0-9a-f]+)")
_PYLOCK = re.compile(r"pylock(\.[^.]+)?\.toml")


def read_promises(where: str, data: bytes) -> list[Promise]:
    """Return what a lock file promises; nothing when the file is none of Python's."""
    name = where.rpartition("/")[2]
    if name == "uv.lock":
        return _read(where, data, _of_uv)
    if name in {"poetry.lock", "pdm.lock"}:
        return _read(where, data, _of_poetry)
    if _PYLOCK.fullmatch(name):
        return _read(where, data, _of_pylock)
    return _of_requirements(where, data) if name.endswith((".txt", ".in")) and b"--hash" in data else []


def _read(
    where: str, data: bytes, rows: Callable[[Mapping[str, Any]], Iterator[tuple[str, str, Iterable[str]]]]
) -> list[Promise]:
    try:
        found = [(name, version, frozenset(hashes)) for name, version, hashes in rows(tomllib.loads(data.decode()))]
        return [_promise(f"{where} ({name})", name, version, hashes) for name, version, hashes in found if hashes]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"the lock file cannot be read: {error}", where=where) from error


def _of_uv(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Iterable[str]]]:
    for package in document.get("package", ()):
        rows = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
        hashes = [row["hash"] for row in rows if "hash" in row]
        if hashes:  # the project itself has neither files nor, if it is dynamic, a version
            yield package["name"], package["version"], hashes


def _of_poetry(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Iterable[str]]]:
    """Read poetry's and pdm's rows; poetry before 1.5 and pdm before 2.8 list files apart."""
    files = document.get("metadata", {}).get("files", {})
    for package in document.get("package", ()):
        name, version = package["name"], package["version"]
        rows = package.get("files") or files.get(name) or files.get(f"{name} {version}") or ()
        yield name, version, [row["hash"] for row in rows]


def _of_pylock(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Iterable[str]]]:
    """Read PEP 751's `packages`."""
    for package in document.get("packages", ()):
        rows = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
        if "version" in package:
            hashes = [f"{name}:{value}" for row in rows for name, value in row["hashes"].items()]
            yield package["name"], package["version"], hashes


def _of_requirements(where: str, data: bytes) -> list[Promise]:
    found = []
    number = 0
    lines = data.decode(errors="replace").splitlines()
    while number < len(lines):
        first, logical = number + 1, lines[number]
        while logical.endswith("\\") and number + 1 < len(lines):
            number += 1
            logical = f"{logical[:-1]} {lines[number]}"
        number += 1
        requirement = _REQUIREMENT.match(logical.strip())
        hashes = frozenset(f"{match['algorithm']}:{match['value']}" for match in _HASH.finditer(logical))
        if requirement and hashes:
            found.append(_promise(f"{where}:{first}", requirement["name"], requirement["version"], hashes))
    return found


def _promise(where: str, name: str, version: str, hashes: frozenset[str]) -> Promise:
    return Promise(where, f"pkg:pypi/{normalise(name)}@{quote(version)}", hashes)
