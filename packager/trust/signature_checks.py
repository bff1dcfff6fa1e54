"""Checks the two signatures of an image; each way of not holding has a reason of its own.

At least one signature by one of the given keys must hold in each form, as with cosign. A signature is verified before
the document under it is parsed. High-S is accepted (see keys.py); transparency logs play no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError, IntegrityError, TrustError
from packager.oci.manifest import parse_manifest
from packager.oci.reference import parse_reference
from packager.trust import dsse, payload
from packager.trust.checks import Answer
from packager.trust.signatures import SIGNATURE_ANNOTATION, SIMPLE_SIGNING_TYPE, signature_tag
from packager.trust.strict import parse_base64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.oci.descriptor import Descriptor
    from packager.oci.manifest import Manifest
    from packager.oci.record import ImageRecord
    from packager.store.store import Store
    from packager.trust.keys import PublicKey

MAX_SIGNATURES = 32
MAX_REFERRERS = 128
MANIFEST_LIMIT_BYTES = 1 << 20

_BUNDLE_PREFIX = "application/vnd.dev.sigstore.bundle"


@dataclass(frozen=True)
class Claim:
    """What a signature must be about, who may have made it, and how many of them must have."""

    image: Descriptor
    keys: Sequence[PublicKey]
    reference: str | None = None
    task: str | None = None
    signers: int = 1


def verify_legacy(record: ImageRecord, claim: Claim, store: Store) -> Answer:
    """Check the signature under the tag `sha256-….sig`: by a given key, over this digest, for this name."""
    tag = signature_tag(claim.image.digest)
    found = [signature.manifest for signature in record.signatures if signature.tag == tag]
    if len(found) != 1:
        return Answer(ok=False, reason=f"expected one manifest with the tag {tag}, found {len(found)}")
    manifest = _read_manifest(store, found[0], what="signature manifest")
    read_described(store, manifest.config, limit=MANIFEST_LIMIT_BYTES, what="signature config")
    layers = [layer for layer in manifest.layers if layer.media_type == SIMPLE_SIGNING_TYPE]
    if not layers or len(layers) > MAX_SIGNATURES:
        return Answer(ok=False, reason=f"expected 1 to {MAX_SIGNATURES} signatures, found {len(layers)}")
    return _enough([_check_legacy(layer, claim, store) for layer in layers], claim)


def verify_bundle(record: ImageRecord, claim: Claim, store: Store) -> Answer:
    """Check the sigstore bundle among the referrers: by a given key, an image signature, over this digest."""
    if len(record.referrers) > MAX_REFERRERS:
        return Answer(ok=False, reason=f"expected at most {MAX_REFERRERS} referrers, found {len(record.referrers)}")
    manifests = [_read_manifest(store, referrer, what="referrer") for referrer in record.referrers]
    bundles = [manifest for manifest in manifests if _is_bundle(manifest)]
    if not bundles or len(bundles) > MAX_SIGNATURES:
        return Answer(ok=False, reason=f"expected 1 to {MAX_SIGNATURES} bundles, found {len(bundles)}")
    return _enough([_check_bundle(bundle, claim, store) for bundle in bundles], claim)


def published_name(record: ImageRecord, keys: Sequence[PublicKey], store: Store) -> str:
    """Return the name that one of the keys signed an image under; call it on an image that was verified."""
    tag = signature_tag(record.manifest.digest)
    for signature in record.signatures:
        layers = _read_manifest(store, signature.manifest, what="signature manifest").layers
        for layer in layers if signature.tag == tag else ():
            signed = read_described(store, layer, limit=payload.LIMIT_BYTES, what="signed payload")
            text = layer.annotations.get(SIGNATURE_ANNOTATION)
            if _signer(keys, parse_base64(text, where="signature"), signed) is not None:
                return payload.parse_payload(signed).docker_reference
    raise TrustError("no key of the suite has signed it under a name", where=tag)


def _check_legacy(layer: Descriptor, claim: Claim, store: Store) -> Answer:
    signed = read_described(store, layer, limit=payload.LIMIT_BYTES, what="signed payload")
    try:
        place = f"annotation {SIGNATURE_ANNOTATION}"
        signature = parse_base64(layer.annotations.get(SIGNATURE_ANNOTATION), where=place)
        signer = _signer(claim.keys, signature, signed)
        if signer is None:
            return _no_key(claim)
        said = payload.parse_payload(signed)
    except InputError as error:
        return Answer(ok=False, reason=error.complaint)
    if said.manifest_digest != claim.image.digest:
        return Answer(ok=False, reason=f"it is about another image: {said.manifest_digest}")
    if claim.reference is not None and said.docker_reference != claim.reference:
        reason = f"it is for another name: expected {claim.reference}, found {said.docker_reference[:200]}"
        return Answer(ok=False, reason=reason)
    task = None if claim.task is None else parse_reference(said.docker_reference).repository.rpartition("/")[2]
    if task != claim.task:
        reason = f"it is for another task: expected {claim.task}, found {said.docker_reference[:200]}"
        return Answer(ok=False, reason=reason)
    reason = f"{said.docker_reference} signed by key {signer.fingerprint[:16]}"
    return Answer(ok=True, reason=reason, signer=signer.fingerprint)


def _check_bundle(bundle: Manifest, claim: Claim, store: Store) -> Answer:
    if bundle.subject is None or bundle.subject.digest != claim.image.digest:
        found = "nothing" if bundle.subject is None else bundle.subject.digest
        return Answer(ok=False, reason=f"the bundle is attached to another image: {found}")
    data = read_described(store, bundle.layers[0], limit=dsse.LIMIT_BYTES, what="bundle")
    try:
        envelope = dsse.parse_bundle(data)
        signer = _signer(claim.keys, envelope.signature, envelope.signed)
        if signer is None:
            return _no_key(claim)
        statement = dsse.parse_statement(envelope.payload)
    except InputError as error:
        return Answer(ok=False, reason=error.complaint)
    if statement.predicate_type != dsse.SIGN_PREDICATE:
        reason = f"it is no image signature: the predicate type is {statement.predicate_type[:200]}"
        return Answer(ok=False, reason=reason)
    if claim.image.digest not in statement.subjects:
        return Answer(ok=False, reason=f"it is about another image: {statement.subjects[0]}")
    return Answer(ok=True, reason=f"bundle signed by key {signer.fingerprint[:16]}", signer=signer.fingerprint)


def _is_bundle(manifest: Manifest) -> bool:
    return len(manifest.layers) == 1 and manifest.layers[0].media_type.startswith(_BUNDLE_PREFIX)


def _signer(keys: Sequence[PublicKey], signature: bytes, signed: bytes) -> PublicKey | None:
    return next((key for key in keys if key.verifies(signature, signed)), None)


def _no_key(claim: Claim) -> Answer:
    known = ", ".join(key.fingerprint[:16] for key in claim.keys[:5])
    return Answer(ok=False, reason=f"the signature was not made over these bytes by any given key ({known})")


def _enough(answers: Sequence[Answer], claim: Claim) -> Answer:
    """Return a yes if as many different keys as the claim asks for have signed; one key twice is one."""
    signers = {answer.signer: answer for answer in answers if answer.ok}
    if signers and len(signers) >= claim.signers:
        return next(iter(signers.values()))
    if signers:
        return Answer(ok=False, reason=f"expected signatures by {claim.signers} different keys, found {len(signers)}")
    if len(answers) == 1:
        return answers[0]
    reasons = "; ".join(f"{number}: {answer.reason}" for number, answer in enumerate(answers, start=1))
    return Answer(ok=False, reason=f"none of {len(answers)} signatures holds: {reasons}"[:4000])


def _read_manifest(store: Store, descriptor: Descriptor, *, what: str) -> Manifest:
    return parse_manifest(read_described(store, descriptor, limit=MANIFEST_LIMIT_BYTES, what=what), where=what)


def read_described(store: Store, descriptor: Descriptor, *, limit: int, what: str) -> bytes:
    """Return a small blob whose size and digest are those of its descriptor; else IntegrityError that says `what`."""
    if descriptor.size > limit:
        raise IntegrityError(f"expected at most {limit} bytes, found {descriptor.size}", where=what)
    if not store.has(descriptor.digest):
        raise IntegrityError(f"the blob {descriptor.digest} is missing", where=what)
    try:
        data = store.read(descriptor.digest, limit)
    except IntegrityError as error:
        raise IntegrityError(error.complaint, where=what) from error
    if len(data) != descriptor.size:
        raise IntegrityError(f"expected {descriptor.size} bytes, found {len(data)}", where=what)
    return data
