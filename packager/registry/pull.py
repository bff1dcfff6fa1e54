"""Fetches an image and everything that hangs on it into the store; what is visible there has been verified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import InputError, WorldError
from packager.base.progress import Progress, silent
from packager.oci.record import ImageRecord, SignatureTag
from packager.registry.client import RegistryClient, signature_tag
from packager.registry.download import Download
from packager.registry.parallel import Meter, Tally, run_all
from packager.registry.referrers import fetch_referrer, list_referrers
from packager.seal.grants import GRANT_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.base.digests import Digest
    from packager.oci.descriptor import Descriptor
    from packager.oci.reference import Reference
    from packager.registry.client import Document
    from packager.store.store import Store

WORKERS = 4
MAX_ATTACHMENTS_BYTES = 1 << 30
"""Signatures, attestations and grants of one image together: a huge attachment must not fill the disk (GHSA-88jx)."""


def pull_image(
    reference: Reference,
    store: Store,
    *,
    progress: Progress = silent,
    workers: int = WORKERS,
) -> ImageRecord:
    """Pull an image with its signatures, referrers and grants, and return what the store now holds of it."""
    client = RegistryClient(reference.registry)
    try:
        with store.lease():
            return Pull(client, store, reference, progress, workers).run()
    finally:
        client.close()


@dataclass(frozen=True)
class _Found:
    """What a registry holds of one image: the manifests, checked, and the record that they make."""

    image: Document
    attached: list[Document] = field(default_factory=list)
    signatures: list[SignatureTag] = field(default_factory=list)
    referrers: list[Descriptor] = field(default_factory=list)
    grants: list[Descriptor] = field(default_factory=list)


@dataclass(frozen=True)
class Pull:
    """One pull from one repository."""

    client: RegistryClient
    store: Store
    reference: Reference
    progress: Progress = silent
    workers: int = WORKERS

    def run(self) -> ImageRecord:
        """Fetch manifests, then all blobs, and put the manifests into the store last; may be run again.

        The image itself is what the digest says, or the tag if there is no digest; whether its signatures are good is
        for `verify` to say.
        """
        name = self.reference.digest or self.reference.tag
        if name is None:
            hint = "add :tag, or @sha256:… which cannot change"
            raise InputError("expected a tag or a digest", where=str(self.reference), hint=hint)
        found = self._find(self.client.get_manifest(self.reference.repository, name))
        blobs = self._blobs(found)
        tally = Tally(self.progress, f"pull {self.reference.name}", total=sum(blob.size for blob in blobs))
        downloads = [Download(self.client, self.store, self.reference.repository, blob, Meter(tally)) for blob in blobs]
        run_all([download.run for download in downloads], tally, workers=self.workers)
        for document in (*found.attached, found.image):
            self.store.put(document.data)
        tally.finish(f"pulled {self.reference.name}@{found.image.descriptor.digest}")
        return ImageRecord(found.image.descriptor, tuple(found.signatures), tuple(found.referrers), tuple(found.grants))

    def _find(self, image: Document) -> _Found:
        where = self.client.where(self.reference.repository, f"manifest {image.descriptor.digest}")
        if image.is_index:
            children = ", ".join(f"{child.platform} is {child.digest}" for child in image.index(where=where).manifests)
            hint = f"name one of its images by digest: {children[:500]}"
            raise WorldError("expected the manifest of an image, found an index", where=where, hint=hint)
        subject = image.descriptor.digest
        found = _Found(image)
        tag = signature_tag(subject, ".sig")
        signature = self.client.find_manifest(self.reference.repository, tag)
        if signature is not None:
            signature.manifest(where=self.client.where(self.reference.repository, f"tag {tag}"))
            found.attached.append(signature)
            found.signatures.append(SignatureTag(tag, signature.descriptor))
        entries = list_referrers(self.client, self.reference.repository, subject)
        for entry in sorted(entries, key=lambda entry: entry.digest):
            self._add_referrer(found, entry)
        return found

    def _add_referrer(self, found: _Found, entry: Descriptor) -> None:
        repository = self.reference.repository
        document = fetch_referrer(self.client, repository, entry, found.image.descriptor.digest)
        if document is None:
            return
        manifest = document.manifest(where=self.client.where(repository, f"referrer {entry.digest}"))
        kind = manifest.artifact_type or manifest.config.media_type
        found.attached.append(document)
        (found.grants if kind == GRANT_TYPE else found.referrers).append(document.descriptor)

    def _blobs(self, found: _Found) -> list[Descriptor]:
        """Return the blobs of all manifests, each once, the largest first."""
        size = sum(blob.size for blob in self._unique(found.attached).values())
        if size > MAX_ATTACHMENTS_BYTES:
            where = self.client.where(self.reference.repository, f"what refers to {found.image.descriptor.digest}")
            raise InputError(f"expected at most {MAX_ATTACHMENTS_BYTES} bytes, found {size}", where=where)
        blobs = self._unique([found.image, *found.attached])
        return sorted(blobs.values(), key=lambda blob: (-blob.size, blob.digest))

    def _unique(self, documents: Iterable[Document]) -> dict[Digest, Descriptor]:
        found: dict[Digest, Descriptor] = {}
        for document in documents:
            where = self.client.where(self.reference.repository, f"manifest {document.descriptor.digest}")
            manifest = document.manifest(where=where)
            for blob in (manifest.config, *manifest.layers):
                known = found.setdefault(blob.digest, blob)
                if known.size != blob.size:
                    raise InputError(f"{blob.digest} has two sizes: {known.size} and {blob.size}", where=where)
        return found
