"""Compares two layers entry by entry: which path, which field, both values, whatever the order of their tars."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from dataclasses import field as a_field
from typing import IO, TYPE_CHECKING

from packager.base.digests import BLOCK_BYTES
from packager.oci.entries import Kind, entry_sort_key, show_path
from packager.oci.tar_reader import read_tar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from packager.oci.entries import Entry
    from packager.oci.tar_reader import EntryReader

KEPT_BYTES = 1 << 20
"""So much of a file's beginning is kept to show where two contents differ, and to tell why."""

KEPT_FILES = 200
"""Of so many files per layer; of further ones only sizes and digests are compared."""

ABSENT = "absent"
_AROUND_BYTES = 24


@dataclass(frozen=True)
class EntryDifference:
    """One field of one path that differs, both values as people read them, and of files the raw contents."""

    path: bytes
    field: str
    a: str
    b: str
    contents: tuple[bytes, bytes] | None = a_field(default=None, repr=False)


@dataclass(frozen=True)
class _Seen:
    """An entry without its content, and the digest of that."""

    entry: Entry
    digest: str

    @property
    def text(self) -> str:
        entry = self.entry
        parts = [f"{entry.kind.value} {entry.mode:04o} {entry.uid}:{entry.gid}"]
        if entry.link:
            parts.append(f"to {show_path(entry.link)}")
        if entry.kind is Kind.FILE:
            parts.append(f"{entry.size} bytes, sha256:{self.digest}")
        return " ".join(parts) if entry.kind is not Kind.WHITEOUT else "deleted"


def compare_layers(
    one: Callable[[], AbstractContextManager[IO[bytes]]], other: Callable[[], AbstractContextManager[IO[bytes]]]
) -> tuple[EntryDifference, ...]:
    """Return every difference of two layers' tars, which the arguments open, in the order of paths."""
    with one() as stream:
        ours = _index(stream)
    with other() as stream:
        theirs = _index(stream)
    changed = sorted(
        (path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path)), key=entry_sort_key
    )
    wanted = frozenset([path for path in changed if _both_files(ours.get(path), theirs.get(path))][:KEPT_FILES])
    kept = (_contents(one, wanted), _contents(other, wanted)) if wanted else ({}, {})
    found: list[EntryDifference] = []
    for path in changed:
        pair = (kept[0][path], kept[1][path]) if path in wanted else None
        found.extend(_differences(path, ours.get(path), theirs.get(path), pair))
    return tuple(found)


def _index(stream: IO[bytes]) -> dict[bytes, _Seen]:
    return {entry.path: _Seen(replace(entry, content=None), _digest(reader)) for entry, reader in read_tar(stream)}


def _digest(reader: EntryReader) -> str:
    found = hashlib.sha256()
    while block := reader.read(BLOCK_BYTES):
        found.update(block)
    return found.hexdigest()


def _both_files(one: _Seen | None, other: _Seen | None) -> bool:
    return one is not None and other is not None and {one.entry.kind, other.entry.kind} == {Kind.FILE}


def _contents(
    source: Callable[[], AbstractContextManager[IO[bytes]]], wanted: frozenset[bytes]
) -> Mapping[bytes, bytes]:
    with source() as stream:
        return {entry.path: reader.read(KEPT_BYTES) for entry, reader in read_tar(stream) if entry.path in wanted}


def _differences(
    path: bytes, one: _Seen | None, other: _Seen | None, contents: tuple[bytes, bytes] | None
) -> Iterator[EntryDifference]:
    if one is None or other is None:
        texts = [ABSENT if seen is None else seen.text for seen in (one, other)]
        yield EntryDifference(path, "entry", texts[0], texts[1])
        return
    a, b = one.entry, other.entry
    if a.kind is not b.kind:
        yield EntryDifference(path, "kind", one.text, other.text)
        return
    pairs = (
        ("mode", f"{a.mode:04o}", f"{b.mode:04o}"),
        ("owner", f"{a.uid}:{a.gid}", f"{b.uid}:{b.gid}"),
        ("link", show_path(a.link), show_path(b.link)),
        ("capability", _hex(a.capability), _hex(b.capability)),
    )
    yield from (EntryDifference(path, name, x, y) for name, x, y in pairs if x != y)
    if one.digest != other.digest:
        yield EntryDifference(path, "content", *_shown(one, other, contents), contents)


def _hex(value: bytes | None) -> str:
    return "none" if value is None else value.hex()


def _shown(one: _Seen, other: _Seen, contents: tuple[bytes, bytes] | None) -> tuple[str, str]:
    """Return both contents around their first difference, or their digests where it lies far behind the beginning."""
    place = None if contents is None else first_difference(*contents)
    if contents is None or place is None:
        return one.text, other.text
    begin = max(0, place - _AROUND_BYTES)
    cut = [data[begin : place + _AROUND_BYTES] for data in contents]
    sizes = (one.entry.size, other.entry.size)
    texts = [f"{size} bytes, from byte {begin}: {part!r}" for size, part in zip(sizes, cut, strict=True)]
    return texts[0], texts[1]


def first_difference(one: bytes, other: bytes) -> int | None:
    """Return where two byte strings begin to differ, or None if they are equal."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return None if len(one) == len(other) else length
    low, high = 0, length
    while low < high:
        middle = (low + high) // 2
        if one[: middle + 1] == other[: middle + 1]:
            low = middle + 1
        else:
            high = middle
    return low
