"""The canonical tar: one tree, one sequence of bytes. The rules are CANONICALISER_ID `c1`; golden files hold them.

- Entries in `sort_key` order, no root entry, no `./`, directories without trailing slash, no duplicates.
- ustar headers; a PAX header (fixed name, sorted records) only for what ustar cannot say: paths and links over 100
  bytes that do not split at a slash or are not ASCII, ids above 0o7777777, sizes of 8 GiB and more, capabilities.
- mtime SOURCE_DATE_EPOCH; mode & 0o7777, links 0o777; no user or group names; device numbers 0; files expanded.
- Of several names of one file the first in order is the file; a link's header carries its file's mode and owner.
- A deletion is an empty file `.wh.NAME` with mode 0, before its siblings. The end is two zero blocks, no more.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import InputError, WorldError
from packager.oci.entries import (
    SOURCE_DATE_EPOCH,
    Entry,
    InOrder,
    Kind,
    check_path,
    dir_entry,
    missing_ancestors,
    show_path,
    sort_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TAR_BLOCK_BYTES = 4 << 20
"""Large, because each block that goes to another thread costs a few waits for the interpreter's lock."""

RECORD = 512
PAX_NAME = b"././@PaxHeader"
CAPABILITY_RECORD = b"SCHILY.xattr.security.capability"
MAX_NAME = 100
MAX_PREFIX = 155
MAX_ID = 0o7777777
MAX_SIZE = 0o77777777777

_TYPES = {Kind.FILE: b"0", Kind.HARDLINK: b"1", Kind.SYMLINK: b"2", Kind.DIR: b"5", Kind.WHITEOUT: b"0"}
_PERMISSIONS = 0o7777
_SYMLINK_MODE = 0o777
_ID_LIMIT = (1 << 32) - 2  # one more is -1, which means "leave the owner" to chown
_MTIME = b"%011o\0" % SOURCE_DATE_EPOCH
_MAGIC = b"ustar\x0000"
_OWNER_NAMES = bytes(64)
_DEVICE = b"0000000\0" * 2
_FIXED_SUM = sum(_MTIME) + sum(_MAGIC) + sum(_DEVICE) + 8 * ord(" ")
_SUSPECT = re.compile(rb"(?:\A|/)(?:\.{0,2}(?:/|\Z)|\.wh\.)|\0")


def write_tar(entries: Iterable[Entry], sink: Callable[[bytes], object]) -> int:
    """Write the canonical tar of `entries`, given in any order, in blocks of TAR_BLOCK_BYTES (the last one is shorter).

    Missing ancestors are added as directories of root with mode 0o755. Returns the number of bytes.
    """
    blocks = _Blocks(sink)
    for entry in canonical_entries(entries):
        _put_entry(blocks, entry)
    blocks.put(bytes(2 * RECORD))
    return blocks.finish()


def canonical_entries(entries: Iterable[Entry]) -> Iterable[Entry]:
    """Return the entries of a layer checked, completed with ancestors and in canonical order."""
    if isinstance(entries, InOrder):
        return _check_order(entries)
    known: dict[bytes, Entry] = {}
    linked = False
    for entry in entries:
        if _SUSPECT.search(entry.path) is not None or not entry.path:
            check_path(entry.path)
        if entry.path in known:
            raise InputError("two entries of one layer have the same path", where=show_path(entry.path))
        linked = linked or entry.kind is Kind.HARDLINK
        known[entry.path] = entry
    _add_ancestors(known)
    if linked:
        _settle_links(known)
    return sorted(known.values(), key=sort_key)


def _check_order(entries: InOrder) -> Iterator[Entry]:
    """Pass entries on as they come; hold nothing but the directories that are open."""
    last = b""
    folders = [b""]
    for entry in entries:
        path = entry.path
        if _SUSPECT.search(path) is not None or not path:
            check_path(path)
        key = sort_key(entry)
        parent = path.rpartition(b"/")[0]
        while folders[-1] != parent:
            if len(folders) == 1:
                raise InputError("comes before its directory", where=show_path(path))
            folders.pop()
        if key <= last:
            raise InputError("two entries of one layer have the same path, or come out of order", where=show_path(path))
        if entry.kind is Kind.DIR:
            folders.append(path)
        last = key
        yield entry


def _add_ancestors(known: dict[bytes, Entry]) -> None:
    known.update((path, dir_entry(path)) for path in missing_ancestors(known))
    for path in known:
        parent = path.rpartition(b"/")[0]
        if parent and known[parent].kind is not Kind.DIR:
            raise InputError("lies below something that is not a directory", where=show_path(path))


def _settle_links(known: dict[bytes, Entry]) -> None:
    """Make the first name of each linked file the file, and give the other names its mode and owner."""
    groups: dict[bytes, list[bytes]] = {}
    for entry in known.values():
        if entry.kind is Kind.HARDLINK:
            groups.setdefault(entry.link, [entry.link]).append(entry.path)
    for target, paths in groups.items():
        file = known.get(target)
        if file is None or file.kind is not Kind.FILE:
            raise InputError(
                f"expected a hard link to a file of the same layer, found {show_path(target)}",
                where=show_path(min(path for path in paths if path != target)),
            )
        first, *others = sorted(paths, key=lambda path: sort_key(known[path]))
        known[first] = replace(file, path=first)
        for path in others:
            known[path] = Entry(path, Kind.HARDLINK, file.mode, file.uid, file.gid, link=first)


def _put_entry(blocks: _Blocks, entry: Entry) -> None:
    kind = entry.kind
    path, link = entry.path, entry.link
    mode, uid, gid = entry.mode & _PERMISSIONS, entry.uid, entry.gid
    size = entry.size if kind is Kind.FILE else 0
    if kind is Kind.OPAQUE:
        raise InputError("an opaque directory has no canonical form; delete its entries by name", where=show_path(path))
    if kind is Kind.WHITEOUT:
        parent, slash, name = path.rpartition(b"/")
        path, mode, uid, gid = parent + slash + b".wh." + name, 0, 0, 0
    elif kind is Kind.SYMLINK:
        mode = _SYMLINK_MODE
    if not (0 <= uid <= _ID_LIMIT and 0 <= gid <= _ID_LIMIT and size >= 0):
        raise InputError(f"owner or size out of range: {uid}:{gid}, {size}", where=show_path(path))
    prefix, name, records = _fit(path, link)
    for key, value, most in ((b"uid", uid, MAX_ID), (b"gid", gid, MAX_ID), (b"size", size, MAX_SIZE)):
        if value > most:
            records[key] = b"%d" % value
    if entry.capability is not None and kind is Kind.FILE:
        records[CAPABILITY_RECORD] = entry.capability
    if records:
        _put_records(blocks, records)
    numbers = b"%07o\0%07o\0%07o\0%011o\0" % (
        mode,
        uid if uid <= MAX_ID else 0,
        gid if gid <= MAX_ID else 0,
        size if size <= MAX_SIZE else 0,
    )
    blocks.put(_header(numbers, _TYPES[kind], name=name, prefix=prefix, link=link[:MAX_NAME]))
    if size:
        _put_content(blocks, entry)


def _fit(path: bytes, link: bytes) -> tuple[bytes, bytes, dict[bytes, bytes]]:
    """Return ustar prefix, ustar name, and the PAX records that path and link need."""
    records: dict[bytes, bytes] = {}
    prefix, name = b"", path
    if not path.isascii():
        records[b"path"] = path
        name = path[:MAX_NAME]
    elif len(path) > MAX_NAME:
        cut = path.rfind(b"/", 0, MAX_PREFIX + 1)
        if cut > 0 and len(path) - cut - 1 <= MAX_NAME:
            prefix, name = path[:cut], path[cut + 1 :]
        else:
            records[b"path"] = path
            name = path[:MAX_NAME]
    if len(link) > MAX_NAME or not link.isascii():
        records[b"linkpath"] = link
    return prefix, name, records


def _put_records(blocks: _Blocks, records: dict[bytes, bytes]) -> None:
    body = b"".join(pax_record(key, records[key]) for key in sorted(records))
    numbers = b"%07o\0%07o\0%07o\0%011o\0" % (0o644, 0, 0, len(body))
    blocks.put(_header(numbers, b"x", name=PAX_NAME))
    blocks.put(body)
    blocks.pad(len(body))


def pax_record(key: bytes, value: bytes) -> bytes:
    """Return `LENGTH KEY=VALUE` and a newline, where LENGTH counts the whole record (POSIX pax)."""
    rest = b" %b=%b\n" % (key, value)
    length = len(rest) + 1
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return b"%d%b" % (length, rest)


def _header(numbers: bytes, kind: bytes, *, name: bytes, prefix: bytes = b"", link: bytes = b"") -> bytes:
    total = _FIXED_SUM + sum(name) + sum(numbers) + sum(kind) + sum(link) + sum(prefix)
    return b"%b%b%b%06o\0 %b%b%b%b%b%b%b" % (
        name.ljust(MAX_NAME, b"\0"),
        numbers,
        _MTIME,
        total,
        kind,
        link.ljust(MAX_NAME, b"\0"),
        _MAGIC,
        _OWNER_NAMES,
        _DEVICE,
        prefix.ljust(MAX_PREFIX, b"\0"),
        bytes(12),
    )


def _put_content(blocks: _Blocks, entry: Entry) -> None:
    content = entry.content
    if isinstance(content, bytes):
        if len(content) != entry.size:
            raise InputError(f"expected {entry.size} bytes, found {len(content)}", where=show_path(entry.path))
        blocks.put(content)
    elif isinstance(content, Path):
        _put_file(blocks, content, entry)
    else:
        raise InputError("expected a content, found none", where=show_path(entry.path))
    blocks.pad(entry.size)


def _put_file(blocks: _Blocks, path: Path, entry: Entry) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise WorldError(f"cannot be read: {error.strerror}", where=str(path)) from error
    try:
        found = blocks.fill(descriptor, entry.size)
    finally:
        os.close(descriptor)
    if found != entry.size:
        raise WorldError(
            f"changed while it was read: expected {entry.size} bytes, found {found}",
            where=show_path(entry.path),
            hint="make sure that nothing writes to the tree while its layer is written",
        )


class _Blocks:
    """Gathers what is written and hands it on in blocks of exactly TAR_BLOCK_BYTES."""

    def __init__(self, sink: Callable[[bytes], object]) -> None:
        self._sink = sink
        self._buffer = bytearray(TAR_BLOCK_BYTES)
        self._view = memoryview(self._buffer)
        self._spare = bytearray(1)
        self._used = 0
        self._total = 0

    def put(self, data: bytes) -> None:
        used = self._used
        end = used + len(data)
        if end < TAR_BLOCK_BYTES:
            self._buffer[used:end] = data
            self._used = end
            return
        taken = 0
        while len(data) - taken >= TAR_BLOCK_BYTES - self._used:
            room = TAR_BLOCK_BYTES - self._used
            self._view[self._used :] = data[taken : taken + room]
            taken += room
            self._flush()
        rest = len(data) - taken
        self._view[:rest] = data[taken:]
        self._used = rest

    def pad(self, size: int) -> None:
        rest = -size % RECORD
        if rest:
            self.put(bytes(rest))

    def fill(self, descriptor: int, size: int) -> int:
        """Read a file that must have `size` bytes; return how many it had (one more stands for any more)."""
        found = 0
        while True:
            rest, free = size - found, TAR_BLOCK_BYTES - self._used
            room = min(rest, free)
            target = self._view[self._used : self._used + room]
            count = os.readv(descriptor, (target, self._spare) if rest == room else (target,))
            found += count
            self._used += min(count, room)
            if self._used == TAR_BLOCK_BYTES:
                self._flush()
            if count < room or found >= size:
                return found

    def _flush(self) -> None:
        self._sink(bytes(self._buffer))
        self._total += TAR_BLOCK_BYTES
        self._used = 0

    def finish(self) -> int:
        if self._used:
            self._sink(bytes(self._view[: self._used]))
        self._total += self._used
        self._used = 0
        return self._total
