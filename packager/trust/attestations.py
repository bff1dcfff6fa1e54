"""Statements about an image, signed and attached in both of cosign's forms: a bundle each, and all under `.att`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_canonical
from packager.base.digests import Digest, hex_of
from packager.base.errors import InputError, IntegrityError, UsageError, WorldError
from packager.oci.descriptor import describe
from packager.oci.manifest import parse_manifest
from packager.oci.record import ImageRecord, SignatureTag
from packager.trust.dsse import (
    BUNDLE_TYPE,
    LIMIT_BYTES,
    SIGN_PREDICATE,
    STATEMENT_TYPE,
    Envelope,
    Statement,
    format_envelope,
    parse_bundle,
    parse_statement,
)
from packager.trust.signatures import put_holder, sign_statement, signature_tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.oci.descriptor import Descriptor
    from packager.store.store import Store
    from packager.trust.keys import PrivateKey

PROVENANCE_PREDICATE = "https://slsa.dev/provenance/v1"
SBOM_PREDICATE = "https://spdx.dev/Document"
RESULT_PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
REBUILD_PREDICATE = "https://wideswe.dev/rebuild/v1"

ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"
ATTESTATION_SUFFIX = ".att"

_MANIFEST_LIMIT_BYTES = 1 << 20
_LEGACY_ANNOTATIONS = {"dev.cosignproject.cosign/signature": ""}


def format_statement(name: str, digest: Digest, predicate_type: str, predicate: Mapping[str, Any]) -> bytes:
    """Return an in-toto statement about one image; equal values give equal bytes."""
    subject = {"name": name, "digest": {"sha256": hex_of(digest)}}
    statement = {"_type": STATEMENT_TYPE, "subject": [subject], "predicateType": predicate_type}
    return format_canonical({**statement, "predicate": dict(predicate)})


def attach_statement(record: ImageRecord, statement: bytes, key: PrivateKey, store: Store) -> ImageRecord:
    """Sign a statement about a record's image and attach it; what the same key said before of that type is replaced.

    The bytes are signed as they are. A statement about another image, or one that would be an image signature, is
    refused: the key that attests must never sign images.
    """
    said = parse_statement(statement)
    if record.manifest.digest not in said.subjects:
        raise InputError(f"it is about another image: {said.subjects[0]}, expected {record.manifest.digest}")
    if said.predicate_type == SIGN_PREDICATE:
        raise UsageError("an attestation cannot be an image signature", hint="wideswe-pack sign")
    bundle = sign_statement(record.manifest, statement, said.predicate_type, key=key, store=store)
    others = [
        referrer
        for referrer in record.referrers
        if not _is_said_by(key, referrer, said.predicate_type, store) and referrer.digest != bundle.digest
    ]
    return with_legacy_attestations(replace(record, referrers=(*others, bundle)), store)


def with_legacy_attestations(record: ImageRecord, store: Store) -> ImageRecord:
    """Return the record with the `sha256-….att` manifest that says what its bundles say; none if they say nothing."""
    tag = signature_tag(record.manifest.digest, ATTESTATION_SUFFIX)
    layers = [_put_layer(envelope, said.predicate_type, store) for _, envelope, said in attached(record, store)]
    kept = tuple(signature for signature in record.signatures if signature.tag != tag)
    if not layers:
        return replace(record, signatures=kept)
    return replace(record, signatures=(*kept, SignatureTag(tag, put_holder(layers, store))))


def is_signed(record: ImageRecord, store: Store) -> bool:
    """Tell whether a record has signatures of its image in both forms; whether they hold is for verify to say."""
    tags = {signature.tag for signature in record.signatures}
    kinds = {said.predicate_type for _, _, said in _statements(record, store)}
    return signature_tag(record.manifest.digest) in tags and SIGN_PREDICATE in kinds


def attached(record: ImageRecord, store: Store) -> Iterator[tuple[Descriptor, Envelope, Statement]]:
    """Return the attestations among a record's referrers, whoever made them: no signature is checked here.

    Anyone who may push can attach anything; what is no bundle with a statement about this image is passed over.
    """
    return (found for found in _statements(record, store) if found[2].predicate_type != SIGN_PREDICATE)


def _statements(record: ImageRecord, store: Store) -> Iterator[tuple[Descriptor, Envelope, Statement]]:
    for referrer in record.referrers:
        try:
            envelope = read_bundle(referrer, store)
            said = None if envelope is None else parse_statement(envelope.payload)
        except (InputError, IntegrityError, WorldError):
            continue
        if envelope is not None and said is not None and record.manifest.digest in said.subjects:
            yield referrer, envelope, said


def read_bundle(referrer: Descriptor, store: Store) -> Envelope | None:
    """Return the envelope in a referrer; None if it is another kind of artifact."""
    manifest = parse_manifest(store.read(referrer.digest, _MANIFEST_LIMIT_BYTES), where=f"referrer {referrer.digest}")
    if len(manifest.layers) != 1 or manifest.layers[0].media_type != BUNDLE_TYPE:
        return None
    return parse_bundle(store.read(manifest.layers[0].digest, LIMIT_BYTES))


def _is_said_by(key: PrivateKey, referrer: Descriptor, predicate_type: str, store: Store) -> bool:
    try:
        envelope = read_bundle(referrer, store)
        if envelope is None or not key.public.verifies(envelope.signature, envelope.signed):
            return False
        return parse_statement(envelope.payload).predicate_type == predicate_type
    except (InputError, IntegrityError, WorldError):
        return False


def _put_layer(envelope: Envelope, predicate_type: str, store: Store) -> Descriptor:
    data = format_envelope(envelope)
    store.put(data)
    annotations = {**_LEGACY_ANNOTATIONS, "predicateType": predicate_type}
    return replace(describe(ENVELOPE_TYPE, data), annotations=annotations)
