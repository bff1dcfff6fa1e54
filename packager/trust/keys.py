"""ECDSA P-256 keys: the one algorithm that cosign 2 and 3, skopeo and podman all verify; signatures are deterministic.

High-S signatures are accepted, as cosign and Go's crypto/ecdsa do: a signature's bytes identify nothing here.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from packager.base.errors import InputError
from packager.trust.pem import format_pem, parse_pem

PUBLIC_LABEL = "PUBLIC KEY"

# RFC 5480: SEQUENCE { SEQUENCE { id-ecPublicKey, secp256r1 }, BIT STRING of the 65 bytes of an uncompressed point }
_PUBLIC_HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
_POINT_BYTES = 65

_ALGORITHM = ec.ECDSA(SHA256())
_SIGNING = ec.ECDSA(SHA256(), deterministic_signing=True)
_HINT = "make a key with `wideswe-pack keygen` or `cosign generate-key-pair`"


@dataclass(frozen=True)
class PublicKey:
    """A key that verifies; `der` is its SubjectPublicKeyInfo, by which keys are told apart."""

    der: bytes = field(repr=False)
    _key: ec.EllipticCurvePublicKey = field(repr=False, compare=False)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the DER form in hexadecimal; what `openssl pkey -pubin -outform DER | sha256sum` prints."""
        return hashlib.sha256(self.der).hexdigest()

    @property
    def hint(self) -> str:
        """What cosign writes as the hint of a bundle's public key."""
        return base64.b64encode(hashlib.sha256(self.der).digest()).decode()

    @property
    def crypto(self) -> ec.EllipticCurvePublicKey:
        """The key as the cryptography library has it."""
        return self._key

    @property
    def pem(self) -> bytes:
        """The public key file, as `cosign verify --key` takes it."""
        return format_pem(PUBLIC_LABEL, self.der)

    def verifies(self, signature: bytes, data: bytes) -> bool:
        """Tell whether `signature` (DER) over `data` was made with this key."""
        try:
            self._key.verify(signature, data, _ALGORITHM)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """A key that signs; never shown."""

    _key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def public(self) -> PublicKey:
        """The public half."""
        return _wrap_public(self._key.public_key())

    @property
    def der(self) -> bytes:
        """The key as PKCS #8, not encrypted."""
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - slow to import
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        return self._key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, data: bytes) -> bytes:
        """Return the DER signature of `data`; the same data gives the same signature (RFC 6979)."""
        return self._key.sign(data, _SIGNING)


def create_private_key() -> PrivateKey:
    """Make a new key."""
    return PrivateKey(ec.generate_private_key(ec.SECP256R1()))


def parse_private_der(der: bytes, *, where: str) -> PrivateKey:
    """Return a key from PKCS #8; other algorithms are refused by name, and nothing secret is shown."""
    from cryptography.hazmat.primitives.serialization import load_der_private_key  # noqa: PLC0415 - slow to import

    try:
        key = load_der_private_key(der, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError("what it holds is not a PKCS #8 private key", where=where, hint=_HINT) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InputError(f"expected an ECDSA P-256 key, found {_name(key.public_key())}", where=where, hint=_HINT)
    return PrivateKey(key)


def parse_public_key(pem: bytes, *, where: str = "public key") -> PublicKey:
    """Return the key of a PEM file with one PUBLIC KEY; other algorithms are refused by name."""
    label, der = parse_pem(pem, where=where)
    if label != PUBLIC_LABEL:
        raise InputError(f"expected {PUBLIC_LABEL}, found {label}", where=where, hint=_HINT)
    try:
        key = _load_public(der)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError("what it holds is not a public key", where=where, hint=_HINT) from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InputError(f"expected an ECDSA P-256 key, found {_name(key)}", where=where, hint=_HINT)
    return _wrap_public(key)


def _load_public(der: bytes) -> object:
    """Return the key in a SubjectPublicKeyInfo; the one form of our keys is read without the slow general reader."""
    head, point = der[: len(_PUBLIC_HEAD)], der[len(_PUBLIC_HEAD) :]
    if head == _PUBLIC_HEAD and len(point) == _POINT_BYTES:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    from cryptography.hazmat.primitives.serialization import load_der_public_key  # noqa: PLC0415 - slow to import

    return load_der_public_key(der)


def _wrap_public(key: ec.EllipticCurvePublicKey) -> PublicKey:
    """Return a P-256 key with its DER form, which is the same whatever form it was read from."""
    numbers = key.public_numbers()
    half = _POINT_BYTES // 2
    point = b"\4" + numbers.x.to_bytes(half, "big") + numbers.y.to_bytes(half, "big")
    return PublicKey(_PUBLIC_HEAD + point, key)


def _name(key: object) -> str:
    from cryptography.hazmat.primitives.asymmetric import ed448, ed25519, rsa  # noqa: PLC0415 - only for messages

    match key:
        case ec.EllipticCurvePublicKey():
            return f"ECDSA {key.curve.name}"
        case rsa.RSAPublicKey():
            return f"RSA {key.key_size}"
        case ed25519.Ed25519PublicKey():
            return "Ed25519"
        case ed448.Ed448PublicKey():
            return "Ed448"
    return "another algorithm"
