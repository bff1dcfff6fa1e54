"""Copies images and all that hangs on them from registry to registry; what is there already is not moved again."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.digests import hex_of
from packager.base.errors import InputError, WorldError
from packager.base.progress import Progress, silent
from packager.registry.attached import Attached, find_attached
from packager.registry.download import Download
from packager.registry.parallel import Meter, Tally, run_all
from packager.registry.partial import Partial
from packager.registry.publish import Publish
from packager.registry.pull import named_document
from packager.registry.push import Manner
from packager.registry.upload import Upload

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.oci.descriptor import Descriptor
    from packager.oci.reference import Reference
    from packager.registry.client import Document, RegistryClient
    from packager.store.store import Store

_MAX_CHILDREN = 64


@dataclass(frozen=True)
class Mirrored:
    """What one image took: its digest there, how many blobs it has, how many of them and how many bytes moved."""

    manifest: Digest
    blobs: int
    moved: int
    moved_bytes: int


@dataclass(frozen=True)
class Mirror:
    """Copies between two registries; blobs pass through the store's `tmp/`, verified, so that a lost one is continued.

    `held` remembers in which repository of the destination a blob lies, so that the next image mounts it from there.
    """

    source: RegistryClient
    target: RegistryClient
    store: Store
    progress: Progress = silent
    manner: Manner = field(default_factory=Manner)
    held: dict[Digest, str] = field(default_factory=dict)

    def run(self, source: Reference, target: Reference) -> Mirrored:
        """Copy one image, or an index with its images, with all that refers to them; the tag comes last.

        A destination without a tag takes the source's. Nothing is decompressed: `verify` judges what arrived.
        """
        if target.digest is not None:
            hint = "the digest there is that of the source"
            raise InputError("expected no digest in the destination", where=str(target), hint=hint)
        document = named_document(self.source, source)
        tag = target.tag or source.tag
        family = [self._find(source, child) for child in self._children(source, document)]
        top = self._find(source, document)
        place = f"{self.source.host}/{source.repository}"
        blobs = {blob.digest: blob for found in (*family, top) for blob in found.blobs(where=place)}
        moved = self._move(list(blobs.values()), source, target)
        publish = Publish(self.target, target.repository)
        for found in family:
            publish.run(found, tag=None)
        publish.run(top, tag=tag)
        self.held.update(dict.fromkeys(blobs, target.repository))
        return Mirrored(document.descriptor.digest, len(blobs), len(moved), sum(blobs[digest].size for digest in moved))

    def _find(self, source: Reference, document: Document) -> Attached:
        return find_attached(self.source, source.repository, document)

    def _children(self, source: Reference, document: Document) -> list[Document]:
        """Return the manifests of an index; an index in an index is refused, so that the way down has an end."""
        if not document.is_index:
            return []
        where = self.source.where(source.repository, f"manifest {document.descriptor.digest}")
        entries = document.index(where=where).manifests
        if len(entries) > _MAX_CHILDREN:
            raise InputError(f"expected at most {_MAX_CHILDREN} images, found {len(entries)}", where=where)
        children = [self.source.get_manifest(source.repository, entry.digest) for entry in entries]
        if any(child.is_index for child in children):
            raise InputError("expected an index of images, found an index of indexes", where=where)
        return children

    def _move(self, blobs: list[Descriptor], source: Reference, target: Reference) -> set[Digest]:
        tally = Tally(self.progress, f"mirror {target.name}", total=2 * sum(blob.size for blob in blobs))
        moves = [_Move(self, blob, source.repository, target.repository, tally) for blob in blobs]
        moves.sort(key=lambda move: (-move.blob.size, move.blob.digest))
        run_all([move.run for move in moves], tally, workers=self.manner.workers)
        tally.finish(f"mirrored {target.name}")
        return {move.blob.digest for move in moves if move.moved.is_set()}


@dataclass(frozen=True)
class _Move:
    """One blob on its way."""

    mirror: Mirror
    blob: Descriptor
    source: str
    target: str
    tally: Tally
    moved: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Make sure that the destination holds the blob: there already, mounted, from the store, or from the source.

        Its bytes count twice, once for each way.
        """
        store, size = self.mirror.store, self.blob.size
        upload = self._upload(store.root)
        if upload.is_there() or self._is_mounted(upload):
            Meter(self.tally).reach(2 * size)
        elif store.has(self.blob.digest, size):
            store.verify(self.blob.digest)
            Meter(self.tally).reach(size)
            self._upload(store.path(self.blob.digest)).run()
            self.moved.set()
        else:
            self._pass_on()

    def _pass_on(self) -> None:
        """Fetch the blob beside the store and send it from there."""
        mirror = self.mirror
        with mirror.store.lock(f"pull-{hex_of(self.blob.digest)}"), Partial(mirror.store, self.blob) as partial:
            Download(mirror.source, mirror.store, self.source, self.blob, Meter(self.tally)).complete(partial)
            self._upload(partial.path).run()
            partial.drop()
        self.moved.set()

    def _upload(self, path: Path) -> Upload:
        chunk = self.mirror.manner.chunk_bytes
        mount_from = self.mirror.held.get(self.blob.digest)
        return Upload(self.mirror.target, self.target, self.blob, path, Meter(self.tally), mount_from, chunk)

    def _is_mounted(self, upload: Upload) -> bool:
        """Try to mount; any refusal means that the blob has to be sent."""
        if upload.mount_from in (None, self.target):
            return False
        try:
            return upload.start() is None
        except WorldError:
            return False
