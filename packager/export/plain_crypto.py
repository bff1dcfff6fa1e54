"""X25519, ChaCha20-Poly1305 and HKDF in plain Python, for scorers that run in images without `cryptography`.

The names and signatures are those of `cryptography`, as far as the seal's reader uses them; it is never used where
`cryptography` is there. RFC 7748, RFC 8439, RFC 5869. Not constant in time: it runs in a container of its own.
"""

from __future__ import annotations

import hashlib
import hmac

_PRIME = 2**255 - 19
_KEY_BYTES = 32
_BASE_POINT = bytes([9]) + bytes(31)
_BLOCK_BYTES = 64
_TAG_BYTES = 16
_BATCH_BLOCKS = 1024
_POLY_PRIME = 2**130 - 5
_POLY_CLAMP = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
_QUARTERS = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
_ROUNDS = 10


class InvalidTag(Exception):  # noqa: N818 - cryptography's name
    """What was decrypted is not what was encrypted with this key."""


class SHA256:
    """Names the hash of an HKDF; there is only this one."""


class HKDFExpand:
    """The second half of HKDF-SHA-256 (RFC 5869, section 2.3)."""

    def __init__(self, algorithm: SHA256, length: int, info: bytes | None) -> None:
        del algorithm
        self._length, self._info = length, info or b""

    def derive(self, key: bytes) -> bytes:
        """Return the derived bytes."""
        block, out = b"", b""
        for number in range(1, -(-self._length // _KEY_BYTES) + 1):
            block = hmac.digest(key, block + self._info + bytes([number]), hashlib.sha256)
            out += block
        return out[: self._length]


class HKDF:
    """HKDF-SHA-256 (RFC 5869)."""

    def __init__(self, algorithm: SHA256, length: int, salt: bytes | None, info: bytes | None) -> None:
        self._salt, self._expand = salt or bytes(_KEY_BYTES), HKDFExpand(algorithm, length, info)

    def derive(self, secret: bytes) -> bytes:
        """Return the derived bytes."""
        return self._expand.derive(hmac.digest(self._salt, secret, hashlib.sha256))


def multiply(scalar: bytes, point: bytes) -> bytes:
    """Return X25519 of a scalar and a point (RFC 7748, section 5)."""
    number = int.from_bytes(scalar, "little") & ~7 & ~(1 << 255) | (1 << 254)
    start = int.from_bytes(point, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3, swapped = 1, 0, start, 1, 0
    for place in range(254, -1, -1):
        bit = number >> place & 1
        if swapped ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swapped = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % _PRIME, b * b % _PRIME, d * a % _PRIME, c * b % _PRIME
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % _PRIME, start * (da - cb) ** 2 % _PRIME
        x2, z2 = aa * bb % _PRIME, e * (aa + 121665 * e) % _PRIME
    if swapped:
        x2, z2 = x3, z3
    return (x2 * pow(z2, _PRIME - 2, _PRIME) % _PRIME).to_bytes(_KEY_BYTES, "little")


class X25519PublicKey:
    """A public key."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    @classmethod
    def from_public_bytes(cls, raw: bytes) -> X25519PublicKey:
        """Return the key of 32 bytes."""
        return cls(_key(raw))

    def public_bytes_raw(self) -> bytes:
        """Return its 32 bytes."""
        return self._raw


class X25519PrivateKey:
    """A private key."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    @classmethod
    def from_private_bytes(cls, raw: bytes) -> X25519PrivateKey:
        """Return the key of 32 bytes."""
        return cls(_key(raw))

    def public_key(self) -> X25519PublicKey:
        """Return its public half."""
        return X25519PublicKey(multiply(self._raw, _BASE_POINT))

    def exchange(self, other: X25519PublicKey) -> bytes:
        """Return the shared secret; a share of low order is a ValueError."""
        shared = multiply(self._raw, other.public_bytes_raw())
        if shared == bytes(_KEY_BYTES):
            raise ValueError("a share of low order")
        return shared


def _key(raw: bytes) -> bytes:
    if len(raw) != _KEY_BYTES:
        raise ValueError(f"expected {_KEY_BYTES} bytes, found {len(raw)}")
    return raw


def keystream(key: bytes, nonce: bytes, counter: int, size: int) -> bytes:
    """Return `size` bytes of ChaCha20's stream (RFC 8439, section 2.4)."""
    out = bytearray()
    while len(out) < size:
        count = min(_BATCH_BLOCKS, -(-(size - len(out)) // _BLOCK_BYTES))
        out += _blocks(key, nonce, counter, count)
        counter += count
    return bytes(out[:size])


def _blocks(key: bytes, nonce: bytes, counter: int, count: int) -> bytes:
    """Return `count` blocks at once: each word of the state is one large number with a lane of 64 bits per block."""
    ones = int.from_bytes(b"\1\0\0\0\0\0\0\0" * count, "little")
    mask = ones * 0xFFFFFFFF
    words = [int.from_bytes(part, "little") for part in _words(b"expand 32-byte k" + key)]
    numbers = int.from_bytes(b"".join((counter + n & 0xFFFFFFFF).to_bytes(8, "little") for n in range(count)), "little")
    start = [word * ones for word in words] + [numbers]
    start += [int.from_bytes(part, "little") * ones for part in _words(nonce)]
    state = [*start]
    for _ in range(_ROUNDS):
        for a, b, c, d in _QUARTERS:
            _quarter(state, (a, b, c, d), mask)
    lanes = [((one + two) & mask).to_bytes(8 * count, "little") for one, two in zip(state, start, strict=True)]
    return b"".join(lane[place : place + 4] for place in range(0, 8 * count, 8) for lane in lanes)


def _quarter(state: list[int], places: tuple[int, int, int, int], mask: int) -> None:
    a, b, c, d = places
    for one, two, three, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[one] = (state[one] + state[two]) & mask
        mixed = state[three] ^ state[one]
        state[three] = (mixed << turn | mixed >> 32 - turn) & mask


def _words(data: bytes) -> list[bytes]:
    return [data[place : place + 4] for place in range(0, len(data), 4)]


def authenticate(key: bytes, message: bytes) -> bytes:
    """Return Poly1305 of a message (RFC 8439, section 2.5)."""
    factor, final = int.from_bytes(key[:16], "little") & _POLY_CLAMP, int.from_bytes(key[16:], "little")
    total = 0
    for place in range(0, len(message), 16):
        total = (total + int.from_bytes(message[place : place + 16] + b"\1", "little")) * factor % _POLY_PRIME
    return (total + final & (1 << 128) - 1).to_bytes(_TAG_BYTES, "little")


class ChaCha20Poly1305:
    """The AEAD of RFC 8439."""

    def __init__(self, key: bytes) -> None:
        self._key = _key(key)

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the plaintext; anything changed, cut off or of another key is InvalidTag."""
        body, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
        if not hmac.compare_digest(self._tag(nonce, body, associated_data or b""), tag):
            raise InvalidTag
        return self._mix(nonce, body)

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return ciphertext and tag."""
        body = self._mix(nonce, data)
        return body + self._tag(nonce, body, associated_data or b"")

    def _mix(self, nonce: bytes, data: bytes) -> bytes:
        stream = keystream(self._key, nonce, 1, len(data))
        return (int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")).to_bytes(len(data), "little")

    def _tag(self, nonce: bytes, body: bytes, associated: bytes) -> bytes:
        sizes = len(associated).to_bytes(8, "little") + len(body).to_bytes(8, "little")
        parts = (associated, bytes(-len(associated) % 16), body, bytes(-len(body) % 16), sizes)
        return authenticate(keystream(self._key, nonce, 0, 32), b"".join(parts))
