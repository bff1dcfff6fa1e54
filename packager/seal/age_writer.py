"""A deterministic writer of age files: the same secret, context, plaintext and recipients give the same bytes.

age.md asks for a file key from a CSPRNG and for fresh nonces and ephemerals. Here all of them are outputs of a PRF
(HMAC-SHA-256 under a secret root) over the whole message: context, digest of the plaintext, recipients. For different
messages they cannot be told from fresh random; for an equal message the file is equal. So the file leaks equality and
length and nothing else (Rogaway and Shrimpton, deterministic authenticated encryption). A key that ignores the
plaintext would be a two-time pad after an edit; a key made of the plaintext alone would let anyone confirm a guess.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from packager.base.errors import InputError
from packager.seal.age_format import (
    CHUNK_BYTES,
    FILE_KEY_BYTES,
    NONCE_BYTES,
    VERSION_LINE,
    chunk_nonce,
    encode64,
    header_mac,
    payload_cipher,
    wrap,
    wrapping_cipher,
)
from packager.seal.keys import KEY_BYTES, parse_recipient

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DOMAIN = b"wideswe seal v1"


@dataclass(frozen=True)
class FileSecrets:
    """What one age file is made with; never shown."""

    file_key: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    ephemerals: tuple[bytes, ...] = field(repr=False)


def derive_file_secrets(
    secret: bytes, *, context: str, plain_digest: bytes, recipients: Sequence[bytes]
) -> FileSecrets:
    """Derive file key, nonce and ephemerals from the whole message; `recipients` are raw keys, sorted and unique."""
    if len(secret) != KEY_BYTES:
        raise InputError(f"expected a secret of {KEY_BYTES} bytes, found {len(secret)}")
    parts = (_DOMAIN, context.encode(), plain_digest, *recipients)
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    seed = hmac.digest(secret, message, hashlib.sha256)
    return FileSecrets(
        _expand(seed, b"age file key", FILE_KEY_BYTES),
        _expand(seed, b"age payload nonce", NONCE_BYTES),
        tuple(_expand(seed, b"age ephemeral" + raw, KEY_BYTES) for raw in recipients),
    )


def write_age(plain: bytes, recipients: Sequence[str], *, secret: bytes, context: str) -> Iterator[bytes]:
    """Yield the blocks of the age file of `plain` for `recipients` (order and repetition do not matter)."""
    keys = sorted({parse_recipient(text) for text in recipients})
    if not keys:
        raise InputError("nobody to encrypt to: the list of recipients is empty")
    digest = hashlib.sha256(plain).digest()
    secrets = derive_file_secrets(secret, context=context, plain_digest=digest, recipients=keys)
    return _blocks(plain, keys, secrets)


def _blocks(plain: bytes, keys: Sequence[bytes], secrets: FileSecrets) -> Iterator[bytes]:
    header = VERSION_LINE
    for raw, ephemeral in zip(keys, secrets.ephemerals, strict=True):
        header += _stanza(secrets.file_key, raw, ephemeral)
    header += b"---"
    yield header + b" " + encode64(header_mac(secrets.file_key, header)) + b"\n" + secrets.nonce
    cipher = payload_cipher(secrets.file_key, secrets.nonce)
    view = memoryview(plain)
    ends = range(CHUNK_BYTES, len(plain) + CHUNK_BYTES, CHUNK_BYTES) or range(CHUNK_BYTES, CHUNK_BYTES + 1)
    for number, end in enumerate(ends):
        yield cipher.encrypt(chunk_nonce(number, last=end >= len(plain)), view[end - CHUNK_BYTES : end], None)


def _stanza(file_key: bytes, recipient: bytes, ephemeral: bytes) -> bytes:
    private = X25519PrivateKey.from_private_bytes(ephemeral)
    share = private.public_key().public_bytes_raw()
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(recipient))
    except ValueError as error:
        raise InputError("a recipient is a point of low order, which protects nothing") from error
    body = wrap(wrapping_cipher(shared, share=share, recipient=recipient), file_key)
    return b"-> X25519 " + encode64(share) + b"\n" + encode64(body) + b"\n"


def _expand(seed: bytes, purpose: bytes, length: int) -> bytes:
    return HKDFExpand(SHA256(), length, purpose).derive(seed)
