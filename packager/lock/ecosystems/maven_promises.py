"""What projects of the JVM promise: Gradle's verification metadata and the trusted checksums of Maven's resolver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

from packager.base.errors import InputError
from packager.lock.ecosystems.asked import Promise

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

_GRADLE = "verification-metadata.xml"
_STRONG = ("sha256", "sha512")
_SUMMARY = re.compile(r"(?:.*/)?checksums(?:-[^/]*)?\.(?P<algorithm>sha256|sha512)")
_LINE = re.compile(r"(?P<hash>[0-9a-f]{64,128})\s+(?P<key>\S+)", re.ASCII)


def read_promises(name: str, data: bytes) -> list[Promise]:
    """Read one file if it is one of them; md5 and sha1 are no promises."""
    if name.rpartition("/")[2] == _GRADLE:
        return list(_read_verification(name, data))
    summary = _SUMMARY.fullmatch(name)
    if summary is None:
        return []
    lines = enumerate(data.decode(errors="replace").splitlines(), 1)
    found = ((number, match) for number, line in lines if (match := _LINE.fullmatch(line.strip())))
    return [
        Promise(f"{name}:{number}", match["key"], frozenset({f"{summary['algorithm']}:{match['hash']}"}))
        for number, match in found
    ]


def _read_verification(name: str, data: bytes) -> Iterator[Promise]:
    try:
        root = fromstring(data)
    except (ParseError, DefusedXmlException, ValueError) as error:
        raise InputError(f"the lock file cannot be read: {error}", where=name) from error
    for component in _children(root, "component"):
        group, module, version = (component.get(word, "") for word in ("group", "name", "version"))
        for artifact in _children(component, "artifact"):
            file = artifact.get("name", "")
            expected = frozenset(value for algorithm in _STRONG for value in _values(artifact, algorithm))
            if expected:
                key = f"{group.replace('.', '/')}/{module}/{version}/{file}"
                yield Promise(f"{name} ({group}:{module}:{version})", key, expected)


def _values(artifact: Element, algorithm: str) -> Iterator[str]:
    for told in _children(artifact, algorithm):
        yield f"{algorithm}:{told.get('value', '').lower()}"
        yield from (f"{algorithm}:{other.get('value', '').lower()}" for other in _children(told, "also-trust"))


def _children(parent: Element, word: str) -> Iterator[Element]:
    """Return descendants by local name: the namespace of the format changes with its version."""
    return (element for element in parent.iter() if element.tag.rpartition("}")[2] == word)
