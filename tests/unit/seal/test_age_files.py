"""Our age files are what age and rage read, are the same each time, and never share a key between two messages."""

from __future__ import annotations

import hashlib
import io
from itertools import pairwise

import pyrage
import pytest

from packager.base.errors import InputError, IntegrityError, TrustError
from packager.seal.age_format import CHUNK_BYTES, sealed_size
from packager.seal.age_reader import HEADER_LIMIT_BYTES, read_age
from packager.seal.age_writer import derive_file_secrets, write_age
from packager.seal.identities import create_evaluator_key
from packager.seal.keys import format_identity, format_recipient, parse_recipient, recipient_of

SECRET = bytes(range(32))
CONTEXT = "suite/task/1"
IDENTITIES = tuple(format_identity(hashlib.sha256(bytes([n])).digest()) for n in range(3))
RECIPIENTS = tuple(recipient_of(identity) for identity in IDENTITIES)
SIZES = (0, 1, 65535, 65536, 65537, 131072, 300_000)


def written(plain: bytes, *, context: str = CONTEXT, secret: bytes = SECRET, to: tuple[str, ...] = RECIPIENTS) -> bytes:
    return b"".join(write_age(plain, to, secret=secret, context=context))


def read(data: bytes, *identities: str) -> bytes:
    return b"".join(read_age(io.BytesIO(data), identities or IDENTITIES[:1]))


def refusal(data: bytes, *identities: str) -> str:
    with pytest.raises((IntegrityError, TrustError, InputError)) as caught:
        read(data, *identities)
    return str(caught.value)


@pytest.mark.parametrize("size", SIZES)
def test_what_we_write_every_reader_opens_for_every_recipient(size: int) -> None:
    plain = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    data = written(plain)
    assert len(data) == sealed_size(size, 3)
    for identity in IDENTITIES:
        assert read(data, identity) == plain
        assert pyrage.decrypt(data, [pyrage.x25519.Identity.from_str(str(identity))]) == plain


@pytest.mark.parametrize("size", SIZES)
def test_what_rage_writes_we_read(size: int) -> None:
    plain = bytes(size)
    data = pyrage.encrypt(plain, [pyrage.x25519.Recipient.from_str(text) for text in RECIPIENTS])
    assert read(data, IDENTITIES[2]) == plain


def test_the_same_message_gives_the_same_bytes_whatever_the_order_of_recipients() -> None:
    again = written(b"gold", to=(*reversed(RECIPIENTS), RECIPIENTS[0]))
    assert again == written(b"gold")
    assert hashlib.sha256(again).hexdigest() == "e8e968bbcb9022f4ee26b4ddec81cf987f1661bb7f98ca742b06dbf67a5f4ebe"


def test_a_change_of_one_bit_of_plaintext_changes_every_key() -> None:
    raw = sorted(parse_recipient(text) for text in RECIPIENTS)
    first, second = (
        derive_file_secrets(SECRET, context=CONTEXT, plain_digest=hashlib.sha256(plain).digest(), recipients=raw)
        for plain in (b"patch-0", b"patch-1")
    )
    assert first.file_key != second.file_key
    assert first.nonce != second.nonce
    assert not set(first.ephemerals) & set(second.ephemerals)


@pytest.mark.parametrize(
    "other",
    [
        written(b"gold", context="suite/task/2"),
        written(b"gold", context="other/task/1"),
        written(b"gold", secret=bytes(32)),
        written(b"gold", to=RECIPIENTS[:2]),
    ],
    ids=["version", "suite", "root", "recipients"],
)
def test_equal_content_is_not_seen_to_be_equal_under_another_context_root_or_recipients(other: bytes) -> None:
    mine = written(b"gold")
    shares = {line for line in mine.split(b"\n") if line.startswith(b"-> X25519 ")}
    assert len(shares) == 3
    assert not shares & set(other.split(b"\n"))
    assert mine[-20:] != other[-20:]


def test_context_and_recipients_cannot_run_into_each_other() -> None:
    raw = parse_recipient(RECIPIENTS[0])
    digest = bytes(32)
    joined = derive_file_secrets(SECRET, context="ab", plain_digest=digest, recipients=[raw])
    split = derive_file_secrets(SECRET, context="a", plain_digest=b"b" + digest, recipients=[raw])
    assert joined != split


def test_a_guess_of_the_plaintext_cannot_be_confirmed_without_the_root() -> None:
    guess = b"the gold patch"
    convergent = hashlib.sha256(guess).digest()
    assert written(guess, secret=convergent) != written(guess)


def test_the_secrets_of_a_file_are_not_shown() -> None:
    secrets = derive_file_secrets(SECRET, context=CONTEXT, plain_digest=bytes(32), recipients=[bytes(32)])
    assert repr(secrets) == "FileSecrets()"


def test_a_wrong_identity_opens_nothing() -> None:
    stranger, _ = create_evaluator_key()
    assert refusal(written(b"gold"), stranger) == (
        "age file: none of 1 given identities opens it\nhint: ask the suite's owner for a grant to your evaluator key"
    )
    with pytest.raises(InputError, match="no identity to open it with"):
        list(read_age(io.BytesIO(b""), []))


def test_nobody_to_encrypt_to_is_refused() -> None:
    with pytest.raises(InputError, match=r"^nobody to encrypt to: the list of recipients is empty$"):
        write_age(b"", [], secret=SECRET, context=CONTEXT)


def test_a_recipient_of_low_order_is_refused() -> None:
    with pytest.raises(InputError, match="low order"):
        written(b"", to=(format_recipient(bytes(32)),))


def test_every_flipped_byte_is_noticed() -> None:
    data = written(b"gold" * 20)
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= 1
        assert refusal(bytes(broken)).startswith("age file: ")


def test_every_cut_is_noticed() -> None:
    data = written(bytes(10))
    for length in range(len(data)):
        assert refusal(data[:length]).startswith("age file: ")


@pytest.mark.parametrize("size", [65536, 65537, 131072])
def test_cut_swapped_repeated_and_added_chunks_are_noticed(size: int) -> None:
    data = written(bytes(size), to=RECIPIENTS[:1])
    start = sealed_size(0, 1) - 16
    step = CHUNK_BYTES + 16
    chunks = [data[place : place + step] for place in range(start, len(data), step)]
    head = data[:start]
    for number, (one, two) in enumerate(pairwise(chunks)):
        reason = f"age file: chunk {number} is damaged, cut off or out of order"
        assert refusal(head + b"".join(chunks[:number]) + two + one) == reason
    assert refusal(head + b"".join(chunks[:-1])).startswith("age file: chunk ")
    assert refusal(data + b"\0").startswith("age file: chunk ")
    assert refusal(data + chunks[-1]).startswith("age file: chunk ")


HEADER = written(b"x", to=RECIPIENTS[:1])
SHARE_LINE, BODY_LINE = HEADER.split(b"\n")[1:3]
BAD_HEADERS = {
    "version": (
        b"age-encryption.org/v1\n",
        b"age-encryption.org/v2\n",
        "expected the first line age-encryption.org/v1, found something else",
    ),
    "carriage return": (b"v1\n", b"v1\r\n", "expected the first line age-encryption.org/v1, found something else"),
    "no recipient": (SHARE_LINE + b"\n" + BODY_LINE + b"\n", b"", "the header names no recipient"),
    "two blanks": (b"-> X25519 ", b"-> X25519  ", "the header has a line that is neither a recipient nor its end"),
    "padded body": (BODY_LINE, BODY_LINE + b"=", "the header has a recipient whose body is not canonical Base64"),
    "short share": (SHARE_LINE, SHARE_LINE[:-4], "the header has an X25519 recipient that is malformed"),
    "third argument": (SHARE_LINE, SHARE_LINE + b" x", "the header has an X25519 recipient that is malformed"),
    "long body": (BODY_LINE, BODY_LINE + b"AAAA", "the header has an X25519 recipient that is malformed"),
    "zero share": (SHARE_LINE, b"-> X25519 " + b"A" * 43, "the header has a share of low order"),
    "mac": (b"--- ", b"--- A", "the line that ends the header is not `---` and a MAC"),
    "added stanza": (b"--- ", b"-> other\n\n--- ", "the header is damaged: its MAC does not hold"),
}


@pytest.mark.parametrize("kind", BAD_HEADERS)
def test_a_malformed_header_is_refused_with_its_own_reason(kind: str) -> None:
    old, new, reason = BAD_HEADERS[kind]
    assert HEADER.count(old) == 1
    assert refusal(HEADER.replace(old, new)) == f"age file: {reason}"


def test_an_armored_file_is_refused_by_name() -> None:
    assert refusal(b"-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n-----END AGE ENCRYPTED FILE-----\n") == (
        "age file: expected a binary age file, found an armored one\nhint: make it without `age --armor`"
    )


def test_what_is_for_a_passphrase_or_another_kind_of_key_is_not_ours() -> None:
    data = pyrage.passphrase.encrypt(b"gold", "passphrase")
    assert refusal(data).startswith("age file: none of 1 given identities opens it")


def test_a_header_without_end_is_bounded() -> None:
    stanza = b"-> other " + b"a" * 60 + b"\n\n"
    head = b"age-encryption.org/v1\n"
    endless = io.BytesIO(head + stanza * (HEADER_LIMIT_BYTES // len(stanza) + 1000))
    with pytest.raises(IntegrityError, match=f"the header is longer than {HEADER_LIMIT_BYTES} bytes"):
        read_age(endless, IDENTITIES)
    assert endless.tell() < HEADER_LIMIT_BYTES + 5000
    with pytest.raises(IntegrityError, match="cut off or has a line that is too long"):
        read_age(io.BytesIO(head + b"-> " + b"a" * 100_000), IDENTITIES)


def test_a_stream_that_gives_few_bytes_at_a_time_is_read_whole() -> None:
    class Dripping(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 1000))

    plain = bytes(70_000)
    assert b"".join(read_age(Dripping(written(plain)), IDENTITIES)) == plain
