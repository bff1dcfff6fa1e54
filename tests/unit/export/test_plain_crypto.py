"""The plain cryptography of the scorer is the same as that of `cryptography`, which wrote what it opens."""

from __future__ import annotations

import io

import pytest
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from hypothesis import example, given, settings
from hypothesis import strategies as st

from packager.export import plain_crypto

KEY = st.binary(min_size=32, max_size=32)
NONCE = st.binary(min_size=12, max_size=12)


@settings(max_examples=30)
@given(KEY, NONCE, st.integers(0, 3000), st.binary(max_size=40))
@example(bytes(32), bytes(12), 0, b"")
@example(bytes(32), bytes(12), 65536, b"")
@example(bytes(range(32)), bytes(12), 65537, b"age")
def test_sealed_bytes_are_the_same_and_open_again(key: bytes, nonce: bytes, size: int, associated: bytes) -> None:
    plain = io.BytesIO(key * (size // 32 + 1)).read(size)
    sealed = ChaCha20Poly1305(key).encrypt(nonce, plain, associated)
    ours = plain_crypto.ChaCha20Poly1305(key)
    assert ours.encrypt(nonce, plain, associated) == sealed
    assert ours.decrypt(nonce, sealed, associated) == plain


@pytest.mark.parametrize("place", [0, 15, 63, 64, 99, 100, 115])
def test_one_changed_bit_anywhere_opens_nothing(place: int) -> None:
    sealed = bytearray(ChaCha20Poly1305(bytes(32)).encrypt(bytes(12), bytes(100), None))
    sealed[place] ^= 1
    with pytest.raises(plain_crypto.InvalidTag):
        plain_crypto.ChaCha20Poly1305(bytes(32)).decrypt(bytes(12), bytes(sealed), None)


@pytest.mark.parametrize("data", [b"", b"short", bytes(15)])
def test_what_is_shorter_than_a_tag_opens_nothing(data: bytes) -> None:
    with pytest.raises(plain_crypto.InvalidTag):
        plain_crypto.ChaCha20Poly1305(bytes(32)).decrypt(bytes(12), data, None)


@settings(max_examples=10)
@given(KEY, KEY)
def test_shared_secrets_are_the_same(one: bytes, other: bytes) -> None:
    theirs = x25519.X25519PrivateKey.from_private_bytes(one)
    public = x25519.X25519PrivateKey.from_private_bytes(other).public_key()
    ours = plain_crypto.X25519PrivateKey.from_private_bytes(one)
    assert ours.public_key().public_bytes_raw() == theirs.public_key().public_bytes_raw()
    share = plain_crypto.X25519PublicKey.from_public_bytes(public.public_bytes_raw())
    assert ours.exchange(share) == theirs.exchange(public)


@pytest.mark.parametrize("point", [bytes(32), b"\1" + bytes(31)], ids=["zero", "one"])
def test_a_share_of_low_order_is_refused_as_there(point: bytes) -> None:
    with pytest.raises(ValueError, match="low order"):
        plain_crypto.X25519PrivateKey.from_private_bytes(bytes(range(32))).exchange(
            plain_crypto.X25519PublicKey.from_public_bytes(point)
        )
    with pytest.raises(ValueError, match=r"."):
        x25519.X25519PrivateKey.from_private_bytes(bytes(range(32))).exchange(
            x25519.X25519PublicKey.from_public_bytes(point)
        )


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"expected 32 bytes, found {size}"):
        plain_crypto.X25519PrivateKey.from_private_bytes(bytes(size))


@given(st.binary(max_size=80), st.binary(max_size=40), st.binary(max_size=40), st.integers(1, 100))
def test_derived_keys_are_the_same(secret: bytes, salt: bytes, info: bytes, length: int) -> None:
    theirs = HKDF(SHA256(), length, salt, info).derive(secret)
    assert plain_crypto.HKDF(plain_crypto.SHA256(), length, salt, info).derive(secret) == theirs
    key = secret + bytes(32)
    expanded = HKDFExpand(SHA256(), length, info).derive(key)
    assert plain_crypto.HKDFExpand(plain_crypto.SHA256(), length, info).derive(key) == expanded
