"""The zip that yarn berry makes of a package, whose SHA-512 its lock file promises (berry: tgzUtils, ZipFS)."""

from __future__ import annotations

import hashlib
import json
import posixpath
import struct
import tarfile
import zlib
from typing import IO, TYPE_CHECKING, cast

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TIME, _DATE = 0xAE40, 0x08D6
"""1984-06-22 21:50:00 as MS-DOS writes it: berry's SAFE_TIME."""
_DIRECTORY, _FILE, _LINK = 0o040000, 0o100000, 0o120000
_UNIX, _WRITTEN_BY, _UTF8 = 3, 63, 0x800
_LIMIT_BYTES = 1 << 30


def hash_of_yarn_zip(path: Path) -> str:
    """Return the hexadecimal SHA-512 of the uncompressed zip that berry makes of a package's tarball."""
    try:
        with tarfile.open(path, "r:*") as archive:
            members = dict(_members(archive))
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise InputError(f"the package cannot be read: {error}", where=path.name) from error
    total = hashlib.sha512()
    directory = b""
    offset = 0
    for name, (mode, data) in members.items():
        raw = name.encode()
        needed = 20 if mode & 0o170000 == _DIRECTORY else 10
        flags = 0 if raw.isascii() else _UTF8
        told = struct.pack("<3H", flags, 0, _TIME) + struct.pack("<H3I", _DATE, zlib.crc32(data), len(data), len(data))
        head = struct.pack("<4sH", b"PK\3\4", needed) + told + struct.pack("<2H", len(raw), 0) + raw
        total.update(head + data)
        directory += struct.pack("<4s2BH", b"PK\1\2", _WRITTEN_BY, _UNIX, needed) + told
        directory += struct.pack("<5H2I", len(raw), 0, 0, 0, 0, mode << 16, offset) + raw
        offset += len(head) + len(data)
    total.update(directory)
    total.update(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), offset, 0))
    return total.hexdigest()


def _members(archive: tarfile.TarFile) -> Iterator[tuple[str, tuple[int, bytes]]]:
    """Yield the zip's members in berry's order: each file behind those of its folders that are new."""
    prefix = f"node_modules/{_package_name(archive)}"
    seen: set[str] = set()
    size = 0
    for member in archive.getmembers():
        inner = "/".join(posixpath.normpath(member.name).split("/")[1:])
        if not inner or ".." in member.name.split("/") or not (member.isfile() or member.isdir() or member.issym()):
            continue
        name = f"{prefix}/{inner}"
        size += member.size
        if size > _LIMIT_BYTES:
            raise ValueError(f"more than {_LIMIT_BYTES} bytes")
        yield from _folders(posixpath.dirname(name), seen)
        if member.isdir():
            yield from _folders(name, seen)
            continue
        mode = _LINK | 0o777 if member.issym() else _FILE | (0o755 if member.mode & 0o111 else 0o644)
        data = member.linkname.encode() if member.issym() else _content(archive, member)
        yield name, (mode, data)


def _folders(name: str, seen: set[str]) -> Iterator[tuple[str, tuple[int, bytes]]]:
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth]) + "/"
        if folder not in seen:
            seen.add(folder)
            yield folder, (_DIRECTORY | 0o755, b"")


def _package_name(archive: tarfile.TarFile) -> str:
    for member in archive.getmembers():
        if member.isfile() and member.name.removeprefix("./").partition("/")[2] == "package.json":
            document = json.loads(_content(archive, member).decode("utf-8-sig"))
            return str(document["name"]) if isinstance(document, dict) and "name" in document else ""
    return ""


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    return cast("IO[bytes]", archive.extractfile(member)).read()
