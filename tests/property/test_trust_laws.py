"""Laws of signatures: parse∘format is the identity, and no changed document keeps its signature."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packager.base.digests import Digest
from packager.base.errors import InputError
from packager.trust.dsse import (
    Envelope,
    encode_pae,
    format_bundle,
    format_sign_statement,
    parse_bundle,
    parse_statement,
)
from packager.trust.payload import Payload, format_payload, parse_payload
from packager.trust.pem import format_pem, parse_pem
from packager.trust.strict import parse_base64
from tests.support.sealed_images import KEY

DIGESTS = st.from_regex(r"sha256:[0-9a-f]{64}", fullmatch=True).map(Digest)
PARTS = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
NAMES = st.builds("{}.example/{}:{}".format, PARTS, st.lists(PARTS, min_size=1, max_size=3).map("/".join), PARTS)
KIND = "application/vnd.in-toto+json"


@given(NAMES, DIGESTS)
def test_a_payload_reads_back(name: str, digest: Digest) -> None:
    payload = Payload(name, digest)
    assert parse_payload(format_payload(payload)) == payload


@given(DIGESTS, st.binary(min_size=1, max_size=80))
def test_a_bundle_and_its_statement_read_back(digest: Digest, signature: bytes) -> None:
    envelope = Envelope(KIND, format_sign_statement(digest), signature)
    assert parse_bundle(format_bundle(envelope, KEY.public)) == envelope
    assert parse_statement(envelope.payload).subjects == (digest,)


@given(st.text(max_size=20), st.binary(max_size=50), st.text(max_size=20), st.binary(max_size=50))
def test_two_messages_never_have_the_same_encoding(kind: str, body: bytes, other_kind: str, other_body: bytes) -> None:
    assert (encode_pae(kind, body) == encode_pae(other_kind, other_body)) == ((kind, body) == (other_kind, other_body))


@given(st.binary(min_size=1, max_size=100), st.integers(0, 99), st.integers(1, 255))
@settings(max_examples=50, deadline=None)
def test_no_changed_message_keeps_its_signature(data: bytes, place: int, change: int) -> None:
    signature = KEY.sign(data)
    broken = bytearray(data)
    broken[place % len(data)] ^= change
    assert KEY.public.verifies(signature, data)
    assert not KEY.public.verifies(signature, bytes(broken))


@given(st.binary(max_size=80))
@settings(max_examples=100, deadline=None)
def test_no_bytes_are_a_signature_by_accident(signature: bytes) -> None:
    assert not KEY.public.verifies(signature, b"message")


@given(st.binary(max_size=300))
@settings(max_examples=200)
def test_no_bytes_break_the_readers_of_documents(data: bytes) -> None:
    for parse in (parse_payload, parse_bundle, parse_statement):
        with pytest.raises(InputError):
            parse(data)


@given(st.text(max_size=40))
def test_base64_is_either_canonical_or_refused(text: str) -> None:
    try:
        data = parse_base64(text, where="x")
    except InputError:
        return
    assert base64.b64encode(data).decode() == text


@given(st.binary(min_size=1, max_size=500))
def test_pem_reads_back(data: bytes) -> None:
    assert parse_pem(format_pem("PUBLIC KEY", data), where="x") == ("PUBLIC KEY", data)
