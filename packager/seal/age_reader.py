"""A reader of age files for X25519 identities: streams, is bounded, and says which part is wrong."""

from __future__ import annotations

import hmac
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from packager.base.errors import InputError, IntegrityError, TrustError
from packager.seal.age_format import (
    BODY_COLUMNS,
    CHUNK_BYTES,
    FILE_KEY_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
    VERSION_LINE,
    chunk_nonce,
    decode64,
    header_mac,
    payload_cipher,
    unwrap,
    wrapping_cipher,
)
from packager.seal.keys import KEY_BYTES, parse_identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

HEADER_LIMIT_BYTES = 1 << 18
LINE_LIMIT_BYTES = 1 << 12

_X25519 = b"X25519"
_ARMOR = b"-----BEGIN AGE ENCRYPTED FILE-----"
_MAC_BYTES = 32
_ARGUMENT = re.compile(rb"[!-~]+")


@dataclass(frozen=True)
class Stanza:
    """One recipient's line of a header: its arguments (the type first) and its body."""

    arguments: tuple[bytes, ...]
    body: bytes


@dataclass(frozen=True)
class Header:
    """The header of an age file: its stanzas, the bytes that the MAC covers, and the MAC."""

    stanzas: tuple[Stanza, ...]
    covered: bytes = field(repr=False)
    mac: bytes = field(repr=False)


def read_age(stream: BinaryIO, identities: Sequence[str], *, where: str = "age file") -> Iterator[bytes]:
    """Yield the plaintext in chunks, each one authenticated before it is given; the header is read at once.

    TrustError if no identity opens the file, IntegrityError if it is damaged; the text says which part. Whoever uses
    chunks before the end must be ready for an error at the end.
    """
    if not identities:
        raise InputError("no identity to open it with", where=where)
    keys = [parse_identity(text) for text in identities]
    header = read_header(stream, where=where)
    file_key = _find_file_key(header, keys, where=where)
    if not hmac.compare_digest(header_mac(file_key, header.covered), header.mac):
        raise IntegrityError("the header is damaged: its MAC does not hold", where=where)
    nonce = stream.read(NONCE_BYTES)
    if len(nonce) != NONCE_BYTES:
        raise IntegrityError("cut off after the header", where=where)
    return _chunks(stream, file_key, nonce, where)


def opens(data: bytes, identity: str, *, where: str = "age file") -> bool:
    """Tell whether an identity opens an age file, from its header alone."""
    try:
        _find_file_key(read_header(io.BytesIO(data), where=where), [parse_identity(identity)], where=where)
    except TrustError:
        return False
    return True


def read_header(stream: BinaryIO, *, where: str = "age file") -> Header:
    """Read a header up to and including its MAC line; anything that age.md does not allow is an IntegrityError."""
    lines = _Lines(stream, where)
    first = lines.next()
    if first.startswith(_ARMOR):
        hint = "make it without `age --armor`"
        raise IntegrityError("expected a binary age file, found an armored one", where=where, hint=hint)
    if first != VERSION_LINE[:-1]:
        raise IntegrityError("expected the first line age-encryption.org/v1, found something else", where=where)
    stanzas: list[Stanza] = []
    while not (line := lines.next()).startswith(b"---"):
        stanzas.append(_parse_stanza(line, lines, where))
    mac = decode64(line[4:]) if line.startswith(b"--- ") else None
    if mac is None or len(mac) != _MAC_BYTES:
        raise IntegrityError("the line that ends the header is not `---` and a MAC", where=where)
    if not stanzas:
        raise IntegrityError("the header names no recipient", where=where)
    return Header(tuple(stanzas), bytes(lines.seen[: -len(line) - 1 + 3]), mac)


class _Lines:
    """Lines of a header, counted and kept, without reading past its end."""

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self._stream = stream
        self._where = where
        self.seen = bytearray()

    def next(self) -> bytes:
        line = self._stream.readline(LINE_LIMIT_BYTES)
        self.seen += line
        if len(self.seen) > HEADER_LIMIT_BYTES:
            raise IntegrityError(f"the header is longer than {HEADER_LIMIT_BYTES} bytes", where=self._where)
        if not line.endswith(b"\n"):
            raise IntegrityError("the header is cut off or has a line that is too long", where=self._where)
        return line[:-1]


def _parse_stanza(line: bytes, lines: _Lines, where: str) -> Stanza:
    arguments = line.split(b" ")
    printable = all(_ARGUMENT.fullmatch(argument) for argument in arguments[1:])
    if arguments[0] != b"->" or len(arguments) == 1 or not printable:
        raise IntegrityError("the header has a line that is neither a recipient nor its end", where=where)
    text = lines.next()
    body = bytearray(text)
    while len(text) == BODY_COLUMNS:
        text = lines.next()
        body += text
    decoded = decode64(bytes(body))
    if len(text) > BODY_COLUMNS or decoded is None:
        raise IntegrityError("the header has a recipient whose body is not canonical Base64", where=where)
    return Stanza(tuple(arguments[1:]), decoded)


def _find_file_key(header: Header, keys: Sequence[X25519PrivateKey], *, where: str) -> bytes:
    for stanza in header.stanzas:
        if stanza.arguments[0] != _X25519:
            continue
        share = decode64(stanza.arguments[1]) if len(stanza.arguments) == 2 else None  # noqa: PLR2004 - type and share
        if share is None or len(share) != KEY_BYTES or len(stanza.body) != FILE_KEY_BYTES + TAG_BYTES:
            raise IntegrityError("the header has an X25519 recipient that is malformed", where=where)
        for key in keys:
            file_key = _try_stanza(key, share, stanza.body, where)
            if file_key is not None:
                return file_key
    raise TrustError(
        f"none of {len(keys)} given identities opens it",
        where=where,
        hint="ask the suite's owner for a grant to your evaluator key",
    )


def _try_stanza(key: X25519PrivateKey, share: bytes, body: bytes, where: str) -> bytes | None:
    try:
        shared = key.exchange(X25519PublicKey.from_public_bytes(share))
    except ValueError as error:
        raise IntegrityError("the header has a share of low order", where=where) from error
    cipher = wrapping_cipher(shared, share=share, recipient=key.public_key().public_bytes_raw())
    try:
        return unwrap(cipher, body)
    except InvalidTag:
        return None


def _chunks(stream: BinaryIO, file_key: bytes, nonce: bytes, where: str) -> Iterator[bytes]:
    cipher = payload_cipher(file_key, nonce)
    size = CHUNK_BYTES + TAG_BYTES
    held = _read_exactly(stream, size)
    number = 0
    while True:
        following = _read_exactly(stream, size) if len(held) == size else b""
        last = not following
        try:
            plain = cipher.decrypt(chunk_nonce(number, last=last), held, None)
        except InvalidTag as error:
            raise IntegrityError(f"chunk {number} is damaged, cut off or out of order", where=where) from error
        if last and not plain and number:
            raise IntegrityError("the last chunk is empty", where=where)
        yield plain
        if last:
            return
        held, number = following, number + 1


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (block := stream.read(size - len(found))):
        found += block
    return bytes(found)
