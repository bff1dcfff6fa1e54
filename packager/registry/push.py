"""Sends an image and everything that hangs on it; its tag comes last, so that nobody sees a part of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import InputError, IntegrityError
from packager.base.progress import Progress, silent
from packager.registry.attached import read_attached
from packager.registry.client import RegistryClient
from packager.registry.parallel import Meter, Tally, run_all
from packager.registry.publish import Publish
from packager.registry.upload import CHUNK_BYTES, Upload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.base.digests import Digest
    from packager.oci.descriptor import Descriptor
    from packager.oci.record import ImageRecord
    from packager.oci.reference import Reference
    from packager.store.store import Store

WORKERS = 4


@dataclass(frozen=True)
class Manner:
    """How images are sent: threads, size of pieces, plain http, and where on the same registry blobs may lie already.

    `mounts` names, for a blob, a repository that it may be mounted from; if it is not there, it is sent.
    """

    workers: int = WORKERS
    chunk_bytes: int = CHUNK_BYTES
    insecure: bool | None = None
    mounts: Mapping[Digest, str] = field(default_factory=dict)


def push_image(
    store: Store,
    record: ImageRecord,
    reference: Reference,
    *,
    progress: Progress = silent,
    manner: Manner | None = None,
) -> Digest:
    """Push an image with its signatures, referrers and grants, tag it as `reference` says, and return its digest."""
    chosen = manner or Manner()
    client = RegistryClient(reference.registry, insecure=chosen.insecure)
    try:
        with store.lease():
            return Push(client, store, reference, progress, chosen).run(record)
    finally:
        client.close()


@dataclass(frozen=True)
class Push:
    """One push into one repository."""

    client: RegistryClient
    store: Store
    reference: Reference
    progress: Progress = silent
    manner: Manner = field(default_factory=Manner)

    def run(self, record: ImageRecord) -> Digest:
        """Send blobs, then manifests by digest, then the lists and tags that point to them; may be run again.

        1 blobs of all manifests · 2 the image's manifest · 3 referrers and grants · 4 their list · 5 signatures ·
        6 the tag
        """
        wanted = self.reference.digest
        if wanted is not None and wanted != record.manifest.digest:
            raise InputError(f"expected the image {wanted}, found {record.manifest.digest}", where=str(self.reference))
        found = read_attached(self.store, record)
        blobs = found.blobs(where=str(self.reference))
        tally = Tally(self.progress, f"push {self.reference.name}", total=sum(blob.size for blob in blobs))
        self._send(blobs, tally)
        Publish(self.client, self.reference.repository).run(found, tag=self.reference.tag)
        tally.finish(f"pushed {self.reference.name}@{record.manifest.digest}")
        return record.manifest.digest

    def _send(self, blobs: Sequence[Descriptor], tally: Tally) -> None:
        uploads = [
            Upload(
                self.client,
                self.reference.repository,
                blob,
                self.store.path(blob.digest),
                Meter(tally),
                self.manner.mounts.get(blob.digest),
                self.manner.chunk_bytes,
            )
            for blob in blobs
        ]
        try:
            run_all([upload.run for upload in uploads], tally, workers=self.manner.workers)
        except IntegrityError:
            for blob in blobs:
                self.store.verify(blob.digest)  # if it is ours that is broken, it is set aside, and said so
            raise
