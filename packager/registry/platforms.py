"""Images of several platforms under one name: which one of an index is meant, and whether it is what the index says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import InputError
from packager.oci.config import parse_config
from packager.oci.manifest import parse_manifest

if TYPE_CHECKING:
    from packager.base.digests import Digest
    from packager.oci.descriptor import Descriptor
    from packager.registry.client import Document
    from packager.store.store import Store


def choose_child(document: Document, platform: str, *, where: str) -> Descriptor:
    """Return the one image of an index that is for a platform; none or several are an InputError."""
    index = document.index(where=where)
    fitting = [child for child in index.manifests if f"{child.platform}/".startswith(f"{platform}/")]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(sorted(str(child.platform) for child in index.manifests)) or "none"
    hint = f"the index has: {listed[:400]}"
    raise InputError(f"expected one image for {platform}, found {len(fitting)}", where=where, hint=hint)


def expect_platform(store: Store, manifest: Digest, platform: str, *, where: str) -> None:
    """Refuse an image in the store whose own config is for another platform than the one that was asked for."""
    config = parse_manifest(store.read(manifest, LIMIT_BYTES), where=where).config
    found = platform_of(store, config.digest, where=where)
    if found != platform:
        raise InputError(f"expected an image for {platform}, found one for {found}", where=where)


def platform_of(store: Store, config: Digest, *, where: str) -> str:
    """Return the platform that an image's config is for."""
    parsed = parse_config(store.read(config, LIMIT_BYTES), where=where)
    return f"{parsed.os}/{parsed.architecture}"
