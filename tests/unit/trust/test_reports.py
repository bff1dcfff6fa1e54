"""Public reports about tools like this one, by their numbers in the literature; each is a way of being fooled.

What other files hold already is listed there by kind: test_suite.py (rollback, freeze, equivocation, mix-and-match,
one key under two names), test_image_policy.py (type confusion, malformed payloads, failed results), test_documents.py
(duplicate keys, trailing data, NaN, huge numbers, deep nesting, BOM).
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.oci.descriptor import Descriptor, describe
from packager.oci.manifest import MEDIA_MANIFEST, Manifest, format_manifest, parse_manifest
from packager.seal.grants import MAX_GRANTS, add_grants, count_grants
from packager.trust import dsse
from packager.trust.attestations import SBOM_PREDICATE, attach_statement, format_statement
from packager.trust.keyfiles import import_private_key
from packager.trust.keys import parse_public_key
from packager.trust.pem import format_pem
from packager.trust.signature_checks import MAX_REFERRERS, MAX_SIGNATURES
from packager.trust.verify import verify_image
from tests.support.sealed_images import KEY, OTHER_KEY, REFERENCE, SealedImage, build_image

if TYPE_CHECKING:
    from pathlib import Path

    from packager.oci.record import ImageRecord

KEYS = (KEY.public,)


@pytest.fixture
def image(tmp_path: Path) -> SealedImage:
    return build_image(tmp_path / "store")


def last(image: SealedImage, record: ImageRecord) -> tuple[str, bool, str]:
    check = verify_image(record, image.store, public_keys=KEYS, reference=REFERENCE)[-1]
    return check.name, check.ok, check.reason


def rebundled(image: SealedImage, record: ImageRecord, bundle: bytes, **changes: object) -> ImageRecord:
    """Replace the bundle of a record by other bytes, in a manifest like the one before."""
    (referrer,) = record.referrers
    manifest = parse_manifest(image.store.read(referrer.digest, 1 << 20))
    layer = image.put(manifest.layers[0].media_type, bundle)
    data = format_manifest(replace(manifest, layers=(layer,), **changes))  # type: ignore[arg-type]
    return replace(record, referrers=(image.put(MEDIA_MANIFEST, data),))


def bundle_of(image: SealedImage) -> bytes:
    (referrer,) = image.record.referrers
    manifest = parse_manifest(image.store.read(referrer.digest, 1 << 20))
    return image.store.read(manifest.layers[0].digest, 1 << 20)


def test_3_a_log_entry_is_never_taken_for_a_signature(image: SealedImage) -> None:
    """GHSA-whqx-f9j3-ch6m, GHSA-ccxc-vr6p-4858: any valid entry of a transparency log was accepted."""
    bundle = json.loads(bundle_of(image))
    bundle["verificationMaterial"]["tlogEntries"] = [{"logIndex": "1"}]
    record = rebundled(image, image.record, json.dumps(bundle).encode())
    assert last(image, record) == (
        "bundle signature",
        False,
        "bundle.verificationMaterial.tlogEntries: expected none: it would not be checked",
    )


def test_4_a_signature_is_checked_over_the_very_bytes_that_are_read(image: SealedImage) -> None:
    """GHSA-8gw7-4j42-w388: verified here, read there."""
    bundle = json.loads(bundle_of(image))
    other = dsse.format_sign_statement(digest_of(b"another image"))
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(other).decode()
    name, ok, reason = last(image, rebundled(image, image.record, json.dumps(bundle).encode()))
    assert (name, ok) == ("bundle signature", False)
    assert reason.startswith("the signature was not made over these bytes by any given key")


def test_6_a_flood_of_attachments_is_refused_before_it_is_read(image: SealedImage) -> None:
    """GHSA-88jx-383q-w4qc, GHSA-95pr-fxf5-86gv: huge attachments and numbers of layers exhausted memory."""
    (referrer,) = image.record.referrers
    flood = tuple(replace(referrer, digest=digest_of(str(n).encode())) for n in range(MAX_REFERRERS))
    assert last(image, replace(image.record, referrers=(referrer, *flood))) == (
        "bundle signature",
        False,
        f"expected at most {MAX_REFERRERS} referrers, found {MAX_REFERRERS + 1}",
    )
    huge = Descriptor(MEDIA_MANIFEST, referrer.digest, 1 << 40)
    name, ok, reason = last(image, replace(image.record, referrers=(huge,)))
    assert (name, ok, reason) == (
        "bundle signature",
        False,
        f"referrer: expected at most 1048576 bytes, found {1 << 40}",
    )
    assert MAX_SIGNATURES < MAX_REFERRERS


def test_6_a_layer_that_claims_to_be_huge_is_refused_by_its_claim(image: SealedImage) -> None:
    (referrer,) = image.record.referrers
    manifest = parse_manifest(image.store.read(referrer.digest, 1 << 20))
    layer = replace(manifest.layers[0], size=1 << 40)
    stored = image.put(MEDIA_MANIFEST, format_manifest(replace(manifest, layers=(layer,))))
    name, ok, reason = last(image, replace(image.record, referrers=(stored,)))
    assert (name, ok) == ("bundle signature", False)
    assert reason == f"bundle: expected at most {dsse.LIMIT_BYTES} bytes, found {1 << 40}"


def test_6_grants_of_an_image_stay_in_few_artifacts(image: SealedImage) -> None:
    subject = image.record.manifest
    grants = [b"grant %d" % n for n in range(MAX_GRANTS + 1)]
    artifacts: list[Descriptor] = []
    for start in range(0, len(grants), 100):
        artifacts = add_grants(image.store, subject, artifacts, grants[start : start + 100])
    assert (len(artifacts), count_grants(image.store, artifacts)) == (2, len(grants))
    assert add_grants(image.store, subject, artifacts, grants) == artifacts


def test_7_a_statement_by_the_release_key_is_no_image_signature(image: SealedImage) -> None:
    """Stock `cosign verify --key` takes any statement by the key; so ours asks for the type."""
    statement = format_statement("x", image.record.manifest.digest, SBOM_PREDICATE, {})
    attested = attach_statement(replace(image.record, referrers=()), statement, KEY, image.store)
    assert last(image, attested) == (
        "bundle signature",
        False,
        f"it is no image signature: the predicate type is {SBOM_PREDICATE}",
    )


def test_8_damaged_layers_and_manifests_in_a_local_layout_are_noticed(image: SealedImage) -> None:
    """`cosign verify --local-image` says verified when layers and manifest are junk."""
    image.flipped(image.manifest.layers[0].digest)
    assert last(image, image.record)[:2] == ("layer 1 of 2", False)
    image.flipped(image.record.manifest.digest)
    assert last(image, image.record)[:2] == ("manifest digest", False)


def test_9_keys_that_stock_tools_disagree_about_are_refused_by_name() -> None:
    """sigstore/cosign#5074, #4414: Ed25519 against Ed25519ph, P-384 under SHA-256."""
    edwards = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
    wide = ec.derive_private_key(5, ec.SECP384R1())
    for key, name in ((edwards, "Ed25519"), (wide, "ECDSA secp384r1")):
        public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        for read in (
            lambda public=public: parse_public_key(format_pem("PUBLIC KEY", public), where="k"),
            lambda private=private: import_private_key(private, where="k"),
        ):
            with pytest.raises(InputError) as caught:
                read()
            assert str(caught.value).splitlines()[0] == f"k: expected an ECDSA P-256 key, found {name}"


def test_10_a_bundle_that_was_moved_from_another_image_is_refused(image: SealedImage) -> None:
    """GHSA-xhg5-42rf-296r: a registry made the client verify another artifact than the one asked for."""
    other = image.with_signed(replace(image.manifest, annotations={"another": "image"}))
    moved = replace(image.record, referrers=other.record.referrers, signatures=image.record.signatures)
    assert last(image, moved) == (
        "bundle signature",
        False,
        f"the bundle is attached to another image: {other.record.manifest.digest}",
    )
    reattached = rebundled(image, moved, bundle_of(other), subject=image.record.manifest)
    assert last(image, reattached)[2] == f"it is about another image: {other.record.manifest.digest}"


def test_30_an_annotation_changes_nothing_that_is_checked(image: SealedImage) -> None:
    """GHSA-2cvf-wqm6-wr9g: an annotation of an image switched sandboxing off. Ours are never read as settings."""
    annotated = image.with_signed(replace(image.manifest, annotations={"io.podman.annotations.seccomp": "unconfined"}))
    plain = verify_image(image.record, image.store, public_keys=KEYS, reference=REFERENCE)
    other = verify_image(annotated.record, image.store, public_keys=KEYS, reference=REFERENCE)
    assert [(check.name, check.ok) for check in plain] == [(check.name, check.ok) for check in other]
    assert annotated.record.manifest != image.record.manifest, "whoever adds one needs the release key"


def test_32_what_a_bundle_says_of_a_digest_is_compared_with_the_real_one(image: SealedImage) -> None:
    """sigstore-python#1652: the documented digest was not compared with that of the bytes."""
    bundle = json.loads(bundle_of(image))
    hint = bundle["verificationMaterial"]["publicKey"]
    hint["hint"] = OTHER_KEY.public.hint
    assert last(image, rebundled(image, image.record, json.dumps(bundle).encode()))[1], "a hint decides nothing"
    signed = replace(image.record.manifest, size=image.record.manifest.size + 1)
    assert last(image, replace(image.record, manifest=signed))[:2] == ("manifest digest", False)
    inline = {"mediaType": "a/b", "digest": digest_of(b"x"), "size": 1, "data": base64.b64encode(b"y").decode()}
    manifest = json.loads(format_manifest(Manifest(describe("a/b", b"c"), ())))
    manifest["layers"] = [inline]
    with pytest.raises(InputError) as caught:
        parse_manifest(json.dumps(manifest).encode())
    assert str(caught.value) == "manifest.layers[0].data: inline data is not what the digest and size say"


def test_34_what_two_readers_read_differently_is_read_by_none(image: SealedImage) -> None:
    bundle = bundle_of(image)
    for doubtful, said in (
        (bundle.replace(b'{"mediaType"', b'{"mediaType":"x","mediaType"'), "duplicate key 'mediaType'"),
        (bundle + b"{}", "Extra data"),
        (b"\xef\xbb\xbf" + bundle, "BOM"),
        (bundle.replace(b'"hint":', b'"hint":NaN,"h":'), "NaN is not JSON"),
        (bundle.replace(b'"hint":', b'"h":%s,"hint":' % (b"9" * 40)), "number out of range"),
        (bundle.replace(b'"hint":', b'"h":%s%s,"hint":' % (b"[" * 80, b"]" * 80)), "nested deeper than 64"),
    ):
        name, ok, reason = last(image, rebundled(image, image.record, doubtful))
        assert (name, ok) == ("bundle signature", False)
        assert said in reason


def test_a_missing_blob_of_a_referrer_is_an_error_that_names_it(image: SealedImage) -> None:
    gone = Descriptor(MEDIA_MANIFEST, digest_of(b"gone"), 4)
    assert last(image, replace(image.record, referrers=(gone,))) == (
        "bundle signature",
        False,
        f"referrer: the blob {gone.digest} is missing",
    )
