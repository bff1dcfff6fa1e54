"""Private key files as cosign writes them: PKCS #8 in a NaCl secretbox under a key that scrypt makes of a password.

The format is that of go-securesystemslib's `encrypted` in a PEM block, as in cosign's pkg/cosign/keys.go.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packager.base.canonical import parse_json
from packager.base.errors import InputError, TrustError
from packager.base.files import write_atomic
from packager.seal.keyfiles import create_secret_file, read_secret_file
from packager.trust.keys import PrivateKey, PublicKey, parse_private_der, parse_public_key
from packager.trust.pem import format_pem, parse_pem
from packager.trust.strict import expect_fields, parse_base64

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PRIVATE_LABEL = "ENCRYPTED SIGSTORE PRIVATE KEY"
OLD_PRIVATE_LABEL = "ENCRYPTED COSIGN PRIVATE KEY"
PLAIN_LABEL = "PRIVATE KEY"
SEC1_LABEL = "EC PRIVATE KEY"
PASSWORD_VARIABLE = "WIDESWE_PASSWORD"  # noqa: S105 - the name of a variable

_COST = 65536
_COSTS = (32768, 65536, 131072)
_BLOCK_SIZE = 8
_PARALLEL = 1
_SALT_BYTES = 32
_BOX_KEY_BYTES = 32
_MEMORY_BYTES = 1 << 28


@dataclass(frozen=True)
class Password:
    """What protects a key file; never shown, and may be empty as cosign allows."""

    text: str = field(repr=False)


def read_password(environment: Mapping[str, str], path: Path | None = None) -> Password:
    """Return the password from a file (its first line) or from WIDESWE_PASSWORD; neither given is a TrustError."""
    if path is not None:
        lines = read_secret_file(path).splitlines()
        try:
            return Password(lines[0].decode() if lines else "")
        except UnicodeDecodeError:
            raise InputError("the password is not UTF-8", where=str(path)) from None
    if PASSWORD_VARIABLE not in environment:
        raise TrustError(
            "no password for the signing key",
            hint=f"set {PASSWORD_VARIABLE} (empty is allowed) or name a password file with --password-file",
        )
    return Password(environment[PASSWORD_VARIABLE])


def format_private_key(key: PrivateKey, password: Password) -> bytes:
    """Return an encrypted key file; its salt and nonce are random."""
    from nacl.secret import SecretBox  # noqa: PLC0415 - slow to import, and verifying needs none

    salt = os.urandom(_SALT_BYTES)
    nonce = os.urandom(SecretBox.NONCE_SIZE)
    box = SecretBox(_derive(password, salt, _COST))
    fields = {
        "kdf": {
            "name": "scrypt",
            "params": {"N": _COST, "r": _BLOCK_SIZE, "p": _PARALLEL},
            "salt": base64.b64encode(salt).decode(),
        },
        "cipher": {"name": "nacl/secretbox", "nonce": base64.b64encode(nonce).decode()},
        "ciphertext": base64.b64encode(box.encrypt(key.der, nonce).ciphertext).decode(),
    }
    return format_pem(PRIVATE_LABEL, json.dumps(fields, separators=(",", ":")).encode())


def parse_private_key(data: bytes, password: Password, *, where: str = "signing key") -> PrivateKey:
    """Return the key of an encrypted key file, ours or cosign's; a wrong password is a TrustError."""
    from nacl.exceptions import CryptoError  # noqa: PLC0415
    from nacl.secret import SecretBox  # noqa: PLC0415

    label, content = parse_pem(data, where=where)
    if label not in (PRIVATE_LABEL, OLD_PRIVATE_LABEL):
        hint = "encrypt it with `cosign import-key-pair --key …`"
        raise InputError(f"expected {PRIVATE_LABEL}, found {label}", where=where, hint=hint)
    fields = _parse_fields(content, where=where)
    salt = _bytes_of(fields["kdf"]["salt"], where=f"{where}: kdf.salt", length=_SALT_BYTES)
    nonce = _bytes_of(fields["cipher"]["nonce"], where=f"{where}: cipher.nonce", length=SecretBox.NONCE_SIZE)
    sealed = _bytes_of(fields["ciphertext"], where=f"{where}: ciphertext")
    box = SecretBox(_derive(password, salt, fields["kdf"]["params"]["N"]))
    try:
        der = box.decrypt(sealed, nonce)
    except CryptoError:
        raise TrustError("the password is wrong or the key file is damaged", where=where) from None
    return parse_private_der(der, where=where)


def import_private_key(data: bytes, *, where: str) -> PrivateKey:
    """Return the key of an unencrypted PKCS #8 (or SEC 1) PEM file, as openssl and cloud consoles give it out."""
    label, content = parse_pem(data, where=where)
    if label not in (PLAIN_LABEL, SEC1_LABEL):
        hint = "decrypt it first: openssl pkcs8 -in FILE -out plain.pem"
        raise InputError(f"expected {PLAIN_LABEL}, found {label}", where=where, hint=hint)
    return parse_private_der(content, where=where)


def write_key_pair(private: Path, public: Path, key: PrivateKey, password: Password) -> None:
    """Write an encrypted private key (new, 0600) and its public key beside it (new, 0644)."""
    if public.exists():
        raise InputError("exists already and is not written over", where=str(public))
    create_secret_file(private, format_private_key(key, password))
    write_atomic(public, key.public.pem)


def read_private_key(path: Path, password: Password) -> PrivateKey:
    """Read an encrypted key file."""
    return parse_private_key(read_secret_file(path), password, where=str(path))


def read_public_key(path: Path) -> PublicKey:
    """Read a public key file."""
    return parse_public_key(read_secret_file(path), where=str(path))


@lru_cache(maxsize=8)
def _derive(password: Password, salt: bytes, cost: int) -> bytes:
    """Return the key of a key file; remembered, since signing a whole suite asks for the same few again and again."""
    return hashlib.scrypt(
        password.text.encode(),
        salt=salt,
        n=cost,
        r=_BLOCK_SIZE,
        p=_PARALLEL,
        maxmem=_MEMORY_BYTES,
        dklen=_BOX_KEY_BYTES,
    )


def _parse_fields(content: bytes, *, where: str) -> dict[str, Any]:
    fields = expect_fields(parse_json(content, where=where), {"kdf", "cipher", "ciphertext"}, where=where)
    kdf = expect_fields(fields["kdf"], {"name", "params", "salt"}, where=f"{where}: kdf")
    cipher = expect_fields(fields["cipher"], {"name", "nonce"}, where=f"{where}: cipher")
    for name, expected, found in (("kdf", "scrypt", kdf["name"]), ("cipher", "nacl/secretbox", cipher["name"])):
        if found != expected:
            raise InputError(f"expected {expected}, found {str(found)[:40]}", where=f"{where}: {name}.name")
    params = expect_fields(kdf["params"], {"N", "r", "p"}, where=f"{where}: kdf.params")
    if params["N"] not in _COSTS or (params["r"], params["p"]) != (_BLOCK_SIZE, _PARALLEL):
        found = f"N={str(params['N'])[:20]} r={str(params['r'])[:20]} p={str(params['p'])[:20]}"
        raise InputError(f"expected scrypt with N=32768, 65536 or 131072, r=8, p=1, found {found}", where=where)
    return fields


def _bytes_of(value: object, *, where: str, length: int | None = None) -> bytes:
    data = parse_base64(value, where=where)
    if length is not None and len(data) != length:
        raise InputError(f"expected {length} bytes, found {len(data)}", where=where)
    return data
