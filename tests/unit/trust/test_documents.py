"""The signed documents are byte for byte what cosign writes, and whatever could be read in two ways is refused."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from packager.base.digests import Digest
from packager.base.errors import InputError
from packager.trust.dsse import (
    BUNDLE_TYPE,
    Envelope,
    encode_pae,
    format_bundle,
    format_sign_statement,
    parse_bundle,
    parse_statement,
)
from packager.trust.payload import Payload, format_payload, parse_payload
from tests.support.sealed_images import KEY, REFERENCE

DIGEST = Digest("sha256:" + "ab" * 32)
PAYLOAD = format_payload(Payload(REFERENCE, DIGEST))
STATEMENT = format_sign_statement(DIGEST)
BUNDLE = format_bundle(Envelope("application/vnd.in-toto+json", STATEMENT, b"signature"), KEY.public)


def test_the_pre_authentication_encoding_is_that_of_the_specification() -> None:
    # secure-systems-lab/dsse, protocol.md, test vector.
    assert (
        encode_pae("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert encode_pae("é", b"") == "DSSEv1 2 é 0 ".encode()


def test_the_legacy_payload_is_what_go_writes() -> None:
    assert PAYLOAD == (
        b'{"critical":{"identity":{"docker-reference":"registry.example/suite/hello-wide-001:v1"},'
        b'"image":{"docker-manifest-digest":"sha256:' + b"ab" * 32 + b'"},'
        b'"type":"cosign container image signature"},"optional":null}'
    )
    assert parse_payload(PAYLOAD) == Payload(REFERENCE, DIGEST)


def test_the_statement_and_the_bundle_are_what_cosign_3_writes() -> None:
    assert STATEMENT == (
        b'{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"' + b"ab" * 32 + b'"},'
        b'"annotations":{}}],"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}'
    )
    assert (
        b'{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"'
        + KEY.public.hint.encode()
        + b'"}},"dsseEnvelope":{"payload":"'
        + base64.b64encode(STATEMENT)
        + b'","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"c2lnbmF0dXJl"}]}}'
    ) == BUNDLE
    assert parse_bundle(BUNDLE) == Envelope("application/vnd.in-toto+json", STATEMENT, b"signature")
    assert parse_statement(STATEMENT).subjects == (DIGEST,)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "registry.example/suite/x",
            "reference: expected home/repository:tag without a digest, found 'registry.example/suite/x'",
        ),
        (
            f"registry.example/suite/x@{DIGEST}",
            f"reference: expected home/repository:tag without a digest, found 'registry.example/suite/x@{DIGEST}'",
        ),
        ('registry.example/s"x:v1', "reference: expected a repository (lower case, digits, separators), found 's\"x'"),
    ],
)
def test_only_a_name_with_a_tag_is_signed(name: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        format_payload(Payload(name, DIGEST))
    assert str(caught.value) == reason


def edited(data: bytes, path: str, value: object) -> bytes:
    """A JSON document with one field replaced (or, with `...`, deleted)."""
    fields: Any = json.loads(data)
    place = fields
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for parent in parents:
        place = place[parent]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(fields).encode()


BAD_PAYLOADS = {
    "more at the top": (edited(PAYLOAD, "more", 1), "payload: unknown field 'more'"),
    "no optional": (edited(PAYLOAD, "optional", ...), "payload: the field optional is missing"),
    "optional is text": (
        edited(PAYLOAD, "optional", "x"),
        "payload.optional: expected null or an object of at most 64 fields",
    ),
    "more in critical": (edited(PAYLOAD, "critical/more", 1), "payload.critical: unknown field 'more'"),
    "more in image": (edited(PAYLOAD, "critical/image/more", 1), "payload.critical.image: unknown field 'more'"),
    "other type": (
        edited(PAYLOAD, "critical/type", "atomic container signature"),
        "payload.critical.type: expected cosign container image signature, found atomic container signature",
    ),
    "no identity": (
        edited(PAYLOAD, "critical/identity", {}),
        "payload.critical.identity: the field docker-reference is missing",
    ),
    "empty identity": (
        edited(PAYLOAD, "critical/identity/docker-reference", ""),
        "payload.critical.identity.docker-reference: expected a text, found an empty text",
    ),
    "upper-case digest": (
        edited(PAYLOAD, "critical/image/docker-manifest-digest", "sha256:" + "AB" * 32),
        "payload.critical.image.docker-manifest-digest: expected sha256: and 64 hexadecimal digits, found 'sha256:"
        + "AB" * 32
        + "'",
    ),
    "duplicate key": (
        PAYLOAD.replace(b'"optional"', b'"critical":{},"optional"'),
        "payload: not acceptable JSON: duplicate key 'critical'",
    ),
    "trailing data": (PAYLOAD + b"{}", "payload: not acceptable JSON: Extra data: line 1 column 257 (char 256)"),
    "byte order mark": (
        b"\xef\xbb\xbf" + PAYLOAD,
        "payload: not acceptable JSON: Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)",
    ),
    "oversized": (PAYLOAD + b" " * 65536, "payload: expected at most 65536 bytes of JSON, found 65792"),
}
MATERIAL = "bundle.verificationMaterial"
ENVELOPE = "bundle.dsseEnvelope"
BAD_BUNDLES = {
    "old version": (
        edited(BUNDLE, "mediaType", "application/vnd.dev.sigstore.bundle+json;version=0.2"),
        f"bundle.mediaType: expected {BUNDLE_TYPE}, found application/vnd.dev.sigstore.bundle+json;version=0.2",
    ),
    "unknown field": (edited(BUNDLE, "more", 1), "bundle: unknown field 'more'"),
    "message signature": (edited(BUNDLE, "dsseEnvelope", ...), "bundle: the field dsseEnvelope is missing"),
    "certificate": (
        edited(BUNDLE, "verificationMaterial", {"certificate": {}}),
        f"{MATERIAL}: the field publicKey is missing",
    ),
    "unchecked log entry": (
        edited(BUNDLE, "verificationMaterial/tlogEntries", [{}]),
        f"{MATERIAL}.tlogEntries: expected none: it would not be checked",
    ),
    "key in place of a hint": (
        edited(BUNDLE, "verificationMaterial/publicKey/rawBytes", "AA=="),
        f"{MATERIAL}.publicKey: unknown field 'rawBytes'",
    ),
    "hint of wrong type": (
        edited(BUNDLE, "verificationMaterial/publicKey/hint", 1),
        f"{MATERIAL}.publicKey.hint: expected a text",
    ),
    "other payload type": (
        edited(BUNDLE, "dsseEnvelope/payloadType", "text/plain"),
        f"{ENVELOPE}.payloadType: expected application/vnd.in-toto+json, found text/plain",
    ),
    "no signature": (
        edited(BUNDLE, "dsseEnvelope/signatures", []),
        f"{ENVELOPE}.signatures: expected exactly one signature, found 0",
    ),
    "two signatures": (
        edited(BUNDLE, "dsseEnvelope/signatures", [{"sig": "AA=="}] * 2),
        f"{ENVELOPE}.signatures: expected exactly one signature, found 2",
    ),
    "key id": (
        edited(BUNDLE, "dsseEnvelope/signatures/0/keyid", "mine"),
        f"{ENVELOPE}.signatures[0].keyid: expected no keyid: cosign refuses it",
    ),
    "loose base64 of a signature": (
        edited(BUNDLE, "dsseEnvelope/signatures/0/sig", "AB=="),
        f"{ENVELOPE}.signatures[0].sig: not canonical standard Base64",
    ),
    "base64 for URLs": (
        edited(BUNDLE, "dsseEnvelope/payload", "_-A="),
        f"{ENVELOPE}.payload: not canonical standard Base64",
    ),
    "base64 with a line end": (
        edited(BUNDLE, "dsseEnvelope/payload", "AAAA\n"),
        f"{ENVELOPE}.payload: not canonical standard Base64",
    ),
    "base64 that is not ASCII": (
        edited(BUNDLE, "dsseEnvelope/payload", "é"),
        f"{ENVELOPE}.payload: not canonical standard Base64",
    ),
    "duplicate key": (
        BUNDLE.replace(b'"payloadType"', b'"payload":"","payloadType"'),
        "bundle: not acceptable JSON: duplicate key 'payload'",
    ),
    "oversized": (
        BUNDLE + b" " * (16 << 20),
        f"bundle: expected at most {16 << 20} bytes of JSON, found {(16 << 20) + len(BUNDLE)}",
    ),
}
SUBJECT = {"digest": {"sha256": "ab" * 32}}
BAD_STATEMENTS = {
    "old statement": (
        edited(STATEMENT, "_type", "https://in-toto.io/Statement/v0.1"),
        "statement._type: expected https://in-toto.io/Statement/v1, found https://in-toto.io/Statement/v0.1",
    ),
    "unknown field": (edited(STATEMENT, "more", 1), "statement: unknown field 'more'"),
    "no subject": (edited(STATEMENT, "subject", []), "statement.subject: expected 1 to 1024 subjects, found 0"),
    "many subjects": (
        edited(STATEMENT, "subject", [SUBJECT] * 1025),
        "statement.subject: expected 1 to 1024 subjects, found 1025",
    ),
    "many digests": (
        edited(STATEMENT, "subject", [{"digest": {f"d{n}": "00" for n in range(33)}}]),
        "statement.subject[0].digest: expected at most 32 digests, found 33",
    ),
    "subject by another digest": (
        edited(STATEMENT, "subject", [{"digest": {"sha512": "00"}}]),
        "statement.subject[0].digest.sha256: expected a text, found nothing",
    ),
    "upper-case digest": (
        edited(STATEMENT, "subject/0/digest/sha256", "AB" * 32),
        "statement.subject[0].digest.sha256: expected sha256: and 64 hexadecimal digits, found 'sha256:"
        + "AB" * 32
        + "'",
    ),
    "predicate that is no object": (
        edited(STATEMENT, "predicate", []),
        "statement.predicate: expected an object, found list",
    ),
}


@pytest.mark.parametrize("kind", BAD_PAYLOADS)
def test_a_payload_that_c_image_would_refuse_is_refused(kind: str) -> None:
    data, reason = BAD_PAYLOADS[kind]
    with pytest.raises(InputError) as caught:
        parse_payload(data)
    assert str(caught.value) == reason


@pytest.mark.parametrize("kind", BAD_BUNDLES)
def test_a_bundle_with_anything_unchecked_is_refused(kind: str) -> None:
    data, reason = BAD_BUNDLES[kind]
    with pytest.raises(InputError) as caught:
        parse_bundle(data)
    assert str(caught.value) == reason


@pytest.mark.parametrize("kind", BAD_STATEMENTS)
def test_a_statement_that_is_not_plain_is_refused(kind: str) -> None:
    data, reason = BAD_STATEMENTS[kind]
    with pytest.raises(InputError) as caught:
        parse_statement(data)
    assert str(caught.value) == reason


def test_what_cosign_accepts_and_means_nothing_is_accepted() -> None:
    assert parse_payload(edited(PAYLOAD, "optional", {"creator": "x", "timestamp": 1})).docker_reference == REFERENCE
    for empty in ({}, {"hint": ""}):
        parse_bundle(edited(BUNDLE, "verificationMaterial/publicKey", empty))
    parse_bundle(edited(BUNDLE, "verificationMaterial/tlogEntries", []))
    parse_bundle(edited(BUNDLE, "dsseEnvelope/signatures/0/keyid", ""))
    parse_statement(edited(STATEMENT, "predicate", ...))
    parse_statement(edited(STATEMENT, "subject/0/name", "x"))
