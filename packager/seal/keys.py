"""X25519 keys as age spells them; a value that is secret never shows itself in a repr."""

from __future__ import annotations

from typing import NewType

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from packager.base.errors import InputError
from packager.seal.bech32 import format_bech32, parse_bech32

KEY_BYTES = 32

Recipient = NewType("Recipient", str)
"""A public key, `age1…`."""

_RECIPIENT_PREFIX = "age"
_IDENTITY_PREFIX = "age-secret-key-"


class Identity(str):
    """A private key, `AGE-SECRET-KEY-1…`: text for files and age, but hidden in reprs and so in tracebacks and logs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Identity(hidden)"


def format_recipient(raw: bytes) -> Recipient:
    """Return 32 bytes of an X25519 public key as `age1…`."""
    return Recipient(format_bech32(_RECIPIENT_PREFIX, raw))


def parse_recipient(text: str) -> bytes:
    """Return the 32 bytes of `age1…`; post-quantum and SSH recipients are refused by name."""
    if text.startswith("age1pq1"):
        raise InputError("a post-quantum recipient (age1pq1…), which rage and pyrage cannot use", hint=_RECIPIENT_HINT)
    if text.startswith(("ssh-", "ecdsa-")):
        raise InputError("an SSH public key, expected an X25519 recipient (age1…)", hint=_RECIPIENT_HINT)
    return parse_bech32(text, prefix=_RECIPIENT_PREFIX, length=KEY_BYTES)


def format_identity(raw: bytes) -> Identity:
    """Return 32 bytes of an X25519 private key as `AGE-SECRET-KEY-1…`."""
    return Identity(format_bech32(_IDENTITY_PREFIX, raw).upper())


def parse_identity(text: str) -> X25519PrivateKey:
    """Return the private key of `AGE-SECRET-KEY-1…`; errors never repeat the text."""
    return X25519PrivateKey.from_private_bytes(parse_bech32(text, prefix=_IDENTITY_PREFIX, length=KEY_BYTES))


def recipient_of(identity: str) -> Recipient:
    """Return the public key of a private one."""
    return format_recipient(parse_identity(identity).public_key().public_bytes_raw())


_RECIPIENT_HINT = "make one with `age-keygen` or `wideswe-pack keygen`"
