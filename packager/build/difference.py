"""Compares two finished images: configuration, manifest, and every entry of the layers that only one of them has."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from packager.base.canonical import parse_json
from packager.build.causes import likely_cause
from packager.build.checklist import CHECKLIST
from packager.build.reproduce import SHOWN, Found
from packager.oci.compare import ABSENT, EntryDifference, compare_layers
from packager.oci.entries import show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from packager.base.digests import DiffId

IDENTITY = frozenset({"rootfs.diff_ids", "layers", "config.digest", "config.size"})
"""What differs whenever anything else does, and so says nothing of its own."""


@dataclass(frozen=True)
class Opened:
    """An image to compare: its documents, and its layers by diff id, lowest first, each with what opens its tar."""

    manifest: bytes
    config: bytes
    layers: Sequence[tuple[DiffId, Callable[[], AbstractContextManager[IO[bytes]]]]]


def compare_images(one: Opened, other: Opened, *, shown: int = SHOWN) -> tuple[tuple[Found, ...], int]:
    """Return the differences of two images, at most `shown` for each layer, and how many more there are.

    Layers that both have are not read; a layer's number is that in the first image, or in the second if the first has
    none in its place.
    """
    found = [
        *_documents("config", one.config, other.config),
        *_documents("manifest", one.manifest, other.manifest),
    ]
    more = 0
    for number, pair in _pairs(one, other):
        rows = pair if isinstance(pair, tuple) else compare_layers(*pair)
        more += max(0, len(rows) - shown)
        found.extend(_found(number, row) for row in rows[:shown])
    return tuple(found), more


def flatten(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of a JSON value as (dotted name, text)."""
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from flatten(value[key], f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from flatten(item, f"{name}[{number}]")
    else:
        yield name, value if isinstance(value, str) else repr(value)


def _documents(path: str, one: bytes, other: bytes) -> Iterator[Found]:
    ours, theirs = (dict(flatten(parse_json(data, where=path))) for data in (one, other))
    for name in sorted(ours.keys() | theirs.keys()):
        if name.partition("[")[0] in IDENTITY:
            continue
        a, b = ours.get(name, ABSENT), theirs.get(name, ABSENT)
        if a != b:
            yield Found("", -1, path, name, a, b, "D", str(CHECKLIST["D"]))


def _pairs(
    one: Opened, other: Opened
) -> Iterator[tuple[int, list[Callable[[], AbstractContextManager[IO[bytes]]]] | tuple[EntryDifference, ...]]]:
    """Yield the layers that stand for each other and differ, and those that have no counterpart as a difference."""
    ids = [[diff_id for diff_id, _ in image.layers] for image in (one, other)]
    matcher = difflib.SequenceMatcher(None, ids[0], ids[1], autojunk=False)
    for kind, begin, end, start, stop in matcher.get_opcodes():
        if kind == "equal":
            continue
        both = min(end - begin, stop - start)
        for step in range(both):
            yield begin + step, [one.layers[begin + step][1], other.layers[start + step][1]]
        for number in range(begin + both, end):
            yield number, (EntryDifference(b"", "layer", ids[0][number], ABSENT),)
        for number in range(start + both, stop):
            yield number, (EntryDifference(b"", "layer", ABSENT, ids[1][number]),)


def _found(number: int, row: EntryDifference) -> Found:
    cause = CHECKLIST["D"] if row.field == "layer" else likely_cause(row)
    return Found("", number, show_path(row.path) if row.path else "", row.field, row.a, row.b, cause.id, str(cause))
