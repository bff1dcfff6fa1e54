"""Signing writes two manifests in the form that cosign and container/image read, the same bytes each time."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.oci.descriptor import Descriptor
from packager.oci.manifest import EMPTY_DESCRIPTOR, MEDIA_MANIFEST, parse_manifest
from packager.oci.record import ImageRecord, format_record, parse_record
from packager.store.store import Store
from packager.trust.dsse import BUNDLE_TYPE, parse_bundle
from packager.trust.signatures import sign_image, signature_tag
from tests.support.sealed_images import KEY, OTHER_KEY, REFERENCE

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = Descriptor(MEDIA_MANIFEST, digest_of(b"manifest"), 8)
GRANT = Descriptor(MEDIA_MANIFEST, digest_of(b"grant"), 5, artifact_type="application/vnd.wideswe.key-grant.v1")
PROVENANCE = Descriptor(
    MEDIA_MANIFEST,
    digest_of(b"provenance"),
    10,
    {"dev.sigstore.bundle.predicateType": "https://slsa.dev/provenance/v1"},
    BUNDLE_TYPE,
)


def test_the_same_key_and_image_give_the_same_manifests(tmp_path: Path) -> None:
    first = sign_image(MANIFEST, REFERENCE, KEY, Store(tmp_path / "a"))
    second = sign_image(MANIFEST, REFERENCE, KEY, Store(tmp_path / "b"))
    assert first == second
    assert first.legacy.manifest.digest == "sha256:32874aed08d4c4efe54a700ebe8b39056746027ca5cdbd9bd6cafb74fe0f72a7"
    assert first.bundle.digest == "sha256:bdd54a408a26d139ae8c8287dc9edbf765f088a104b1364ab2fe4c632f73415c"


def test_the_legacy_manifest_is_the_one_of_cosigns_specification(tmp_path: Path) -> None:
    store = Store(tmp_path)
    signed = sign_image(MANIFEST, REFERENCE, KEY, store).legacy
    assert signed.tag == signature_tag(MANIFEST.digest) == f"sha256-{MANIFEST.digest[7:]}.sig"
    manifest = parse_manifest(store.read(signed.manifest.digest, 1 << 16))
    (layer,) = manifest.layers
    payload = store.read(layer.digest, 1 << 16)
    assert layer.media_type == "application/vnd.dev.cosign.simplesigning.v1+json"
    assert KEY.public.verifies(base64.b64decode(layer.annotations["dev.cosignproject.cosign/signature"]), payload)
    assert store.read(manifest.config.digest, 1 << 16).decode() == (
        '{"architecture":"","config":{},"created":"0001-01-01T00:00:00Z",'
        '"history":[{"created":"0001-01-01T00:00:00Z"}],"os":"",'
        f'"rootfs":{{"diff_ids":["{layer.digest}"],"type":"layers"}}}}'
    )


def test_the_bundle_is_a_referrer_of_the_image(tmp_path: Path) -> None:
    store = Store(tmp_path)
    described = sign_image(MANIFEST, REFERENCE, KEY, store).bundle
    manifest = parse_manifest(store.read(described.digest, 1 << 16))
    assert manifest.subject == MANIFEST
    assert manifest.config == EMPTY_DESCRIPTOR
    assert store.read(EMPTY_DESCRIPTOR.digest, 10) == b"{}"
    assert described.artifact_type == manifest.artifact_type == BUNDLE_TYPE
    assert (
        described.annotations
        == manifest.annotations
        == {
            "dev.sigstore.bundle.content": "dsse-envelope",
            "dev.sigstore.bundle.predicateType": "https://sigstore.dev/cosign/sign/v1",
            "org.opencontainers.image.created": "1980-01-01T00:00:00Z",
        }
    )
    (layer,) = manifest.layers
    assert layer.media_type == BUNDLE_TYPE
    envelope = parse_bundle(store.read(layer.digest, 1 << 16))
    assert KEY.public.verifies(envelope.signature, envelope.signed)


def test_signing_again_replaces_the_signatures_and_keeps_grants_and_attestations(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old = sign_image(MANIFEST, REFERENCE, OTHER_KEY, store).added_to(
        ImageRecord(MANIFEST, referrers=(PROVENANCE,), grants=(GRANT,))
    )
    new = sign_image(MANIFEST, REFERENCE, KEY, store)
    record = new.added_to(old)
    assert record.signatures == (new.legacy,)
    assert record.referrers == (PROVENANCE, new.bundle)
    assert record.grants == (GRANT,)
    assert parse_record(format_record(record)) == record


def test_nothing_is_signed_under_a_name_that_can_move(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected home/repository:tag without a digest"):
        sign_image(MANIFEST, "registry.example/suite/x", KEY, Store(tmp_path))


def test_a_subject_carries_no_annotations_of_the_descriptor(tmp_path: Path) -> None:
    annotated = replace(MANIFEST, annotations={"a": "b"})
    assert sign_image(annotated, REFERENCE, KEY, Store(tmp_path)) == sign_image(
        MANIFEST, REFERENCE, KEY, Store(tmp_path)
    )
