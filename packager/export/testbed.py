"""The image of a SWE-bench instance: the task's image, and one more layer with the link `/testbed`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager.export.swebench import TESTBED, testbed_of
from packager.oci.config import format_config
from packager.oci.descriptor import describe
from packager.oci.entries import symlink_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, Manifest, format_manifest

if TYPE_CHECKING:
    from packager.evaluate.judge import StoredImage
    from packager.oci.descriptor import Descriptor
    from packager.store.store import Store


def add_testbed(store: Store, image: StoredImage, alone: str | None) -> Descriptor:
    """Put the image into the store and return its manifest; the same image and target give the same digest."""
    layer = write_layer([symlink_entry(TESTBED.encode(), testbed_of(alone).encode())], store)
    config = format_config(replace(image.config, diff_ids=(*image.config.diff_ids, layer.diff_id)))
    store.put(config)
    layers = (*image.layers, layer.descriptor())
    manifest = format_manifest(Manifest(describe(MEDIA_CONFIG, config), layers))
    store.put(manifest)
    return describe(MEDIA_MANIFEST, manifest)
