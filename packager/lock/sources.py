"""Where the artifacts of a lock were had: a file beside the lock, unsigned and free to edit; it changes no digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packager.base.canonical import format_readable, parse_json
from packager.base.errors import InputError
from packager.lock.fields import Fields
from packager.lock.model import check_key

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = "wideswe-sources/1"
_LIMIT_BYTES = 64 << 20


@dataclass(frozen=True, order=True)
class Source:
    """One address of one artifact."""

    alias: str
    key: str
    url: str


def format_sources(sources: Iterable[Source]) -> bytes:
    """Return the file's bytes."""
    rows = [{"alias": source.alias, "key": source.key, "url": source.url} for source in sorted(set(sources))]
    return format_readable({"schema": SCHEMA, "sources": rows})


def parse_sources(data: bytes, *, where: str = "sources") -> tuple[Source, ...]:
    """Parse the file; an artifact may have several addresses, the first is tried first."""
    fields = Fields(parse_json(data, where=where, limit=_LIMIT_BYTES), where)
    fields.expect("schema", SCHEMA)
    found = []
    for row in fields.rows("sources"):
        source = Source(row.text("alias"), row.text("key"), row.text("url"))
        row.finish()
        if urlsplit(source.url).scheme not in {"http", "https"}:
            raise InputError(f"expected an http or https URL, found {source.url[:80]!r}", where=row.where)
        check_key(source.alias, source.key)
        found.append(source)
    fields.finish()
    return tuple(found)
