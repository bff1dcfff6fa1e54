"""From a stack of layers to an image: canonical config, manifest, and the ids that must be equal everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.oci.config import ImageConfig, content_id, format_config
from packager.oci.descriptor import Descriptor
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, Manifest, format_manifest
from packager.oci.places import TASK_LABEL

if TYPE_CHECKING:
    from packager.base.digests import Digest
    from packager.build.execute import Stage
    from packager.store.store import Store


@dataclass(frozen=True)
class Image:
    """An image in the store: its manifest and the content id, which no engine and no compressor can change."""

    manifest: Descriptor
    content_id: Digest


def assemble_image(stage: Stage, store: Store, *, task: str, platform: str) -> Image:
    """Write config and manifest of a stage into the store and return the image."""
    system, _, architecture = platform.partition("/")
    diff_ids = tuple(layer.diff_id for layer in stage.layers)
    config = format_config(
        ImageConfig(
            architecture=architecture,
            os=system,
            diff_ids=diff_ids,
            env=tuple(f"{name}={value}" for name, value in stage.env),
            labels={**dict(stage.labels), TASK_LABEL: task},
            workdir=stage.workdir,
            cmd=stage.command,
        )
    )
    layers = tuple(Descriptor(layer.media_type, layer.digest, layer.size) for layer in stage.layers)
    manifest = format_manifest(Manifest(Descriptor(MEDIA_CONFIG, store.put(config), len(config)), layers))
    descriptor = Descriptor(MEDIA_MANIFEST, store.put(manifest), len(manifest))
    return Image(descriptor, content_id(diff_ids, config))
