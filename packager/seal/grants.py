"""Grants as artifacts: a manifest that points at the image, with one layer that is an age file."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from packager.base.errors import TrustError
from packager.oci.descriptor import Descriptor, describe
from packager.oci.manifest import (
    EMPTY_BYTES,
    EMPTY_DESCRIPTOR,
    MEDIA_MANIFEST,
    Manifest,
    format_manifest,
    parse_manifest,
)
from packager.seal.identities import GRANT_LIMIT_BYTES, open_grant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.store.store import Store

GRANT_TYPE = "application/vnd.wideswe.key-grant.v1"
GRANT_LAYER_TYPE = "application/vnd.wideswe.key-grant.v1+age"
_MANIFEST_LIMIT_BYTES = 1 << 20


def put_grant(store: Store, subject: Descriptor, grant: bytes) -> Descriptor:
    """Store a grant as an artifact that refers to an image's manifest; return the artifact's descriptor."""
    layer = Descriptor(GRANT_LAYER_TYPE, store.put(grant), len(grant))
    store.put(EMPTY_BYTES)
    manifest = format_manifest(Manifest(EMPTY_DESCRIPTOR, (layer,), artifact_type=GRANT_TYPE, subject=subject))
    store.put(manifest)
    return describe(MEDIA_MANIFEST, manifest)


def open_any_grant(store: Store, grants: Iterable[Descriptor], evaluators: str) -> str:
    """Return the task identity from the first grant that one of the evaluator's keys opens, or raise TrustError."""
    count = 0
    for descriptor in grants:
        manifest = parse_manifest(store.read(descriptor.digest, _MANIFEST_LIMIT_BYTES), where="grant")
        for layer in manifest.layers:
            count += 1
            with contextlib.suppress(TrustError):
                return open_grant(store.read(layer.digest, 2 * GRANT_LIMIT_BYTES), evaluators)
    raise TrustError(
        f"none of the {count} grants of this image opens with the evaluator's key",
        hint="send the public key to the suite's authors, then pull again",
    )
