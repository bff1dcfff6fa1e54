"""Small images with everything that hangs on one, built into a store."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.oci.descriptor import Descriptor, describe
from packager.oci.manifest import (
    EMPTY_BYTES,
    EMPTY_DESCRIPTOR,
    MEDIA_CONFIG,
    MEDIA_LAYER_ZSTD,
    MEDIA_MANIFEST,
    Manifest,
    format_manifest,
    parse_manifest,
)
from packager.oci.record import ImageRecord, SignatureTag
from packager.seal.grants import GRANT_TYPE

if TYPE_CHECKING:
    from packager.base.digests import Digest
    from packager.store.store import Store

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"


def bytes_of(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def put_blob(store: Store, media_type: str, data: bytes) -> Descriptor:
    store.put(data)
    return describe(media_type, data)


def put_manifest(store: Store, manifest: Manifest) -> Descriptor:
    return put_blob(store, manifest.media_type, format_manifest(manifest))


def make_image(store: Store, *, sizes: tuple[int, ...] = (5000, 70_000), seed: int = 1) -> ImageRecord:
    """An image without anything on it."""
    layers = [put_blob(store, MEDIA_LAYER_ZSTD, bytes_of(size, seed * 100 + n)) for n, size in enumerate(sizes)]
    config = put_blob(store, MEDIA_CONFIG, b'{"architecture":"amd64","os":"linux","seed":%d}' % seed)
    return ImageRecord(put_manifest(store, Manifest(config, tuple(layers))))


def layers_of(store: Store, record: ImageRecord) -> list[Digest]:
    """The blobs of an image's manifest."""
    manifest = parse_manifest(store.read(record.manifest.digest, 1 << 20))
    return [blob.digest for blob in (manifest.config, *manifest.layers)]


def make_referrer(store: Store, subject: Descriptor, kind: str = BUNDLE_TYPE, data: bytes = b"{}") -> Descriptor:
    store.put(EMPTY_BYTES)
    layer = put_blob(store, kind, data)
    return put_manifest(
        store, Manifest(EMPTY_DESCRIPTOR, (layer,), {"about": "a test"}, artifact_type=kind, subject=subject)
    )


def make_signature(store: Store, subject: Descriptor, payload: bytes = b"payload") -> SignatureTag:
    config = put_blob(store, MEDIA_CONFIG, b'{"architecture":"","os":""}')
    layer = put_blob(store, SIMPLE_SIGNING, payload)
    layer = replace(layer, annotations={"dev.cosignproject.cosign/signature": "c2ln"})
    return SignatureTag(
        subject.digest.replace(":", "-") + ".sig",
        put_manifest(store, Manifest(config, (layer,), media_type=MEDIA_MANIFEST)),
    )


def make_full_image(store: Store, *, sizes: tuple[int, ...] = (5000, 70_000)) -> ImageRecord:
    """An image with a signature, a bundle and a grant."""
    bare = make_image(store, sizes=sizes)
    subject = Descriptor(bare.manifest.media_type, bare.manifest.digest, bare.manifest.size)
    return ImageRecord(
        bare.manifest,
        (make_signature(store, subject),),
        (make_referrer(store, subject, data=b"bundle"),),
        (make_referrer(store, subject, GRANT_TYPE, b"grant"),),
    )
