"""Writes images with all that hangs on them into one file, shared layers once; the same images give the same bytes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.digests import BLOCK_BYTES, Digest, digest_of, hex_of
from packager.base.errors import IntegrityError, UsageError
from packager.base.files import disk_trouble
from packager.base.progress import Event, Progress, silent
from packager.oci.entries import Entry, Kind, file_entry
from packager.oci.layer import compressor
from packager.oci.layout import DOCKER_FILE, INDEX_FILE, LAYOUT_BYTES, LAYOUT_FILE, blob_name, open_layout, read_small
from packager.oci.manifest import MEDIA_LAYER_ZSTD, parse_manifest
from packager.oci.tar_writer import write_tar
from packager.registry.attached import Attached, read_attached, unique_blobs
from packager.registry.bundle import (
    BundleForm,
    Contents,
    DockerImage,
    format_contents,
    format_docker,
    image_entry,
    read_contents,
    tagged_entry,
)
from packager.registry.referrers import referrer_entry
from packager.store.scratch import scratch_folder
from packager.trust.layers import open_bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from packager.oci.descriptor import Descriptor
    from packager.oci.layout import Layout
    from packager.oci.record import ImageRecord
    from packager.registry.client import Document
    from packager.store.store import Store


@dataclass(frozen=True)
class Exported:
    """What a bundle holds: images, blobs and their bytes, and how many bytes of blobs it leaves to the one before."""

    images: int
    blobs: int
    size_bytes: int
    left_out_bytes: int


@dataclass(frozen=True)
class Export:
    """One bundle to be written."""

    store: Store
    target: Path
    form: BundleForm = field(default_factory=BundleForm)
    progress: Progress = silent

    def run(self, images: Mapping[str, ImageRecord]) -> Exported:
        """Write the images under their names, whole or not at all; every blob is verified on its way."""
        if self.form.since is not None and self.form.docker_layers != "as-is":
            hint = "a bundle that continues another lacks layers, so that docker cannot load it: leave one option out"
            raise UsageError("--since and --docker-layers exclude each other", hint=hint)
        found = {name: read_attached(self.store, record) for name, record in sorted(images.items())}
        documents = [document for image in found.values() for document in image.documents()]
        known, since = self._known()
        blobs = unique_blobs(documents, where=str(self.target))
        configs = {document.manifest(where=document.descriptor.digest).config.digest for document in documents}
        left_out = (blobs.keys() & known) - configs  # an importer reads configs before it asks for layers
        files = {document.descriptor.digest: document.descriptor.size for document in documents}
        files |= {digest: blob.size for digest, blob in blobs.items() if digest not in left_out}
        with scratch_folder(self.store.root) as scratch:
            copies = _Copies(self, scratch)
            docker = [copies.image(name, image) for name, image in found.items() if self._is_whole(image, files)]
            entries = list(self._entries(files, copies.files))
            entries.append(file_entry(LAYOUT_FILE.encode(), LAYOUT_BYTES))
            entries.append(file_entry(INDEX_FILE.encode(), format_contents(Contents(_lines(found), since))))
            entries.append(file_entry(DOCKER_FILE.encode(), format_docker([image for image in docker if image])))
            size = self._write(entries)
        return Exported(len(found), len(files), size, sum(blobs[digest].size for digest in left_out))

    def _known(self) -> tuple[frozenset[Digest], Digest | None]:
        """Return the blobs that whoever has the bundle before has, and that bundle's digest."""
        if self.form.since is None:
            return frozenset(), None
        with open_layout(self.form.since) as layout:
            contents, digest = read_contents(layout)
            blobs = {
                blob.digest
                for entry in contents.entries
                for blob in _named_blobs(layout, entry, where=str(self.form.since))
            }
        return frozenset(blobs), digest

    def _is_whole(self, found: Attached, files: Mapping[Digest, int]) -> bool:
        return all(digest in files for digest in unique_blobs([found.image], where=str(self.target)))

    def _entries(self, files: Mapping[Digest, int], copies: Mapping[Digest, Path]) -> Iterator[Entry]:
        total, done = sum(files.values()), 0
        for digest, size in files.items():
            self.store.verify(digest)
            done += size
            self.progress(Event(f"export {self.target.name}", done, total, "bytes"))
            yield _blob_entry(digest, self.store.path(digest))
        for digest, path in copies.items():
            if digest not in files:
                yield _blob_entry(digest, path)

    def _write(self, entries: Iterable[Entry]) -> int:
        temporary = self.target.with_name(f".{self.target.name[:40]}.{os.urandom(8).hex()}")
        with disk_trouble(self.target):
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                with os.fdopen(descriptor, "wb", buffering=0) as stream:
                    size = write_tar(entries, stream.write)
                    os.fsync(stream.fileno())
                temporary.replace(self.target)
            finally:
                temporary.unlink(missing_ok=True)
        self.progress(Event(f"export {self.target.name}", size, size, "bytes", "exported", finished=True))
        return size


@dataclass(frozen=True)
class _Copies:
    """Layers in another compression, for dockers that cannot read zstd; each is made once."""

    export: Export
    folder: Path
    files: dict[Digest, Path] = field(default_factory=dict)
    made: dict[Digest, Digest] = field(default_factory=dict)

    def image(self, name: str, found: Attached) -> DockerImage | None:
        """Return what docker is told of an image; nothing of what is no image but an artifact."""
        manifest = found.image.manifest(where=name)
        if manifest.artifact_type is not None:
            return None
        layers = tuple(self._layer(layer) for layer in manifest.layers)
        return DockerImage(manifest.config.digest, layers, (name,))

    def _layer(self, layer: Descriptor) -> Digest:
        if self.export.form.docker_layers == "as-is" or layer.media_type != MEDIA_LAYER_ZSTD:
            return layer.digest
        if layer.digest not in self.made:
            self.made[layer.digest] = self._copy(layer)
        return self.made[layer.digest]

    def _copy(self, layer: Descriptor) -> Digest:
        packer, found = compressor("gzip" if self.export.form.docker_layers == "gzip" else "none"), hashlib.sha256()
        temporary = self.folder / "copy"
        with (
            disk_trouble(temporary),
            temporary.open("wb") as out,
            open_bounded(self.export.store, layer) as plain,
        ):
            while block := plain.read(BLOCK_BYTES):
                packed = packer.compress(block)
                found.update(packed)
                out.write(packed)
            plain.finish()
            rest = packer.flush()
            found.update(rest)
            out.write(rest)
        digest = Digest(f"sha256:{found.hexdigest()}")
        self.files[digest] = temporary.rename(self.folder / hex_of(digest))
        return digest


def _lines(images: Mapping[str, Attached]) -> tuple[Descriptor, ...]:
    """Return the lines of the index: images first, then what is found by tags, then referrers."""
    found = [image_entry(image.image.descriptor, name) for name, image in images.items()]
    for image in images.values():
        found += [tagged_entry(tagged.document.descriptor, tagged.tag) for tagged in image.tagged]
    for name, image in images.items():
        for document in image.referrers:
            kind = referrer_entry(document, where=name).artifact_type
            found.append(_typed(document, kind))
    return tuple(found)


def _typed(document: Document, kind: str | None) -> Descriptor:
    return replace(document.descriptor, annotations={}, artifact_type=kind)


def _blob_entry(digest: Digest, path: Path) -> Entry:
    return Entry(blob_name(digest).encode(), Kind.FILE, 0o644, size=path.stat().st_size, content=path)


def _named_blobs(layout: Layout, entry: Descriptor, *, where: str) -> tuple[Descriptor, ...]:
    """Return the blobs that a manifest of another bundle names; that bundle was written by anybody, too."""
    name = blob_name(entry.digest)
    data = read_small(layout, name, limit=LIMIT_BYTES)
    if digest_of(data) != entry.digest:
        raise IntegrityError(f"expected {entry.digest}, found {digest_of(data)}", where=f"{where}: {name}")
    manifest = parse_manifest(data, where=f"{where}: {name}")
    return (manifest.config, *manifest.layers)
