"""Only P-256 signs and verifies; key files are cosign's, and nothing secret is ever shown."""

from __future__ import annotations

import base64
import hashlib
import json
import traceback
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from nacl.secret import SecretBox

from packager.base.errors import InputError, PackError, TrustError
from packager.trust.keyfiles import (
    OLD_PRIVATE_LABEL,
    PRIVATE_LABEL,
    Password,
    format_private_key,
    parse_private_key,
    read_password,
    read_private_key,
    read_public_key,
    write_key_pair,
)
from packager.trust.keys import create_private_key, parse_private_der, parse_public_key
from packager.trust.pem import format_pem, parse_pem
from tests.support.sealed_images import KEY, OTHER_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
HINT = "\nhint: make a key with `wideswe-pack keygen` or `cosign generate-key-pair`"
NO_PEM = "public key: expected one PEM block (-----BEGIN …-----) and nothing else"
SCRYPT = "k: expected scrypt with N=32768, 65536 or 131072, r=8, p=1, found"
PASSWORD = Password("correct horse")
OTHERS: dict[str, Callable[[], Any]] = {
    "ECDSA secp384r1": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ECDSA secp256k1": lambda: ec.generate_private_key(ec.SECP256K1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
    "Ed448": ed448.Ed448PrivateKey.generate,
    "RSA 2048": lambda: rsa.generate_private_key(65537, 2048),
}


@cache
def key_file() -> bytes:
    return format_private_key(KEY, PASSWORD)


def test_a_signature_is_the_same_each_time_and_holds_for_its_key_and_bytes_alone() -> None:
    signature = KEY.sign(b"sample")
    assert signature == KEY.sign(b"sample")
    assert KEY.public.verifies(signature, b"sample")
    assert not KEY.public.verifies(signature, b"Sample")
    assert not OTHER_KEY.public.verifies(signature, b"sample")
    assert not KEY.public.verifies(b"", b"sample")
    assert not KEY.public.verifies(signature + b"\0", b"sample")


def test_signing_follows_rfc_6979() -> None:
    # RFC 6979, A.2.5: P-256 with SHA-256, message "sample".
    secret = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
    private = ec.derive_private_key(secret, ec.SECP256R1())
    der = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    r, s = decode_dss_signature(parse_private_der(der, where="key").sign(b"sample"))
    assert r == 0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716
    assert s == 0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8


def test_the_other_half_of_a_signature_is_accepted_as_cosign_does() -> None:
    r, s = decode_dss_signature(KEY.sign(b"x"))
    assert KEY.public.verifies(encode_dss_signature(r, P256_ORDER - s), b"x")


@pytest.mark.parametrize("name", OTHERS)
def test_keys_of_other_algorithms_are_refused_by_name(name: str) -> None:
    key = OTHERS[name]()
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(InputError) as public:
        parse_public_key(pem)
    assert str(public.value) == f"public key: expected an ECDSA P-256 key, found {name}{HINT}"
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(InputError) as private:
        parse_private_der(der, where="k")
    assert str(private.value) == f"k: expected an ECDSA P-256 key, found {name}{HINT}"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", NO_PEM),
        (KEY.public.pem * 2, NO_PEM),
        (KEY.public.pem + b"x", NO_PEM),
        (KEY.public.pem.replace(b"END PUBLIC", b"END PRIVATE"), NO_PEM),
        (format_pem("CERTIFICATE", KEY.public.der), f"public key: expected PUBLIC KEY, found CERTIFICATE{HINT}"),
        (format_pem("RSA PUBLIC KEY", KEY.public.der), f"public key: expected PUBLIC KEY, found RSA PUBLIC KEY{HINT}"),
        (format_pem("PUBLIC KEY", b"\x30\x00"), f"public key: what it holds is not a public key{HINT}"),
        (b"-----BEGIN X-----\nAAA\n-----END X-----\n", "public key: the PEM block is not canonical Base64"),
        (b"-----BEGIN X-----\nAB==\n-----END X-----\n", "public key: the PEM block is not canonical Base64"),
        (b"x" * 65537, "public key: expected at most 65536 bytes of PEM, found 65537"),
    ],
)
def test_a_file_that_is_no_public_key_is_refused_with_its_own_reason(data: bytes, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_public_key(data)
    assert str(caught.value) == reason


def test_a_public_key_roundtrips_and_is_told_apart() -> None:
    again = parse_public_key(KEY.public.pem)
    assert again == KEY.public
    assert again != OTHER_KEY.public
    assert again.fingerprint == base64.b64decode(again.hint).hex()
    assert parse_public_key(KEY.public.pem.replace(b"\n", b"\r\n")) == again


def test_secrets_are_hidden_in_reprs() -> None:
    assert repr(KEY) == "PrivateKey()"
    assert repr(PASSWORD) == "Password()"


def test_an_encrypted_key_opens_with_its_password_alone() -> None:
    assert parse_private_key(key_file(), PASSWORD).public == KEY.public
    with pytest.raises(TrustError) as caught:
        parse_private_key(key_file(), Password("wrong"))
    assert str(caught.value) == "signing key: the password is wrong or the key file is damaged"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_nothing_secret_is_in_the_text_of_an_error() -> None:
    with pytest.raises(InputError) as caught:
        parse_private_der(b"secret bytes", where="k")
    assert "secret bytes" not in "".join(traceback.format_exception_only(caught.value))
    assert str(caught.value) == f"k: what it holds is not a PKCS #8 private key{HINT}"


def test_an_empty_password_and_the_old_label_are_legal() -> None:
    key = create_private_key()
    data = format_private_key(key, Password("")).replace(PRIVATE_LABEL.encode(), OLD_PRIVATE_LABEL.encode())
    assert parse_private_key(data, Password("")).public == key.public


@pytest.mark.parametrize("cost", [32768, 131072])
def test_the_other_costs_that_cosign_accepts_are_accepted(cost: int) -> None:
    salt, nonce = bytes(32), bytes(24)
    secret = hashlib.scrypt(b"x", salt=salt, n=cost, r=8, p=1, maxmem=1 << 28, dklen=32)
    sealed = SecretBox(secret).encrypt(KEY.der, nonce).ciphertext
    data = changed(
        kdf__params__N=cost,
        kdf__salt=base64.b64encode(salt).decode(),
        cipher__nonce=base64.b64encode(nonce).decode(),
        ciphertext=base64.b64encode(sealed).decode(),
    )
    assert parse_private_key(data, Password("x")).public == KEY.public


def test_two_key_files_of_one_key_differ() -> None:
    assert key_file() != format_private_key(KEY, PASSWORD)


def changed(**changes: object) -> bytes:
    fields = json.loads(parse_pem(key_file(), where="")[1])
    for path, value in changes.items():
        place = fields
        *parents, last = path.split("__")
        for parent in parents:
            place = place[parent]
        place[last] = value
    return format_pem(PRIVATE_LABEL, json.dumps(fields).encode())


BAD_FILES = {
    "cheap scrypt": (changed(kdf__params__N=16384), f"{SCRYPT} N=16384 r=8 p=1"),
    "dear scrypt": (changed(kdf__params__N=262144), f"{SCRYPT} N=262144 r=8 p=1"),
    "other r": (changed(kdf__params__r=1), f"{SCRYPT} N=65536 r=1 p=1"),
    "N as text": (changed(kdf__params__N="65536"), f"{SCRYPT} N=65536 r=8 p=1"),
    "other kdf": (changed(kdf__name="pbkdf2"), "k: kdf.name: expected scrypt, found pbkdf2"),
    "other cipher": (changed(cipher__name="aes"), "k: cipher.name: expected nacl/secretbox, found aes"),
    "short salt": (changed(kdf__salt="AAAA"), "k: kdf.salt: expected 32 bytes, found 3"),
    "short nonce": (changed(cipher__nonce="AAAA"), "k: cipher.nonce: expected 24 bytes, found 3"),
    "loose base64": (changed(ciphertext="AB=="), "k: ciphertext: not canonical standard Base64"),
    "ciphertext missing": (changed(ciphertext=None), "k: ciphertext: expected a text, found nothing"),
    "empty ciphertext": (changed(ciphertext="AAAA"), "k: the password is wrong or the key file is damaged"),
    "unknown field": (changed(more=1), "k: unknown field 'more'"),
    "duplicate key": (
        format_pem(PRIVATE_LABEL, b'{"kdf":1,"kdf":2}'),
        "k: not acceptable JSON: duplicate key 'kdf'",
    ),
    "plain key": (
        format_pem("PRIVATE KEY", KEY.der),
        f"k: expected {PRIVATE_LABEL}, found PRIVATE KEY\nhint: encrypt it with `cosign import-key-pair --key …`",
    ),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_key_file_is_refused_with_its_own_reason(kind: str) -> None:
    data, reason = BAD_FILES[kind]
    with pytest.raises(PackError) as caught:
        parse_private_key(data, PASSWORD, where="k")
    assert str(caught.value) == reason


def test_key_files_are_private_and_never_written_over(tmp_path: Path) -> None:
    private, public = tmp_path / "suite.key", tmp_path / "suite.pub"
    write_key_pair(private, public, KEY, PASSWORD)
    assert private.stat().st_mode & 0o777 == 0o600
    assert public.stat().st_mode & 0o777 == 0o644
    assert read_private_key(private, PASSWORD).public == read_public_key(public) == KEY.public
    with pytest.raises(InputError, match=r"suite\.pub: exists already and is not written over"):
        write_key_pair(tmp_path / "new.key", public, OTHER_KEY, PASSWORD)
    assert not (tmp_path / "new.key").exists()
    with pytest.raises(InputError, match=r"suite\.key: exists already and is not written over"):
        write_key_pair(private, tmp_path / "new.pub", OTHER_KEY, PASSWORD)
    assert not (tmp_path / "new.pub").exists()
    assert read_private_key(private, PASSWORD).public == KEY.public


def test_the_password_comes_from_a_file_or_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes("päss\nmore\n".encode())
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "binary").write_bytes(b"\xff")
    assert read_password({"WIDESWE_PASSWORD": "x"}) == Password("x")
    assert read_password({"WIDESWE_PASSWORD": ""}) == Password("")
    assert read_password({"WIDESWE_PASSWORD": "x"}, tmp_path / "password") == Password("päss")
    assert read_password({}, tmp_path / "empty") == Password("")
    with pytest.raises(TrustError) as caught:
        read_password({})
    assert str(caught.value) == (
        "no password for the signing key\nhint: set WIDESWE_PASSWORD (empty is allowed) or name a password file with --password-file"
    )
    with pytest.raises(InputError) as binary:
        read_password({}, tmp_path / "binary")
    assert str(binary.value) == f"{tmp_path / 'binary'}: the password is not UTF-8"
