"""Sends an image and everything that hangs on it; its tag comes last, so that nobody sees a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.base.progress import Progress, silent
from packager.oci.manifest import MEDIA_INDEX
from packager.registry.client import Document, RegistryClient
from packager.registry.parallel import Meter, Tally, run_all
from packager.registry.referrers import announce
from packager.registry.upload import CHUNK_BYTES, Upload

if TYPE_CHECKING:
    from packager.base.digests import Digest
    from packager.oci.descriptor import Descriptor
    from packager.oci.record import ImageRecord, SignatureTag
    from packager.oci.reference import Reference
    from packager.store.store import Store

WORKERS = 4


def push_image(
    store: Store,
    record: ImageRecord,
    reference: Reference,
    *,
    progress: Progress = silent,
    workers: int = WORKERS,
) -> Digest:
    """Push an image with its signatures, referrers and grants, tag it as `reference` says, and return its digest."""
    client = RegistryClient(reference.registry)
    try:
        with store.lease():
            return Push(client, store, reference, progress, workers).run(record)
    finally:
        client.close()


@dataclass(frozen=True)
class Push:
    """One push into one repository; `mount_from` names a repository of the same registry that may hold the blobs."""

    client: RegistryClient
    store: Store
    reference: Reference
    progress: Progress = silent
    workers: int = WORKERS
    mount_from: str | None = None
    chunk_bytes: int = CHUNK_BYTES

    def run(self, record: ImageRecord) -> Digest:
        """Send blobs, then manifests by digest, then the lists and tags that point to them; may be run again.

        1 blobs of all manifests · 2 the image's manifest · 3 referrers and grants · 4 their list · 5 signatures ·
        6 the tag
        """
        wanted = self.reference.digest
        if wanted is not None and wanted != record.manifest.digest:
            raise InputError(f"expected the image {wanted}, found {record.manifest.digest}", where=str(self.reference))
        documents = {descriptor.digest: self._read(descriptor) for descriptor in record.manifests()}
        self._check_subjects(record, documents)
        tally = self._send_blobs(documents)
        image = documents[record.manifest.digest]
        self._put(image.descriptor.digest, image)
        referrers = [documents[entry.digest] for entry in (*record.referrers, *record.grants)]
        for document in referrers:
            self._put(document.descriptor.digest, document)
        if referrers:
            announce(self.client, self.reference.repository, image.descriptor.digest, referrers)
        for signature in record.signatures:
            self._put_signature(signature, documents[signature.manifest.digest])
        if self.reference.tag is not None:
            self._put(self.reference.tag, image)
        tally.finish(f"pushed {self.reference.name}@{image.descriptor.digest}")
        return image.descriptor.digest

    def _read(self, descriptor: Descriptor) -> Document:
        if descriptor.media_type == MEDIA_INDEX:
            raise InputError("expected a manifest, found an index", where=descriptor.digest)
        data = self.store.read(descriptor.digest, LIMIT_BYTES)
        if len(data) != descriptor.size:
            reason = f"expected {descriptor.size} bytes, found {len(data)}"
            raise IntegrityError(reason, where=f"manifest {descriptor.digest}")
        document = Document(descriptor, data)
        document.manifest(where=f"manifest {descriptor.digest}")
        return document

    def _check_subjects(self, record: ImageRecord, documents: dict[Digest, Document]) -> None:
        for entry in (*record.referrers, *record.grants):
            place = f"referrer {entry.digest}"
            subject = documents[entry.digest].manifest(where=place).subject
            if subject is None or subject.digest != record.manifest.digest:
                named = subject.digest if subject else "nothing"
                reason = f"expected it to refer to {record.manifest.digest}, found that it refers to {named}"
                raise InputError(reason, where=place)

    def _send_blobs(self, documents: dict[Digest, Document]) -> Tally:
        blobs: dict[Digest, Descriptor] = {}
        for digest, document in documents.items():
            manifest = document.manifest(where=f"manifest {digest}")
            blobs |= {blob.digest: blob for blob in (manifest.config, *manifest.layers)}
        ordered = sorted(blobs.values(), key=lambda blob: (-blob.size, blob.digest))
        tally = Tally(self.progress, f"push {self.reference.name}", total=sum(blob.size for blob in ordered))
        uploads = [
            Upload(
                self.client,
                self.reference.repository,
                blob,
                self.store.path(blob.digest),
                Meter(tally),
                self.mount_from,
                self.chunk_bytes,
            )
            for blob in ordered
        ]
        try:
            run_all([upload.run for upload in uploads], tally, workers=self.workers)
        except IntegrityError:
            for blob in ordered:
                self.store.verify(blob.digest)  # if it is ours that is broken, it is set aside, and said so
            raise
        return tally

    def _put(self, name: str, document: Document) -> None:
        self.client.put_manifest(self.reference.repository, name, document)

    def _put_signature(self, signature: SignatureTag, document: Document) -> None:
        """Put a signature manifest under its tag, unless that would drop signatures that others left there."""
        repository = self.reference.repository
        where = self.client.where(repository, f"tag {signature.tag}")
        present = self.client.find_manifest(repository, signature.tag)
        if present is not None and present.descriptor.digest != document.descriptor.digest:
            theirs, ours = (
                {
                    (layer.digest, tuple(sorted(layer.annotations.items())))
                    for layer in found.manifest(where=where).layers
                }
                for found in (present, document)
            )
            if ours <= theirs:
                return
            if not theirs <= ours:
                hint = "pull the image with its signatures and sign it again, or remove the tag from the registry"
                raise WorldError("holds signatures that are not in the store", where=where, hint=hint)
        self._put(signature.tag, document)
