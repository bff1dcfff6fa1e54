"""Signs an image in both of cosign's forms; everything is written to the store, and the same key gives the same bytes.

The legacy form is a manifest under the tag `sha256-….sig`, read by cosign up to 2, skopeo, podman and CRI-O. The new
form is a sigstore bundle as a referrer, the default of cosign 3.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base.canonical import format_canonical
from packager.base.digests import Digest, hex_of
from packager.oci.descriptor import Descriptor, describe
from packager.oci.entries import SOURCE_DATE_EPOCH
from packager.oci.manifest import (
    EMPTY_BYTES,
    EMPTY_DESCRIPTOR,
    MEDIA_CONFIG,
    MEDIA_MANIFEST,
    Manifest,
    format_manifest,
)
from packager.oci.record import ImageRecord, SignatureTag
from packager.trust.dsse import (
    BUNDLE_TYPE,
    PAYLOAD_TYPE,
    SIGN_PREDICATE,
    Envelope,
    encode_pae,
    format_bundle,
    format_sign_statement,
)
from packager.trust.payload import Payload, format_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.store.store import Store
    from packager.trust.keys import PrivateKey

SIMPLE_SIGNING_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
PREDICATE_ANNOTATION = "dev.sigstore.bundle.predicateType"
CREATED = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(SOURCE_DATE_EPOCH))

_NO_TIME = "0001-01-01T00:00:00Z"


@dataclass(frozen=True)
class Signatures:
    """Both signatures of one image, as manifests in the store."""

    legacy: SignatureTag
    bundle: Descriptor

    def added_to(self, record: ImageRecord) -> ImageRecord:
        """Return the record with these signatures in the place of older ones of the same tag and form."""
        tags = [known for known in record.signatures if known.tag != self.legacy.tag]
        others = [known for known in record.referrers if not is_image_signature(known)]
        return replace(record, signatures=(*tags, self.legacy), referrers=(*others, self.bundle))


def is_image_signature(referrer: Descriptor) -> bool:
    """Tell whether a referrer says that it is a bundle with a signature, not an attestation or a grant; a hint only."""
    said = referrer.annotations.get(PREDICATE_ANNOTATION, SIGN_PREDICATE)
    return referrer.artifact_type == BUNDLE_TYPE and said == SIGN_PREDICATE


def signature_tag(digest: Digest, suffix: str = ".sig") -> str:
    """Return the tag under which the legacy signatures of a manifest lie (`.att`: its attestations)."""
    return f"sha256-{hex_of(digest)}{suffix}"


def sign_image(manifest: Descriptor, reference: str, key: PrivateKey, store: Store) -> Signatures:
    """Sign an image's manifest under its published name, home/repository:tag."""
    legacy = _sign_legacy(manifest, reference, key, store)
    bundle = sign_statement(manifest, format_sign_statement(manifest.digest), SIGN_PREDICATE, key=key, store=store)
    return Signatures(SignatureTag(signature_tag(manifest.digest), legacy), bundle)


def _sign_legacy(manifest: Descriptor, reference: str, key: PrivateKey, store: Store) -> Descriptor:
    payload = format_payload(Payload(reference, manifest.digest))
    signature = base64.b64encode(key.sign(payload)).decode()
    layer = replace(_put(store, SIMPLE_SIGNING_TYPE, payload), annotations={SIGNATURE_ANNOTATION: signature})
    return put_holder([layer], store)


def put_holder(layers: Sequence[Descriptor], store: Store) -> Descriptor:
    """Store a manifest of the kind that cosign up to 2 keeps signatures and attestations in, under a tag."""
    config = {
        "architecture": "",
        "config": {},
        "created": _NO_TIME,
        "history": [{"created": _NO_TIME} for _ in layers],
        "os": "",
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
    }
    holder = Manifest(_put(store, MEDIA_CONFIG, format_canonical(config)), tuple(layers))
    return _put(store, MEDIA_MANIFEST, format_manifest(holder))


def sign_statement(
    manifest: Descriptor, statement: bytes, predicate_type: str, *, key: PrivateKey, store: Store
) -> Descriptor:
    """Sign the bytes of a statement and store the bundle as a referrer of a manifest."""
    envelope = Envelope(PAYLOAD_TYPE, statement, key.sign(encode_pae(PAYLOAD_TYPE, statement)))
    layer = _put(store, BUNDLE_TYPE, format_bundle(envelope, key.public))
    store.put(EMPTY_BYTES)
    annotations = {
        "dev.sigstore.bundle.content": "dsse-envelope",
        PREDICATE_ANNOTATION: predicate_type,
        "org.opencontainers.image.created": CREATED,
    }
    subject = Descriptor(manifest.media_type, manifest.digest, manifest.size)
    holder = Manifest(EMPTY_DESCRIPTOR, (layer,), annotations, artifact_type=BUNDLE_TYPE, subject=subject)
    stored = _put(store, MEDIA_MANIFEST, format_manifest(holder))
    return replace(stored, annotations=annotations, artifact_type=BUNDLE_TYPE)


def _put(store: Store, media_type: str, data: bytes) -> Descriptor:
    store.put(data)
    return describe(media_type, data)
