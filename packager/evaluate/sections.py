"""Manifests that say in one part how tests run, and in the rest what a project is: readers that return the first part.

If that part is not what it is in the image, the whole file is put back; else a patch may change it. What cannot be
read is a part of its own, equal only to itself.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import configparser
    from collections.abc import Callable, Mapping

_NODE_RUNNERS = ("scripts", "jest", "vitest", "mocha", "ava", "tap", "c8", "nyc", "babel", "imports")
_NODE = (*_NODE_RUNNERS, "overrides", "resolutions", "pnpm", "workspaces")
_COMPOSER = ("scripts", "autoload-dev", "config", "repositories")
_PYTHON_TOOLS = ("pytest", "tox", "coverage", "hatch", "poe", "nox")
_GO = re.compile(r"^\s*(?:replace|exclude|toolchain|tool|godebug)\b|=>", re.MULTILINE)
_JVM = re.compile(r"(?i)surefire|failsafe|skipTests|testFailureIgnore|ignoreFailures|maven\.test|useJUnit|\btest\b")


def _toml(data: bytes) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most tasks guard no such file

    return tomllib.loads(data.decode())


def _at(plain: object, *keys: str) -> object:
    for key in keys:
        plain = plain.get(key) if isinstance(plain, dict) else None
    return plain


def _pyproject(data: bytes) -> object:
    plain = _toml(data)
    hooks = _at(plain, "project", "entry-points", "pytest11"), _at(plain, "tool", "poetry", "plugins", "pytest11")
    return [*hooks, *(_at(plain, "tool", tool) for tool in _PYTHON_TOOLS)]


def _ini(data: bytes) -> configparser.ConfigParser:
    """Read an INI file, names as they are written; what is none is a ValueError."""
    import configparser  # noqa: PLC0415 - most tasks guard no such file

    class Ini(configparser.ConfigParser):
        def optionxform(self, optionstr: str) -> str:
            return optionstr

    parser = Ini(interpolation=None, strict=False, delimiters=("=",))
    try:
        parser.read_string(data.decode())
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    return parser


def _setup_cfg(data: bytes) -> object:
    parser = _ini(data)
    deciding = [name for name in parser.sections() if re.match(r"tool:|aliases$|nosetests|coverage:|test$", name)]
    hooks = parser.get("options.entry_points", "pytest11", fallback=None)
    return [hooks, {name: dict(parser[name]) for name in deciding}]


def _entry_points(data: bytes) -> object:
    parser = _ini(data)
    return dict(parser["pytest11"]) if parser.has_section("pytest11") else None


def _json(data: bytes, keys: tuple[str, ...]) -> object:
    plain = json.loads(data or b"{}")
    return [_at(plain, key) for key in keys]


def _cargo(data: bytes) -> object:
    plain = _toml(data)
    places = (("patch",), ("replace",), ("test",), ("bench",), ("lib", "test"), ("lib", "harness"))
    return [
        _at(plain, *keys) for keys in (*places, ("profile", "test"), ("package", "build"), ("package", "autotests"))
    ]


def _lines(pattern: re.Pattern[str]) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        return [line.strip() for line in data.decode().splitlines() if pattern.search(line)]

    return read


def _careful(read: Callable[[bytes], object]) -> Callable[[bytes], object]:
    def carefully(data: bytes) -> object:
        try:
            return read(data)
        except (ValueError, RecursionError):
            return data

    return carefully


SECTIONS: Mapping[str, Callable[[bytes], object]] = {
    name: _careful(read)
    for name, read in {
        "pyproject.toml": _pyproject,
        "setup.cfg": _setup_cfg,
        "entry_points.txt": _entry_points,
        "package.json": lambda data: _json(data, _NODE),
        "composer.json": lambda data: _json(data, _COMPOSER),
        "Cargo.toml": _cargo,
        "go.mod": _lines(_GO),
        "pom.xml": _lines(_JVM),
        "build.gradle": _lines(_JVM),
        "build.gradle.kts": _lines(_JVM),
    }.items()
}
"""By file name, in whatever folder."""

EVERYWHERE = frozenset({"pyproject.toml", "setup.cfg", "entry_points.txt"})
"""Those that count in any folder; a new one of the others in a folder below is a package of its own."""

ABSENT = b""
"""What a reader is given where there is no such file: every part is then missing."""
