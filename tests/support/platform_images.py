"""Images of one task for several platforms, signed, in one store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import describe
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, Manifest, format_manifest
from packager.oci.places import TASK_LABEL
from tests.support.sealed_images import KEY, sealed_entries, signed

if TYPE_CHECKING:
    from packager.oci.record import ImageRecord
    from packager.store.store import Store
    from packager.trust.keys import PrivateKey

TASK = "hello-wide-001"
HOME = "registry.example/wideswe"


def platform_image(
    store: Store, architecture: str, *, key: PrivateKey = KEY, name: str = f"{HOME}/{TASK}:v1", content: bytes = b""
) -> ImageRecord:
    """An image that differs from those of other platforms in one file, and shares the seal with them."""
    files = [file_entry(b"opt/architecture", content or architecture.encode())]
    layers = [write_layer(entries, store) for entries in (files, sealed_entries())]
    config = format_config(
        ImageConfig(architecture, tuple(layer.diff_id for layer in layers), labels={TASK_LABEL: TASK})
    )
    store.put(config)
    manifest = Manifest(describe(MEDIA_CONFIG, config), tuple(layer.descriptor() for layer in layers))
    data = format_manifest(manifest)
    store.put(data)
    return signed(store, describe(MEDIA_MANIFEST, data), key, name)
