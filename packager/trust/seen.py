"""What this machine has seen of a suite: the highest versions, on disk, so that nobody can lead it back.

The file lies with the keys, not in the store: whoever empties a cache must not make the machine forget.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.base.canonical import format_readable, parse_json
from packager.base.digests import Digest, parse_digest
from packager.base.errors import InputError
from packager.base.files import is_there, read_file, write_atomic
from packager.oci.descriptor import expect_size, expect_text
from packager.trust.strict import expect_fields

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "wideswe-seen/1"
_LIMIT_BYTES = 1 << 16
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Seen:
    """The highest root and index of one suite, their digests, and when they were last found good."""

    root_version: int
    root: Digest
    version: int
    index: Digest
    time: datetime


def format_time(time: datetime) -> str:
    """Return a time in seconds of UTC."""
    return time.astimezone(UTC).strftime(_TIME)


def parse_time(text: str, *, where: str) -> datetime:
    """Return a time that `format_time` wrote."""
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError as error:
        raise InputError(f"expected a time like 2030-01-31T00:00:00Z, found {text[:40]!r}", where=where) from error


def read_seen(path: Path) -> Seen | None:
    """Return what a file remembers, None if there is none; a damaged file is an InputError, never a blank memory."""
    if not is_there(path):
        return None
    where = str(path)
    wanted = {"schema", "root_version", "root", "version", "index", "time"}
    fields = expect_fields(parse_json(read_file(path, limit=_LIMIT_BYTES), where=where), wanted, where=where)
    if fields["schema"] != SCHEMA:
        raise InputError(f"expected {SCHEMA}, found {str(fields['schema'])[:80]}", where=where)
    return Seen(
        expect_size(fields["root_version"], where=f"{where}: root_version"),
        parse_digest(fields["root"], where=f"{where}: root"),
        expect_size(fields["version"], where=f"{where}: version"),
        parse_digest(fields["index"], where=f"{where}: index"),
        parse_time(expect_text(fields["time"], where=f"{where}: time"), where=f"{where}: time"),
    )


def write_seen(path: Path, seen: Seen) -> None:
    """Remember; the caller has checked that nothing goes back."""
    fields = {
        "schema": SCHEMA,
        "root_version": seen.root_version,
        "root": seen.root,
        "version": seen.version,
        "index": seen.index,
        "time": format_time(seen.time),
    }
    write_atomic(path, format_readable(fields))
