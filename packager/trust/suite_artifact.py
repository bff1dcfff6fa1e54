"""A suite as an OCI artifact: one layer for each root, in order, and one for the index; any registry carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.oci.descriptor import Descriptor, describe
from packager.oci.manifest import (
    EMPTY_BYTES,
    EMPTY_DESCRIPTOR,
    MEDIA_MANIFEST,
    Manifest,
    format_manifest,
    parse_manifest,
)

if TYPE_CHECKING:
    from packager.store.store import Store
    from packager.trust.suite import SuiteDocuments

SUITE_TYPE = "application/vnd.wideswe.suite.v1+json"
ROOT_LAYER_TYPE = "application/vnd.wideswe.suite.root.v1+json"
INDEX_LAYER_TYPE = "application/vnd.wideswe.suite.index.v1+json"


def put_suite(documents: SuiteDocuments, store: Store) -> Descriptor:
    """Store a suite's documents and the artifact that holds them; return the artifact's descriptor."""
    layers: list[Descriptor] = []
    for kind, data in (*((ROOT_LAYER_TYPE, root) for root in documents.roots), (INDEX_LAYER_TYPE, documents.index)):
        store.put(data)
        layers.append(describe(kind, data))
    store.put(EMPTY_BYTES)
    manifest = format_manifest(Manifest(EMPTY_DESCRIPTOR, tuple(layers), artifact_type=SUITE_TYPE))
    store.put(manifest)
    return describe(MEDIA_MANIFEST, manifest)


def split_layers(data: bytes, *, where: str) -> tuple[tuple[Descriptor, ...], Descriptor]:
    """Return the layers of a suite's manifest: the roots and the index; anything else is an InputError."""
    manifest = parse_manifest(data, where=where)
    if manifest.artifact_type != SUITE_TYPE:
        found = str(manifest.artifact_type or manifest.config.media_type)[:120]
        raise InputError(f"expected {SUITE_TYPE}, found {found}", where=where)
    *roots, index = manifest.layers or (EMPTY_DESCRIPTOR,)
    strange = [root for root in roots if root.media_type != ROOT_LAYER_TYPE]
    if not roots or strange or index.media_type != INDEX_LAYER_TYPE:
        raise InputError("expected the roots of a suite and then its index", where=where)
    return tuple(roots), index
