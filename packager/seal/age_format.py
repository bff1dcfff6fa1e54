"""The age v1 file format (C2SP age.md): the parts that its writer and its reader must agree on."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

VERSION_LINE = b"age-encryption.org/v1\n"
CHUNK_BYTES = 1 << 16
TAG_BYTES = 16
FILE_KEY_BYTES = 16
NONCE_BYTES = 16
BODY_COLUMNS = 64

_ZERO_NONCE = bytes(12)


def encode64(data: bytes) -> bytes:
    """Return standard Base64 without padding."""
    return base64.b64encode(data).rstrip(b"=")


def decode64(text: bytes) -> bytes | None:
    """Return the bytes of canonical unpadded Base64, None if it is anything else."""
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return None
    return data if encode64(data) == text else None


def hkdf(secret: bytes, *, salt: bytes, purpose: bytes, length: int = 32) -> bytes:
    """Return HKDF-SHA-256 of a secret."""
    return HKDF(SHA256(), length, salt, purpose).derive(secret)


def wrapping_cipher(shared: bytes, *, share: bytes, recipient: bytes) -> ChaCha20Poly1305:
    """Return the cipher that wraps the file key in an X25519 stanza."""
    return ChaCha20Poly1305(hkdf(shared, salt=share + recipient, purpose=b"age-encryption.org/v1/X25519"))


def wrap(cipher: ChaCha20Poly1305, file_key: bytes) -> bytes:
    """Return a stanza's body; each wrapping key is used once, so that the nonce is zero."""
    return cipher.encrypt(_ZERO_NONCE, file_key, None)


def unwrap(cipher: ChaCha20Poly1305, body: bytes) -> bytes:
    """Return the file key; InvalidTag if the stanza is for another recipient."""
    return cipher.decrypt(_ZERO_NONCE, body, None)


def header_mac(file_key: bytes, header: bytes) -> bytes:
    """Return the MAC over a header up to and including `---`; it commits to the file key."""
    return hmac.digest(hkdf(file_key, salt=b"", purpose=b"header"), header, hashlib.sha256)


def payload_cipher(file_key: bytes, nonce: bytes) -> ChaCha20Poly1305:
    """Return the cipher of the payload's chunks."""
    return ChaCha20Poly1305(hkdf(file_key, salt=nonce, purpose=b"payload"))


def chunk_nonce(number: int, *, last: bool) -> bytes:
    """Return the nonce of a chunk (STREAM): its number and whether it ends the payload."""
    return number.to_bytes(11, "big") + (b"\1" if last else b"\0")


def sealed_size(plain_bytes: int, recipients: int) -> int:
    """Return the size of an age file with only X25519 stanzas."""
    chunks = max(1, -(-plain_bytes // CHUNK_BYTES))
    return 70 + 98 * recipients + NONCE_BYTES + plain_bytes + TAG_BYTES * chunks
