"""Reads NuGet packages: the specification inside, and the hash of a package as it was before it was signed."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from xml.etree.ElementTree import Element

    from packager.lock.ecosystems.asked import Held

_SPEC_BYTES = 4 << 20
_SIGNATURE = ".signature.p7s"
_CENTRAL, _LOCAL = struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s5H3L2H")
_END = struct.Struct("<4s4H2LH")
_DESCRIPTOR_FLAG = 8


@dataclass(frozen=True)
class Nuspec:
    """Id and version as written, and dependencies: target framework, then id and range of each."""

    id: str
    version: str
    groups: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    text: bytes


def read_nuspec(one: Held) -> Nuspec:
    """Read the specification of a package, or say why it cannot be read."""
    try:
        with zipfile.ZipFile(one.path) as archive:
            name = next(name for name in archive.namelist() if "/" not in name and name.lower().endswith(".nuspec"))
            with archive.open(name) as stream:
                text = stream.read(_SPEC_BYTES)
        root = fromstring(text)
    except (zipfile.BadZipFile, NotImplementedError, OSError, StopIteration) as error:
        raise InputError(f"the package cannot be read: {error or 'no .nuspec'}", where=one.key) from error
    except (ParseError, DefusedXmlException, ValueError) as error:
        raise InputError(f"the specification of the package cannot be read: {error}", where=one.key) from error
    texts = {_local(element): (element.text or "").strip() for element in root.iter()}
    return Nuspec(texts.get("id", ""), texts.get("version", ""), tuple(_read_groups(root)), text)


def content_hash(path: Path) -> str:
    """Return the SHA-512 that packages.lock.json has: of the package without the signature that a registry added."""
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(path) as archive:
            signed = _SIGNATURE in archive.namelist()
        plain = _without_signature(data) if signed else data
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError) as error:
        raise InputError(f"the package cannot be read: {error}", where=path.name) from error
    return base64.b64encode(hashlib.sha512(plain).digest()).decode()


def _read_groups(root: Element) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    for dependencies in (element for element in root.iter() if _local(element) == "dependencies"):
        loose = tuple(_read_dependencies(dependencies))
        if loose:
            yield "", loose
        for group in (element for element in dependencies if _local(element) == "group"):
            yield group.get("targetFramework", ""), tuple(_read_dependencies(group))


def _read_dependencies(parent: Element) -> Iterator[tuple[str, str]]:
    found = (element for element in parent if _local(element) == "dependency")
    return ((element.get("id", ""), element.get("version", "")) for element in found)


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _without_signature(data: bytes) -> bytes:
    """Undo what signing did to a zip: one more entry, one more row of the central directory, and larger offsets."""
    end = data.rindex(b"PK\x05\x06")
    mark, disk, first, _, count, _, start, comment = _END.unpack_from(data, end)
    rows, place = [], start
    for _ in range(count):
        fields = _CENTRAL.unpack_from(data, place)
        size = _CENTRAL.size + sum(fields[10:13])
        rows.append((fields, data[place : place + size]))
        place += size
    signature = next(fields for fields, row in rows if row[_CENTRAL.size :].startswith(_SIGNATURE.encode()))
    begin = signature[-1]
    gone = _size_of_entry(data, signature)
    kept = [
        row[: _CENTRAL.size - 4] + struct.pack("<L", fields[-1] - gone * (fields[-1] > begin)) + row[_CENTRAL.size :]
        for fields, row in rows
        if fields is not signature
    ]
    directory = b"".join(kept)
    tail = _END.pack(mark, disk, first, count - 1, count - 1, len(directory), start - gone, comment)
    return data[:begin] + data[begin + gone : start] + directory + tail + data[end + _END.size :]


def _size_of_entry(data: bytes, fields: tuple[int, ...]) -> int:
    local = _LOCAL.unpack_from(data, fields[-1])
    if local[2] & _DESCRIPTOR_FLAG:
        raise ValueError("a signature with a data descriptor")
    return _LOCAL.size + int(local[9]) + int(local[10]) + int(fields[8])
