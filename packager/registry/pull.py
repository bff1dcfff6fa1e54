"""Fetches an image and everything that hangs on it into the store; what is visible there has been verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError, IntegrityError
from packager.base.progress import Progress, silent
from packager.registry.attached import find_attached
from packager.registry.client import Document, RegistryClient
from packager.registry.download import Download
from packager.registry.parallel import Meter, Tally, run_all
from packager.registry.platforms import choose_child, expect_platform
from packager.sandbox.foreign import own_platform

if TYPE_CHECKING:
    from packager.oci.record import ImageRecord
    from packager.oci.reference import Reference
    from packager.store.store import Store

WORKERS = 4


def pull_image(
    reference: Reference,
    store: Store,
    *,
    progress: Progress = silent,
    insecure: bool | None = None,
    platform: str | None = None,
) -> ImageRecord:
    """Pull an image with its signatures, referrers and grants, and return what the store now holds of it.

    Of an index, the image for `platform` is taken (default: this machine's).
    """
    client = RegistryClient(reference.registry, insecure=insecure)
    try:
        with store.lease():
            return Pull(client, store, reference, progress, platform=platform or own_platform()).run()
    finally:
        client.close()


@dataclass(frozen=True)
class Pull:
    """One pull from one repository."""

    client: RegistryClient
    store: Store
    reference: Reference
    progress: Progress = silent
    workers: int = WORKERS
    platform: str = ""

    def run(self) -> ImageRecord:
        """Fetch manifests, then all blobs, and put the manifests into the store last; may be run again.

        The image itself is what the digest says, or the tag if there is no digest; whether its signatures are good is
        for `verify` to say.
        """
        repository = self.reference.repository
        named = named_document(self.client, self.reference)
        place = f"{self.client.host}/{repository}"
        image = self._child(named) if named.is_index else named
        found = find_attached(self.client, repository, image)
        blobs = found.blobs(where=place)
        tally = Tally(self.progress, f"pull {self.reference.name}", total=sum(blob.size for blob in blobs))
        downloads = [Download(self.client, self.store, repository, blob, Meter(tally)) for blob in blobs]
        run_all([download.run for download in downloads], tally, workers=self.workers)
        for document in (*found.documents()[1:], image):
            self.store.put(document.data)
        if named.is_index:
            expect_platform(self.store, image.descriptor.digest, self.platform or own_platform(), where=place)
        tally.finish(f"pulled {self.reference.name}@{image.descriptor.digest}")
        return found.record(where=place)

    def _child(self, named: Document) -> Document:
        """Return the image for our platform; the index is only believed in that, and only until its config is here."""
        repository = self.reference.repository
        where = self.client.where(repository, f"index {named.descriptor.digest}")
        entry = choose_child(named, self.platform or own_platform(), where=where)
        child = self.client.get_manifest(repository, entry.digest)
        if child.is_index or child.descriptor.size != entry.size:
            found = f"{child.descriptor.size} bytes of {child.descriptor.media_type}"
            raise IntegrityError(f"expected {entry.size} bytes of an image's manifest, found {found}", where=where)
        return child


def named_document(client: RegistryClient, reference: Reference) -> Document:
    """Return the manifest or index that a reference names by digest, or by tag if there is no digest."""
    name = reference.digest or reference.tag
    if name is None:
        hint = "add :tag, or @sha256:… which cannot change"
        raise InputError("expected a tag or a digest", where=str(reference), hint=hint)
    return client.get_manifest(reference.repository, name)
