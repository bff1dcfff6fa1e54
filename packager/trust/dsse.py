"""DSSE envelopes, in-toto statements and the sigstore bundle around them, in the one shape cosign takes for images.

Sources: secure-systems-lab/dsse protocol.md; in-toto spec/v1/statement.md; sigstore bundle v0.3 with a bare public key
and without transparency log, as cosign 3 writes it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager.base.canonical import parse_json
from packager.base.digests import Digest, hex_of, parse_digest
from packager.base.errors import InputError
from packager.oci.descriptor import expect_list, expect_object, expect_text
from packager.trust.strict import expect_fields, parse_base64

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.trust.keys import PublicKey

LIMIT_BYTES = 16 << 20
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
SIGN_PREDICATE = "https://sigstore.dev/cosign/sign/v1"

_SUBJECT_LIMIT = 1024
_DIGEST_LIMIT = 32


@dataclass(frozen=True)
class Statement:
    """What a bundle says: a predicate about things that are named by digest."""

    subjects: tuple[Digest, ...]
    predicate_type: str
    predicate: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Envelope:
    """A signed payload: the bytes that were signed over, and the one signature."""

    payload_type: str
    payload: bytes
    signature: bytes = field(repr=False)

    @property
    def signed(self) -> bytes:
        """The bytes under the signature."""
        return encode_pae(self.payload_type, self.payload)


def encode_pae(payload_type: str, payload: bytes) -> bytes:
    """Return DSSE's pre-authentication encoding."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def format_sign_statement(digest: Digest) -> bytes:
    """Return the statement that `cosign sign` makes about an image."""
    return _compact(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"digest": {"sha256": hex_of(digest)}, "annotations": {}}],
            "predicateType": SIGN_PREDICATE,
            "predicate": {},
        }
    )


def format_bundle(envelope: Envelope, key: PublicKey) -> bytes:
    """Return a bundle as cosign 3 writes it for a key and no transparency log."""
    return _compact(
        {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {"publicKey": {"hint": key.hint}},
            "dsseEnvelope": {
                "payload": base64.b64encode(envelope.payload).decode(),
                "payloadType": envelope.payload_type,
                "signatures": [{"sig": base64.b64encode(envelope.signature).decode()}],
            },
        }
    )


def format_envelope(envelope: Envelope) -> bytes:
    """Return a bare envelope, as cosign up to 2 keeps attestations under the tag `sha256-….att`."""
    return _compact(
        {
            "payloadType": envelope.payload_type,
            "payload": base64.b64encode(envelope.payload).decode(),
            "signatures": [{"keyid": "", "sig": base64.b64encode(envelope.signature).decode()}],
        }
    )


def parse_bundle(data: bytes, *, where: str = "bundle") -> Envelope:
    """Return the envelope of a bundle; fields that we do not check are refused rather than ignored."""
    known = {"mediaType", "verificationMaterial", "dsseEnvelope"}
    fields = expect_fields(parse_json(data, where=where, limit=LIMIT_BYTES), known, where=where)
    if fields["mediaType"] != BUNDLE_TYPE:
        found = str(fields["mediaType"])[:80]
        raise InputError(f"expected {BUNDLE_TYPE}, found {found}", where=f"{where}.mediaType")
    _check_material(fields["verificationMaterial"], where=f"{where}.verificationMaterial")
    return _parse_envelope(fields["dsseEnvelope"], where=f"{where}.dsseEnvelope")


def parse_statement(data: bytes, *, where: str = "statement") -> Statement:
    """Return what a statement says; call it only on bytes whose signature holds."""
    required = {"_type", "subject", "predicateType"}
    value = parse_json(data, where=where, limit=LIMIT_BYTES)
    fields = expect_fields(value, required, optional={"predicate"}, where=where)
    if fields["_type"] != STATEMENT_TYPE:
        raise InputError(f"expected {STATEMENT_TYPE}, found {str(fields['_type'])[:80]}", where=f"{where}._type")
    subjects = expect_list(fields["subject"], where=f"{where}.subject")
    if not 1 <= len(subjects) <= _SUBJECT_LIMIT:
        raise InputError(f"expected 1 to {_SUBJECT_LIMIT} subjects, found {len(subjects)}", where=f"{where}.subject")
    digests = tuple(_parse_subject(subject, where=f"{where}.subject[{n}]") for n, subject in enumerate(subjects))
    predicate = expect_object(fields.get("predicate", {}), where=f"{where}.predicate")
    return Statement(digests, expect_text(fields["predicateType"], where=f"{where}.predicateType"), predicate)


def _check_material(value: object, *, where: str) -> None:
    fields = expect_fields(value, {"publicKey"}, optional={"tlogEntries", "timestampVerificationData"}, where=where)
    key = expect_fields(fields["publicKey"], set(), optional={"hint"}, where=f"{where}.publicKey")
    if not isinstance(key.get("hint", ""), str):
        raise InputError("expected a text", where=f"{where}.publicKey.hint")
    for name in ("tlogEntries", "timestampVerificationData"):
        if fields.get(name):
            raise InputError("expected none: it would not be checked", where=f"{where}.{name}")


def _parse_envelope(value: object, *, where: str) -> Envelope:
    fields = expect_fields(value, {"payload", "payloadType", "signatures"}, where=where)
    if fields["payloadType"] != PAYLOAD_TYPE:
        found = str(fields["payloadType"])[:80]
        raise InputError(f"expected {PAYLOAD_TYPE}, found {found}", where=f"{where}.payloadType")
    signatures = expect_list(fields["signatures"], where=f"{where}.signatures")
    if len(signatures) != 1:
        raise InputError(f"expected exactly one signature, found {len(signatures)}", where=f"{where}.signatures")
    place = f"{where}.signatures[0]"
    signature = expect_fields(signatures[0], {"sig"}, optional={"keyid"}, where=place)
    if signature.get("keyid", "") != "":
        raise InputError("expected no keyid: cosign refuses it", where=f"{place}.keyid")
    return Envelope(
        PAYLOAD_TYPE,
        parse_base64(fields["payload"], where=f"{where}.payload"),
        parse_base64(signature["sig"], where=f"{place}.sig"),
    )


def _parse_subject(value: object, *, where: str) -> Digest:
    fields = expect_fields(value, {"digest"}, optional={"name", "annotations"}, where=where)
    digests = expect_object(fields["digest"], where=f"{where}.digest")
    if len(digests) > _DIGEST_LIMIT:
        raise InputError(f"expected at most {_DIGEST_LIMIT} digests, found {len(digests)}", where=f"{where}.digest")
    text = expect_text(digests.get("sha256"), where=f"{where}.digest.sha256")
    return parse_digest(f"sha256:{text}", where=f"{where}.digest.sha256")


def _compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
