"""Tars written by hand, right or wrong in any way: what an attacker or another tool may send."""

from __future__ import annotations

RECORD = 512


def raw_header(name: bytes, kind: bytes = b"0", *, size: int = 0, link: bytes = b"", mode: int = 0o644) -> bytes:
    """Return a ustar header with a right checksum."""
    body = b"%b%07o\0%07o\0%07o\0%011o\0%011o\0        %b%bustar\x0000" % (
        name[:100].ljust(100, b"\0"),
        mode,
        0,
        0,
        size,
        0,
        kind,
        link[:100].ljust(100, b"\0"),
    )
    return seal_header(body.ljust(RECORD, b"\0"))


def seal_header(header: bytes) -> bytes:
    """Return a header with its checksum put right."""
    blank = header[:148] + b" " * 8 + header[156:]
    return blank[:148] + b"%06o\0 " % sum(blank) + blank[156:]


def raw_file(name: bytes, content: bytes = b"") -> bytes:
    """Return a file's header and padded content."""
    return raw_header(name, size=len(content)) + padded(content)


def pax(records: bytes, kind: bytes = b"x") -> bytes:
    """Return an extended header with the given body."""
    return raw_header(b"pax", kind, size=len(records)) + padded(records)


def padded(content: bytes) -> bytes:
    """Return content filled up to whole records."""
    return content + bytes(-len(content) % RECORD)


END = bytes(2 * RECORD)
