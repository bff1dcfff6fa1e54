"""Carries stacks of unpacked layers into engines that are not ours: canonical tars, described as one image."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.canonical import format_canonical
from packager.base.digests import digest_of
from packager.base.files import disk_trouble, write_atomic
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import describe
from packager.oci.entries import Entry, InOrder, Kind
from packager.oci.layer import write_layer
from packager.oci.layout import (
    CONTAINERD_NAME,
    DOCKER_FILE,
    INDEX_FILE,
    LAYOUT_BYTES,
    LAYOUT_FILE,
    REF_NAME,
    blob_name,
)
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, Index, Manifest, format_index, format_manifest
from packager.oci.tar_writer import write_tar
from packager.oci.tree import scan_unpacked
from packager.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.oci.layer import Layer

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_OF_THE_STORE = re.compile(r"[0-9a-f]{64}")


class Carrier:
    """A folder that is an OCI layout with uncompressed layers; each unpacked layer of the store is packed once.

    What an engine makes of the image never reaches an image of ours: digests are taken from trees, by our own code.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = Store(folder)
        self._packed: dict[Path, Layer] = {}
        self._blobs: tuple[Digest, ...] = ()

    def pack(self, directories: Sequence[Path]) -> tuple[Layer, ...]:
        """Return the layers (lowest first) as tars; only the store's own unpacked layers never change."""
        layers = []
        for number, directory in enumerate(directories):
            layer = self._packed.get(directory)
            if layer is None:
                entries = InOrder(iter(scan_unpacked(directory, directories[:number])))
                layer = write_layer(entries, self._store, compression="none")
                if _OF_THE_STORE.fullmatch(directory.name):
                    self._packed[directory] = layer
            layers.append(layer)
        return tuple(layers)

    def image(self, layers: Sequence[Layer], *, name: str, labels: Mapping[str, str]) -> None:
        """Make the image of a stack the one that the layout names; `name` is like `localhost/name:tag`."""
        machine = _ARCHITECTURES.get(os.uname().machine, os.uname().machine)
        config = format_config(ImageConfig(machine, tuple(layer.diff_id for layer in layers), labels=labels))
        rows = tuple(layer.descriptor() for layer in layers)
        manifest = format_manifest(Manifest(describe(MEDIA_CONFIG, config), rows))
        names = {REF_NAME: name.rpartition(":")[2], CONTAINERD_NAME: name}
        index = Index((replace(describe(MEDIA_MANIFEST, manifest), annotations=names),))
        docker = {
            "Config": blob_name(self._store.put(config)),
            "RepoTags": [name],
            "Layers": [blob_name(layer.digest) for layer in layers],
        }
        self._store.put(manifest)
        self._blobs = (digest_of(config), digest_of(manifest), *(layer.digest for layer in layers))
        files = {LAYOUT_FILE: LAYOUT_BYTES, INDEX_FILE: format_index(index), DOCKER_FILE: format_canonical([docker])}
        for file, data in files.items():
            write_atomic(self.folder / file, data)

    def write_archive(self, target: Path, *, without: Collection[Digest] = ()) -> None:
        """Write the image as one tar that `docker load` reads; layers that the engine has already may be left out."""
        names = [LAYOUT_FILE, INDEX_FILE, DOCKER_FILE]
        names += sorted({blob_name(digest) for digest in self._blobs if digest not in without})
        entries = []
        for name in names:
            path = self.folder / name
            entries.append(Entry(name.encode(), Kind.FILE, 0o644, size=path.stat().st_size, content=path))
        with disk_trouble(target), target.open("wb") as out:
            write_tar(entries, out.write)
