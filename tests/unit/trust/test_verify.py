"""Verification says yes to what we publish, and a no with its own reason for each way of being wrong."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import DiffId, hex_of
from packager.base.errors import InputError, IntegrityError, TrustError
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import Descriptor, describe
from packager.oci.entries import dir_entry, file_entry, symlink_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import (
    EMPTY_DESCRIPTOR,
    MEDIA_CONFIG,
    MEDIA_INDEX,
    MEDIA_LAYER_TAR,
    MEDIA_MANIFEST,
    Manifest,
    format_manifest,
    parse_manifest,
)
from packager.oci.places import SEALED_PATH
from packager.oci.record import ImageRecord, SignatureTag
from packager.oci.tar_writer import write_tar
from packager.seal.age_writer import write_age
from packager.seal.bundle import open_seal, seal
from packager.seal.identities import create_evaluator_key, task_identity
from packager.trust import dsse
from packager.trust.checks import Check, is_verified
from packager.trust.signature_checks import MAX_REFERRERS, MAX_SIGNATURES
from packager.trust.signatures import SIGNATURE_ANNOTATION, SIMPLE_SIGNING_TYPE, sign_image
from packager.trust.verify import verify_image
from tests.support.sealed_images import (
    CONTENTS,
    KEY,
    OTHER_KEY,
    REFERENCE,
    ROOT,
    SealedImage,
    build_image,
    image_of,
    sealed_entries,
    signed,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.base.progress import Event

KEYS = (KEY.public,)


@pytest.fixture
def image(tmp_path: Path) -> SealedImage:
    return build_image(tmp_path / "store")


def verify(image: SealedImage, record: ImageRecord | None = None, *, reference: str | None = REFERENCE) -> list[Check]:
    return verify_image(record or image.record, image.store, public_keys=KEYS, reference=reference)


def no(checks: list[Check]) -> tuple[str, str]:
    """The name and reason of the no that a verification ends with."""
    assert [check.number for check in checks] == list(range(1, len(checks) + 1))
    assert [check.ok for check in checks] == [True] * (len(checks) - 1) + [False]
    assert not is_verified(checks)
    return checks[-1].name, checks[-1].reason


def damaged(image: SealedImage, digest: str) -> str:
    """What the store says of a blob with one byte flipped, without the digest that was found."""
    place = image.store.root / "blobs" / "sha256" / digest.removeprefix("sha256:")
    return f"{place}: expected the digest {digest}, found sha256:"


def blob_of(image: SealedImage, manifest: Descriptor) -> Descriptor:
    """The first layer of a manifest in the store."""
    return parse_manifest(image.store.read(manifest.digest, 1 << 20)).layers[0]


def test_what_we_build_and_sign_verifies(image: SealedImage) -> None:
    checks = verify(image)
    assert is_verified(checks)
    assert [(check.number, check.name) for check in checks] == [
        (1, "manifest digest"),
        (2, "manifest"),
        (3, "config"),
        (4, "legacy signature"),
        (5, "bundle signature"),
        (6, "layer 1 of 2"),
        (7, "layer 2 of 2"),
        (8, "diff ids"),
        (9, "seal"),
    ]
    fingerprint = KEY.public.fingerprint[:16]
    assert checks[3].reason == f"{REFERENCE} signed by key {fingerprint}"
    assert checks[4].reason == f"bundle signed by key {fingerprint}"
    assert checks[8].reason == "sealed to one recipient, 65736 bytes"


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_other_compressions_verify_too(tmp_path: Path, compression: str) -> None:
    assert is_verified(verify(build_image(tmp_path, compression=compression)))  # type: ignore[arg-type]


def test_no_key_is_nobody_to_believe(image: SealedImage) -> None:
    with pytest.raises(TrustError) as caught:
        verify_image(image.record, image.store, public_keys=())
    assert str(caught.value) == "no public key to verify with\nhint: name the suite's public key"


def test_no_checks_are_no_yes() -> None:
    assert not is_verified([])


def test_an_expected_name_without_tag_is_refused(image: SealedImage) -> None:
    with pytest.raises(InputError, match="expected reference: expected home/repository:tag without a digest"):
        verify(image, reference="registry.example/suite/x")


def test_progress_is_told(image: SealedImage) -> None:
    events: list[Event] = []
    verify_image(image.record, image.store, public_keys=KEYS, progress=events.append)
    last = image.manifest.layers[-1]
    assert events[-1].done == events[-1].total == last.size
    assert {event.unit for event in events} == {"bytes"}


FLIPS: dict[str, tuple[Callable[[SealedImage], Descriptor], str, str]] = {
    "manifest": (lambda image: image.record.manifest, "manifest digest", "manifest: "),
    "config": (lambda image: image.manifest.config, "config", "config: "),
    "first layer": (lambda image: image.manifest.layers[0], "layer 1 of 2", ""),
    "layer of the sealed file": (lambda image: image.manifest.layers[1], "layer 2 of 2", ""),
    "signature manifest": (
        lambda image: image.record.signatures[0].manifest,
        "legacy signature",
        "signature manifest: ",
    ),
    "signed payload": (
        lambda image: blob_of(image, image.record.signatures[0].manifest),
        "legacy signature",
        "signed payload: ",
    ),
    "signature config": (
        lambda image: parse_manifest(image.store.read(image.record.signatures[0].manifest.digest, 1 << 20)).config,
        "legacy signature",
        "signature config: ",
    ),
    "bundle manifest": (lambda image: image.record.referrers[0], "bundle signature", "referrer: "),
    "bundle": (lambda image: blob_of(image, image.record.referrers[0]), "bundle signature", "bundle: "),
}


@pytest.mark.parametrize("place", [0, 9, -1])
@pytest.mark.parametrize("kind", FLIPS)
def test_a_flipped_byte_is_a_no_with_its_own_reason(image: SealedImage, kind: str, place: int) -> None:
    find, name, where = FLIPS[kind]
    descriptor = find(image)
    image.flipped(descriptor.digest, place)
    said, reason = no(verify(image))
    assert said == name
    assert reason.startswith(where + damaged(image, descriptor.digest))


@pytest.mark.parametrize("place", [0, 124, 512, -1])
def test_a_flipped_byte_of_a_plain_tar_is_called_that_and_no_strange_tar(tmp_path: Path, place: int) -> None:
    image = build_image(tmp_path / "store", compression="none")
    first = image.manifest.layers[0].digest
    image.flipped(first, place)
    said, reason = no(verify(image))
    assert said == "layer 1 of 2"
    assert reason.startswith(damaged(image, first))


@pytest.mark.parametrize("kind", FLIPS)
def test_a_missing_blob_is_a_no(image: SealedImage, kind: str) -> None:
    find, name, where = FLIPS[kind]
    descriptor = find(image)
    (image.store.root / "blobs" / "sha256" / hex_of(descriptor.digest)).unlink()
    assert no(verify(image)) == (name, f"{where}the blob {descriptor.digest} is missing")


@pytest.mark.parametrize("kind", ["manifest", "config", "first layer"])
@pytest.mark.parametrize("length", [-1, 1])
def test_a_wrong_size_is_a_no_even_if_the_digest_holds(image: SealedImage, kind: str, length: int) -> None:
    layers = image.manifest.layers
    if kind == "manifest":
        record = replace(
            image.record, manifest=replace(image.record.manifest, size=image.record.manifest.size + length)
        )
        size, name = record.manifest.size, "manifest digest"
    else:
        config, first = image.manifest.config, layers[0]
        if kind == "config":
            config = replace(config, size=config.size + length)
        else:
            first = replace(first, size=first.size + length)
        image = image.with_signed(replace(image.manifest, config=config, layers=(first, layers[1])))
        record, name = image.record, {"config": "config", "first layer": "layer 1 of 2"}[kind]
        size = config.size if kind == "config" else first.size
    said, reason = no(verify(image, record))
    assert said == name
    assert f"expected {size} bytes, found " in reason


def test_an_index_or_an_artifact_in_the_place_of_a_manifest_is_a_no(image: SealedImage) -> None:
    index = image.put(MEDIA_INDEX, b'{"schemaVersion":2,"mediaType":"%s","manifests":[]}' % MEDIA_INDEX.encode())
    assert no(verify(image, signed(image.store, index))) == (
        "manifest",
        f"manifest.mediaType: expected {MEDIA_MANIFEST}, found {MEDIA_INDEX}",
    )
    both = image.put(MEDIA_MANIFEST, b'{"schemaVersion":2,"manifests":[],"layers":[],"config":{}}')
    assert no(verify(image, signed(image.store, both)))[0] == "manifest"
    artifact = image.put(MEDIA_MANIFEST, format_manifest(Manifest(EMPTY_DESCRIPTOR, (), artifact_type="a/b")))
    assert no(verify(image, signed(image.store, artifact))) == (
        "manifest",
        "expected an image with layers, found an artifact or nothing",
    )
    mislabelled = replace(image.record, manifest=replace(image.record.manifest, media_type=MEDIA_INDEX))
    assert no(verify(image, mislabelled)) == ("manifest", f"expected {MEDIA_MANIFEST}, the record says {MEDIA_INDEX}")


def test_a_config_of_another_kind_is_a_no(image: SealedImage) -> None:
    other = replace(image.manifest.config, media_type="application/json")
    assert no(verify(image.with_signed(replace(image.manifest, config=other)))) == (
        "config",
        f"expected {MEDIA_CONFIG}, found application/json",
    )


def test_layers_that_are_not_those_of_the_config_are_a_no(image: SealedImage) -> None:
    first, second = image.manifest.layers
    swapped = image.with_signed(replace(image.manifest, layers=(second, first)))
    name, reason = no(verify(swapped))
    assert name == "diff ids"
    assert reason.startswith("layer 1: expected sha256:")
    more = image.with_signed(replace(image.manifest, layers=(first, second, second)))
    assert no(verify(more)) == ("diff ids", "the config names 2 layers, the manifest 3")


def test_a_layer_that_does_not_unpack_is_a_no(image: SealedImage) -> None:
    junk = image.put(image.manifest.layers[0].media_type, b"no zstd frame at all")
    broken = image.with_signed(replace(image.manifest, layers=(junk, image.manifest.layers[1])))
    name, reason = no(verify(broken))
    assert name == "layer 1 of 2"
    assert reason.startswith(f"{junk.digest}: does not decompress: ")
    strange = image.put("application/octet-stream", b"x")
    other = image.with_signed(replace(image.manifest, layers=(strange,)))
    assert no(verify(other)) == ("layer 1 of 1", "layer: expected a tar layer, found application/octet-stream")


def test_a_signature_by_another_key_is_a_no_in_either_form(image: SealedImage) -> None:
    theirs = signed(image.store, image.record.manifest, OTHER_KEY)
    reason = f"the signature was not made over these bytes by any given key ({KEY.public.fingerprint[:16]})"
    assert no(verify(image, theirs)) == ("legacy signature", reason)
    mixed = replace(image.record, referrers=theirs.referrers)
    assert no(verify(image, mixed)) == ("bundle signature", reason)


def test_any_of_the_given_keys_will_do(image: SealedImage) -> None:
    keys = (OTHER_KEY.public, KEY.public)
    assert is_verified(verify_image(image.record, image.store, public_keys=keys, reference=REFERENCE))


def test_a_signature_over_another_image_is_a_no(image: SealedImage) -> None:
    other = image.with_signed(replace(image.manifest, annotations={"a": "b"}))
    tag = image.record.signatures[0].tag
    moved = replace(image.record, signatures=(SignatureTag(tag, other.record.signatures[0].manifest),))
    assert no(verify(image, moved)) == (
        "legacy signature",
        f"it is about another image: {other.record.manifest.digest}",
    )
    moved = replace(image.record, referrers=other.record.referrers)
    assert no(verify(image, moved)) == (
        "bundle signature",
        f"the bundle is attached to another image: {other.record.manifest.digest}",
    )


def test_a_bundle_over_another_image_that_was_attached_here_is_a_no(image: SealedImage) -> None:
    other = image.with_signed(replace(image.manifest, annotations={"a": "b"}))
    theirs = parse_manifest(image.store.read(other.record.referrers[0].digest, 1 << 20))
    attached = image.put(MEDIA_MANIFEST, format_manifest(replace(theirs, subject=image.record.manifest)))
    assert no(verify(image, replace(image.record, referrers=(attached,)))) == (
        "bundle signature",
        f"it is about another image: {other.record.manifest.digest}",
    )


def test_a_signature_for_another_name_is_a_no(image: SealedImage) -> None:
    other = "registry.example/suite/hello-wide-001:v2"
    assert no(verify(image, reference=other)) == (
        "legacy signature",
        f"it is for another name: expected {other}, found {REFERENCE}",
    )
    assert is_verified(verify(image, reference=None))


def test_no_signature_at_all_is_a_no(image: SealedImage) -> None:
    tag = image.record.signatures[0].tag
    assert no(verify(image, replace(image.record, signatures=()))) == (
        "legacy signature",
        f"expected one manifest with the tag {tag}, found 0",
    )
    wrong = replace(image.record, signatures=(replace(image.record.signatures[0], tag="latest"),))
    assert no(verify(image, wrong))[1] == f"expected one manifest with the tag {tag}, found 0"
    twice = replace(image.record, signatures=image.record.signatures * 2)
    assert no(verify(image, twice))[1] == f"expected one manifest with the tag {tag}, found 2"
    assert no(verify(image, replace(image.record, referrers=()))) == (
        "bundle signature",
        f"expected 1 to {MAX_SIGNATURES} bundles, found 0",
    )


def with_legacy(image: SealedImage, change: Callable[[Descriptor], tuple[Descriptor, ...]]) -> ImageRecord:
    """The record with other layers in the signature manifest."""
    (signature,) = image.record.signatures
    manifest = parse_manifest(image.store.read(signature.manifest.digest, 1 << 20))
    changed = image.put(MEDIA_MANIFEST, format_manifest(replace(manifest, layers=change(manifest.layers[0]))))
    return replace(image.record, signatures=(replace(signature, manifest=changed),))


def annotated(text: str, layer: Descriptor) -> tuple[Descriptor, ...]:
    return (replace(layer, annotations={SIGNATURE_ANNOTATION: text}),)


LEGACY = f"annotation {SIGNATURE_ANNOTATION}"
BAD_LEGACY: dict[str, tuple[Callable[[Descriptor], tuple[Descriptor, ...]], str]] = {
    "no annotation": (lambda layer: (replace(layer, annotations={}),), f"{LEGACY}: expected a text, found nothing"),
    "loose base64": (partial(annotated, "AB=="), f"{LEGACY}: not canonical standard Base64"),
    "not base64": (partial(annotated, "!"), f"{LEGACY}: not canonical standard Base64"),
    "no signature": (
        partial(annotated, "AAAA"),
        f"the signature was not made over these bytes by any given key ({KEY.public.fingerprint[:16]})",
    ),
    "no layer": (lambda _layer: (), f"expected 1 to {MAX_SIGNATURES} signatures, found 0"),
    "other type": (
        lambda layer: (replace(layer, media_type="a/b"),),
        f"expected 1 to {MAX_SIGNATURES} signatures, found 0",
    ),
    "endless": (
        lambda layer: (layer,) * (MAX_SIGNATURES + 1),
        f"expected 1 to {MAX_SIGNATURES} signatures, found {MAX_SIGNATURES + 1}",
    ),
    "oversized payload": (
        lambda layer: (replace(layer, size=65537),),
        "signed payload: expected at most 65536 bytes, found 65537",
    ),
}


@pytest.mark.parametrize("kind", BAD_LEGACY)
def test_a_legacy_signature_that_is_not_sound_is_a_no(image: SealedImage, kind: str) -> None:
    change, reason = BAD_LEGACY[kind]
    assert no(verify(image, with_legacy(image, change))) == ("legacy signature", reason)


def test_one_good_signature_among_bad_ones_is_a_yes_and_none_lists_all_reasons(image: SealedImage) -> None:
    bad = replace(blob_of(image, image.record.signatures[0].manifest), annotations={SIGNATURE_ANNOTATION: "!"})
    assert is_verified(verify(image, with_legacy(image, lambda layer: (bad, layer))))
    assert no(verify(image, with_legacy(image, lambda _layer: (bad, bad))))[1] == (
        f"none of 2 signatures holds: 1: {LEGACY}: not canonical standard Base64; "
        f"2: {LEGACY}: not canonical standard Base64"
    )


def with_payload(image: SealedImage, payload: bytes) -> ImageRecord:
    """The record with a legacy signature by the right key over any bytes."""
    stored = image.put(SIMPLE_SIGNING_TYPE, payload)
    text = base64.b64encode(KEY.sign(payload)).decode()
    return with_legacy(image, lambda _layer: (replace(stored, annotations={SIGNATURE_ANNOTATION: text}),))


def test_a_signed_payload_that_can_be_read_in_two_ways_is_a_no(image: SealedImage) -> None:
    good = image.store.read(blob_of(image, image.record.signatures[0].manifest).digest, 1 << 16)
    doubled = good.replace(b'"optional"', b'"critical":{},"optional"')
    assert no(verify(image, with_payload(image, doubled))) == (
        "legacy signature",
        "payload: not acceptable JSON: duplicate key 'critical'",
    )
    more = json.dumps({**json.loads(good), "more": 1}).encode()
    assert no(verify(image, with_payload(image, more))) == ("legacy signature", "payload: unknown field 'more'")


def with_statement(image: SealedImage, statement: bytes, **changes: object) -> ImageRecord:
    """The record with a bundle by the right key over any statement, its JSON changed at the top."""
    kind = "application/vnd.in-toto+json"
    envelope = dsse.Envelope(kind, statement, KEY.sign(dsse.encode_pae(kind, statement)))
    bundle = {**json.loads(dsse.format_bundle(envelope, KEY.public)), **changes}
    layer = image.put(dsse.BUNDLE_TYPE, json.dumps(bundle).encode())
    holder = Manifest(EMPTY_DESCRIPTOR, (layer,), artifact_type=dsse.BUNDLE_TYPE, subject=image.record.manifest)
    return replace(image.record, referrers=(image.put(MEDIA_MANIFEST, format_manifest(holder)),))


def test_an_attestation_by_the_right_key_is_no_image_signature(image: SealedImage) -> None:
    good = dsse.format_sign_statement(image.record.manifest.digest)
    assert is_verified(verify(image, with_statement(image, good)))
    failed = good.replace(dsse.SIGN_PREDICATE.encode(), b"https://in-toto.io/attestation/test-result/v0.1")
    assert no(verify(image, with_statement(image, failed))) == (
        "bundle signature",
        "it is no image signature: the predicate type is https://in-toto.io/attestation/test-result/v0.1",
    )


def test_a_bundle_that_is_not_sound_is_a_no(image: SealedImage) -> None:
    good = dsse.format_sign_statement(image.record.manifest.digest)
    assert no(verify(image, with_statement(image, good, more=1))) == (
        "bundle signature",
        "bundle: unknown field 'more'",
    )
    assert no(verify(image, with_statement(image, good.replace(b"{}}", b'{},"predicate":{}}')))) == (
        "bundle signature",
        "statement: not acceptable JSON: duplicate key 'predicate'",
    )
    two = {"payload": "AA==", "payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": "AA=="}] * 2}
    assert no(verify(image, with_statement(image, good, dsseEnvelope=two))) == (
        "bundle signature",
        "bundle.dsseEnvelope.signatures: expected exactly one signature, found 2",
    )


def test_grants_and_attestations_beside_the_bundle_do_no_harm_and_are_bounded(image: SealedImage) -> None:
    grant = image.put("application/vnd.wideswe.key-grant.v1+age", b"grant")
    holder = Manifest(EMPTY_DESCRIPTOR, (grant,), artifact_type="a/b", subject=image.record.manifest)
    other = image.put(MEDIA_MANIFEST, format_manifest(holder))
    assert is_verified(verify(image, replace(image.record, referrers=(other, *image.record.referrers))))
    many = replace(image.record, referrers=image.record.referrers * (MAX_SIGNATURES + 1))
    assert no(verify(image, many))[1] == f"expected 1 to {MAX_SIGNATURES} bundles, found {MAX_SIGNATURES + 1}"
    endless = replace(image.record, referrers=(other,) * (MAX_REFERRERS + 1))
    assert no(verify(image, endless))[1] == f"expected at most {MAX_REFERRERS} referrers, found {MAX_REFERRERS + 1}"


def test_an_oversized_manifest_is_a_no_before_it_is_read(image: SealedImage) -> None:
    huge = replace(image.record, manifest=replace(image.record.manifest, size=1 << 40))
    assert no(verify(image, huge)) == (
        "manifest digest",
        f"manifest: expected at most 4194304 bytes, found {1 << 40}",
    )
    (signature,) = image.record.signatures
    endless = replace(signature, manifest=replace(signature.manifest, size=1 << 40))
    assert no(verify(image, replace(image.record, signatures=(endless,))))[1] == (
        f"signature manifest: expected at most 1048576 bytes, found {1 << 40}"
    )


SEALED = seal(CONTENTS, ROOT)
_, STRANGER = create_evaluator_key()


def age_of(size: int, *recipients: str) -> bytes:
    return b"".join(write_age(bytes(size), recipients or [STRANGER], secret=bytes(32), context="x"))


BAD_SEALS = {
    "none": ([file_entry(b"opt/wideswe/other", b"")], "expected one opt/wideswe/sealed.age in the last layer, found 0"),
    "a link": (
        [symlink_entry(SEALED_PATH, b"/etc/passwd")],
        "the sealed file is not a plain file of root with mode 0644",
    ),
    "a folder": ([dir_entry(SEALED_PATH)], "the sealed file is not a plain file of root with mode 0644"),
    "another mode": (
        [file_entry(SEALED_PATH, SEALED, mode=0o600)],
        "the sealed file is not a plain file of root with mode 0644",
    ),
    "plain text": (
        sealed_entries(b"the gold patch\n"),
        "sealed file: expected the first line age-encryption.org/v1, found something else",
    ),
    "two recipients": (
        sealed_entries(age_of(65536, STRANGER, create_evaluator_key()[1])),
        "expected one X25519 recipient, found X25519, X25519",
    ),
    "no padding": (sealed_entries(age_of(5000)), "its size, 5200 bytes, is not that of a padded seal"),
    "cut": (sealed_entries(SEALED[:-1]), "its size, 65735 bytes, is not that of a padded seal"),
    "header alone": (sealed_entries(SEALED[:184]), "its size, 184 bytes, is not that of a padded seal"),
}


@pytest.mark.parametrize("kind", BAD_SEALS)
def test_a_last_layer_without_a_sound_seal_is_a_no(tmp_path: Path, kind: str) -> None:
    entries, reason = BAD_SEALS[kind]
    assert no(verify(build_image(tmp_path, last=entries))) == ("seal", reason)


@pytest.mark.parametrize(("place", "shows"), [(0, True), (22, True), (40, True), (199, False), (40_000, False)])
def test_a_seal_that_was_changed_before_signing_shows_here_only_in_its_header(
    tmp_path: Path, place: int, shows: bool
) -> None:
    broken = bytearray(SEALED)
    broken[place] ^= 0x80 if place == 40 else 1
    checks = verify(build_image(tmp_path, last=sealed_entries(bytes(broken))))
    assert is_verified(checks) != shows
    with pytest.raises((IntegrityError, TrustError)):
        open_seal(bytes(broken), task_identity(ROOT, CONTENTS.suite, CONTENTS.task)[0])


def test_a_second_sealed_file_that_would_win_when_unpacked_is_a_no(image: SealedImage) -> None:
    out = bytearray()
    write_tar(sealed_entries(), out.extend)
    decoyed = bytes(out).rstrip(b"\0")
    decoyed = decoyed + bytes(-len(decoyed) % 512) + bytes(out)
    layer = image.put(MEDIA_LAYER_TAR, decoyed)
    config = format_config(ImageConfig("amd64", (DiffId(layer.digest),)))
    described = image.put(MEDIA_CONFIG, config)
    twice = image.with_signed(replace(image.manifest, config=described, layers=(layer,)))
    assert no(verify(twice)) == ("seal", "expected one opt/wideswe/sealed.age in the last layer, found 2")


def test_a_config_for_another_platform_is_bound_by_signatures_and_diff_ids(image: SealedImage) -> None:
    config = format_config(ImageConfig("arm64", ()))
    image.store.put(config)
    other = replace(image.manifest, config=describe(MEDIA_CONFIG, config))
    unsigned = image.put(MEDIA_MANIFEST, format_manifest(other))
    assert no(verify(image, replace(image.record, manifest=unsigned)))[0] == "legacy signature"
    assert no(verify(image.with_signed(other)))[0] == "diff ids"


def test_nothing_that_nobody_signed_is_unpacked(image: SealedImage) -> None:
    for layer in image.manifest.layers:
        (image.store.root / "blobs" / "sha256" / hex_of(layer.digest)).unlink()
    theirs = signed(image.store, image.record.manifest, OTHER_KEY)
    events: list[Event] = []
    checks = verify_image(theirs, image.store, public_keys=KEYS, progress=events.append)
    assert no(checks)[0] == "legacy signature"
    assert events == []


def test_an_image_of_one_layer_verifies(image: SealedImage) -> None:
    layer = write_layer(sealed_entries(), image.store)
    assert is_verified(verify(image_of(image.store, [layer])))


def test_signatures_made_later_verify_too(image: SealedImage) -> None:
    record = sign_image(image.record.manifest, REFERENCE, OTHER_KEY, image.store).added_to(image.record)
    assert is_verified(verify_image(record, image.store, public_keys=(OTHER_KEY.public,), reference=REFERENCE))
