"""Takes a bundle into the store: every blob is hashed, nothing is named before all of it is good.

1. the layout holds files of a layout only, each once · 2. index.json lists manifests, without a strange annotation ·
3. each manifest is what its line says, and is an image, a referrer of one, or tagged as one's signature · 4. each blob
that they name is in the bundle or in the store, in its size · 5. each blob of the bundle is what its name says ·
6. docker's manifest.json names the same images, and its copies of layers unpack to what the configs say.
Whether the signatures are good is for `verify` to say.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.digests import BLOCK_BYTES, Digest, digest_of, parse_digest
from packager.base.errors import InputError, IntegrityError
from packager.base.progress import Event, Progress, silent
from packager.oci.config import parse_config
from packager.oci.descriptor import Descriptor
from packager.oci.layout import BLOBS, CONTAINERD_NAME, DOCKER_FILE, REF_NAME, Layout, blob_name, read_small
from packager.oci.manifest import MANIFEST_TYPES, MEDIA_LAYER_GZIP, MEDIA_LAYER_TAR, MEDIA_LAYER_ZSTD
from packager.registry.attached import Attached, Tagged, unique_blobs
from packager.registry.bundle import (
    DockerImage,
    parse_docker,
    read_contents,
    refuse_strange_manifest,
    subject_of_tag,
)
from packager.registry.client import Document
from packager.registry.referrers import MAX_REFERRERS
from packager.trust.layers import measure_layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.digests import DiffId
    from packager.oci.record import ImageRecord
    from packager.store.store import Store

_COPY_AGAIN = "copy the bundle again; what was good so far is kept"
_MAGIC = {b"\x1f\x8b": MEDIA_LAYER_GZIP, b"\x28\xb5": MEDIA_LAYER_ZSTD}


@dataclass(frozen=True)
class Imported:
    """One image of a bundle, in the store: its name there, and what the store is to remember of it."""

    name: str
    record: ImageRecord


@dataclass(frozen=True)
class Import:
    """One bundle on its way into the store."""

    layout: Layout
    store: Store
    where: str
    progress: Progress = silent

    def run(self) -> list[Imported]:
        """Take everything or refuse: what is returned is in the store, verified; the caller names it."""
        contents, _ = read_contents(self.layout)
        found = _Found(self.layout)
        for number, entry in enumerate(contents.entries):
            found.take(entry, where=f"index.json.manifests[{number}]")
        images = found.images()
        documents = [document for image in images.values() for document in image.documents()]
        blobs = unique_blobs(documents, where=self.where)
        self._refuse_missing(blobs, since=contents.since)
        docker = self._docker(images)
        self._take_blobs(blobs)
        for image in images.values():
            self._check_docker(image, docker)
        for document in documents:
            self.store.put(document.data)
        return [Imported(name, image.record(where=name)) for name, image in images.items()]

    def _refuse_missing(self, blobs: Mapping[Digest, Descriptor], *, since: Digest | None) -> None:
        """Every blob must be somewhere in its size, before anything large is read."""
        for digest, blob in blobs.items():
            size = self.layout.sizes.get(blob_name(digest))
            if size is not None and size != blob.size:
                raise IntegrityError(f"expected {blob.size} bytes, found {size}", where=blob_name(digest))
            if size is None and not self.store.has(digest, blob.size):
                hint = f"import the bundle with the index {since} first" if since else "the bundle is not whole"
                raise InputError("is neither in the bundle nor in the store", where=blob_name(digest), hint=hint)

    def _take_blobs(self, blobs: Mapping[Digest, Descriptor]) -> None:
        """Hash every blob of the bundle; those that the manifests name go into the store."""
        names = [name for name in self.layout.sizes if name.startswith(BLOBS)]
        total, done = sum(self.layout.sizes[name] for name in names), 0
        task = f"import {self.where}"
        for name in names:
            digest = parse_digest(f"sha256:{name.removeprefix(BLOBS)}", where=name)
            with self.layout.open(name) as stream:
                for block in self._take_blob(stream, name, digest, keep=digest in blobs):
                    done += len(block)
                    self.progress(Event(task, done, total, "bytes"))
        self.progress(Event(task, done, total, "bytes", "imported", finished=True))

    def _take_blob(self, stream: IO[bytes], name: str, digest: Digest, *, keep: bool) -> Iterator[bytes]:
        if not keep or self.store.has(digest, self.layout.sizes[name]):
            yield from _hashed(stream, digest, where=name)
            return
        try:
            with self.store.writer(digest, self.layout.sizes[name]) as out:
                while block := stream.read(BLOCK_BYTES):
                    out.write(block)
                    yield block
                out.commit()
        except IntegrityError as error:
            raise IntegrityError(error.reason, where=name, hint=_COPY_AGAIN) from error

    def _docker(self, images: Mapping[str, Attached]) -> list[DockerImage]:
        """Return what docker would load; an image or a name that the index does not have is refused."""
        if DOCKER_FILE not in self.layout.sizes:
            return []
        found = parse_docker(read_small(self.layout, DOCKER_FILE, limit=LIMIT_BYTES), where=DOCKER_FILE)
        known = {image.image.manifest(where=name).config.digest: name for name, image in images.items()}
        for entry in found:
            if entry.config not in known:
                reason = f"docker would load the config {entry.config}, which no image of index.json has"
                raise InputError(reason, where=DOCKER_FILE)
            if strange := [name for name in entry.names if name not in known.values()]:
                raise InputError(f"docker would name an image {strange[0][:200]!r}, index.json none", where=DOCKER_FILE)
        return found

    def _check_docker(self, image: Attached, docker: list[DockerImage]) -> None:
        """Hold the layers that docker would load against the image's: the same blobs, or copies of the same tars."""
        manifest = image.image.manifest(where=self.where)
        for entry in docker:
            if entry.config != manifest.config.digest or entry.layers == tuple(blob.digest for blob in manifest.layers):
                continue
            config = parse_config(self.store.read(entry.config, LIMIT_BYTES), where=entry.config)
            found = [self._diff_id(layer) for layer in entry.layers]
            if found != list(config.diff_ids):
                reason = f"docker would load layers that are not those of the config {entry.config}"
                raise IntegrityError(reason, where=DOCKER_FILE)

    def _diff_id(self, digest: Digest) -> DiffId:
        name = blob_name(digest)
        size = self.layout.sizes.get(name)
        if size is None:
            raise InputError(f"names {name}, which is not in the bundle", where=DOCKER_FILE)
        with self.layout.open(name) as stream:
            media_type = _MAGIC.get(stream.read(2), MEDIA_LAYER_TAR)
        return measure_layer(_Blobs(self.layout), Descriptor(media_type, digest, size)).diff_id


class _Blobs:
    """The blobs of a layout as a source; each has been hashed already."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def open(self, digest: Digest, /) -> IO[bytes]:
        return self._layout.open(blob_name(digest))


def _hashed(stream: IO[bytes], digest: Digest, *, where: str) -> Iterator[bytes]:
    found = hashlib.sha256()
    while block := stream.read(BLOCK_BYTES):
        found.update(block)
        yield block
    if f"sha256:{found.hexdigest()}" != digest:
        reason = f"expected the digest {digest}, found sha256:{found.hexdigest()}"
        raise IntegrityError(reason, where=where, hint=_COPY_AGAIN)


@dataclass(frozen=True)
class _Found:
    """The manifests of a bundle, by what they are about."""

    layout: Layout
    named: dict[str, Document] = field(default_factory=dict)
    tagged: dict[Digest, list[Tagged]] = field(default_factory=dict)
    referrers: dict[Digest, list[Document]] = field(default_factory=dict)

    def take(self, entry: Descriptor, *, where: str) -> None:
        """Read the manifest of one line of the index and put it where it belongs."""
        document = self._read(entry, where=where)
        manifest = document.manifest(where=where)
        if (about := subject_of_tag(entry)) is not None:
            self.tagged.setdefault(about, []).append(Tagged(entry.annotations[REF_NAME], document))
        elif manifest.subject is not None:
            self.referrers.setdefault(manifest.subject.digest, []).append(document)
        else:
            for annotations in (manifest.annotations, *(layer.annotations for layer in manifest.layers)):
                refuse_strange_manifest(annotations, where=where)
            name = entry.annotations.get(CONTAINERD_NAME) or entry.annotations.get(REF_NAME) or entry.digest
            if name in self.named:
                raise InputError(f"two images have the name {name[:200]!r}", where=where)
            self.named[name] = document

    def images(self) -> dict[str, Attached]:
        """Return the images with what is about them; what is about something else is refused."""
        subjects = {document.descriptor.digest for document in self.named.values()}
        for about in (*self.tagged, *self.referrers):
            if about not in subjects:
                raise InputError(f"something refers to {about}, which is no image of the bundle", where="index.json")
        return {name: self._attached(document) for name, document in self.named.items()}

    def _attached(self, document: Document) -> Attached:
        about = document.descriptor.digest
        tagged, referrers = self.tagged.get(about, []), self.referrers.get(about, [])
        if len({one.tag for one in tagged}) != len(tagged):
            raise InputError(f"two manifests have the tag {tagged[0].tag}", where="index.json")
        if len(referrers) > MAX_REFERRERS:
            reason = f"expected at most {MAX_REFERRERS} referrers of {about}, found {len(referrers)}"
            raise InputError(reason, where="index.json")
        found = Attached(document, tuple(tagged), tuple(referrers))
        found.blobs(where="index.json")
        return found

    def _read(self, entry: Descriptor, *, where: str) -> Document:
        if entry.media_type not in MANIFEST_TYPES:
            raise InputError(f"expected an image manifest, found {entry.media_type[:120]}", where=where)
        name = blob_name(entry.digest)
        data = read_small(self.layout, name, limit=LIMIT_BYTES)
        if (len(data), digest_of(data)) != (entry.size, entry.digest):
            expected = f"{entry.digest} ({entry.size} bytes)"
            raise IntegrityError(f"expected {expected}, found {digest_of(data)} ({len(data)} bytes)", where=name)
        document = Document(Descriptor(entry.media_type, entry.digest, entry.size), data)
        found = document.manifest(where=name).media_type
        if found != entry.media_type:
            raise InputError(f"listed as {entry.media_type}, but its mediaType is {found}", where=name)
        return document
