"""Where Maven, Gradle, RubyGems, Composer and NuGet say that their registries are: their own settings."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.base.processes import find_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from xml.etree.ElementTree import Element

_MODEL = "org/apache/maven/model/pom-4.0.0.xml"
_MODEL_BYTES = 1 << 20
_CENTRAL = frozenset({"*", "central", "external:*"})
_URL = re.compile(r"""https?://[^\s"'<>]+""")


def maven_repository(settings: Iterable[Path], environment: Mapping[str, str]) -> str | None:
    """Return the mirror of Maven Central that settings.xml names, else where Maven itself has it."""
    for path in settings:
        for mirror in _elements(path, "mirror"):
            covers = {word.strip() for word in (mirror.get("mirrorOf") or "").split(",")}
            if covers & _CENTRAL and "!central" not in covers and mirror.get("blocked") != "true":
                return mirror.get("url")
        for repository in _elements(path, "repository"):
            if repository.get("id") == "central" and repository.get("url"):
                return repository["url"]
    return _built_into_maven(environment)


def gradle_plugin_repository(home: Path) -> str | None:
    """Return the first address that an init script names where it sets up plugins."""
    scripts = [home / "init.gradle", home / "init.gradle.kts", *sorted((home / "init.d").glob("*.gradle*"))]
    for path in scripts:
        text = path.read_text(errors="replace") if path.is_file() else ""
        found = _URL.search(text.partition("pluginManagement")[2])
        if found:
            return found[0]
    return None


def gem_source(gemrc: Path, said: str | None) -> str | None:
    """Return the first source of .gemrc, else the first that `gem sources` says."""
    text = gemrc.read_text(errors="replace") if gemrc.is_file() else ""
    found = re.search(rf"^:?sources:\s*(?:\n\s*-\s*)?\[?[\"']?({_URL.pattern})", text, re.MULTILINE)
    listed = found[1] if found else next(iter(_URL.findall(said or "")), None)
    return listed.rstrip("],") if listed else None


def composer_repository(home: Path, said: str | None) -> str | None:
    """Return the first Composer repository of config.json, else of what `composer config repositories` says."""
    path = home / "config.json"
    try:
        written = json.loads(path.read_text()) if path.is_file() else {}
        repositories = written.get("repositories") or json.loads(said or "{}")
        rows = repositories.values() if isinstance(repositories, dict) else repositories
        urls = [row["url"] for row in rows if isinstance(row, dict) and row.get("type") == "composer"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"expected Composer's settings: {error}", where=str(path)) from error
    return str(urls[0]).replace("https?://", "https://") if urls else None


def nuget_source(settings: Iterable[Path]) -> str | None:
    """Return the first package source of NuGet.Config that is an address."""
    for path in settings:
        for name, attributes in _attributes(path):
            if name == "add" and _URL.fullmatch(attributes.get("value", "")):
                return attributes["value"]
    return None


def _built_into_maven(environment: Mapping[str, str]) -> str | None:
    program = find_program("mvn")
    homes = [Path(environment[name]) for name in ("MAVEN_HOME", "M2_HOME") if environment.get(name)]
    homes += [Path(program).resolve().parents[1]] if program else []
    for jar in (jar for home in homes for jar in sorted((home / "lib").glob("maven-model-builder-*.jar"))):
        with zipfile.ZipFile(jar) as archive, archive.open(_MODEL) as stream:
            text = stream.read(_MODEL_BYTES)
        for repository in _parsed(text, str(jar), "repository"):
            return repository.get("url")
    return None


def _elements(path: Path, word: str) -> list[dict[str, str]]:
    return _parsed(path.read_bytes(), str(path), word) if path.is_file() else []


def _parsed(data: bytes, where: str, word: str) -> list[dict[str, str]]:
    """Return the children's texts of every element of a name, whatever its namespace."""
    found = (element for element in _root(data, where).iter() if _local(element) == word)
    return [{_local(child): (child.text or "").strip() for child in element} for element in found]


def _attributes(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    if path.is_file():
        sources = (one for one in _root(path.read_bytes(), str(path)).iter() if _local(one) == "packageSources")
        yield from ((_local(row), dict(row.attrib)) for element in sources for row in element)


def _root(data: bytes, where: str) -> Element:
    from defusedxml import DefusedXmlException  # noqa: PLC0415 - few commands look for these registries
    from defusedxml.ElementTree import ParseError, fromstring  # noqa: PLC0415

    try:
        root: Element = fromstring(data)
    except (ParseError, DefusedXmlException, ValueError) as error:
        raise InputError(f"expected XML: {error}", where=where) from error
    return root


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]
