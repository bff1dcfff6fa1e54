"""An image and everything that hangs on it, as documents: read from a registry, or from a record in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import InputError, IntegrityError
from packager.oci.manifest import INDEX_TYPES
from packager.oci.record import ImageRecord, SignatureTag
from packager.registry.client import Document, signature_tag
from packager.registry.referrers import fetch_referrer, list_referrers, referrer_entry
from packager.seal.grants import GRANT_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.base.digests import Digest
    from packager.oci.descriptor import Descriptor
    from packager.registry.client import RegistryClient
    from packager.store.store import Store

MAX_ATTACHMENTS_BYTES = 1 << 30
"""Signatures, attestations and grants of one image together: a huge attachment must not fill the disk (GHSA-88jx)."""

TAG_SUFFIXES = (".sig", ".att")
"""Where cosign up to 2 keeps signatures and attestations, beside the digest that they are about."""


@dataclass(frozen=True)
class Tagged:
    """A manifest that is found by its tag (`sha256-….sig`)."""

    tag: str
    document: Document


@dataclass(frozen=True)
class Attached:
    """An image (or an index), the manifests under tags about it, and what refers to it (grants, too)."""

    image: Document
    tagged: tuple[Tagged, ...] = ()
    referrers: tuple[Document, ...] = ()

    def documents(self) -> tuple[Document, ...]:
        """Return all documents, the image first."""
        return (self.image, *(tagged.document for tagged in self.tagged), *self.referrers)

    def blobs(self, *, where: str) -> list[Descriptor]:
        """Return the blobs of all manifests, each once, the largest first; attachments are bounded in size."""
        attached = unique_blobs(self.documents()[1:], where=where)
        size = sum(blob.size for blob in attached.values())
        if size > MAX_ATTACHMENTS_BYTES:
            about = f"what refers to {self.image.descriptor.digest}"
            raise InputError(f"expected at most {MAX_ATTACHMENTS_BYTES} bytes, found {size}", where=f"{where}: {about}")
        blobs = unique_blobs(self.documents(), where=where)
        return sorted(blobs.values(), key=lambda blob: (-blob.size, blob.digest))

    def record(self, *, where: str) -> ImageRecord:
        """Return what a store remembers of all this."""
        referrers: list[Descriptor] = []
        grants: list[Descriptor] = []
        for document in self.referrers:
            entry = referrer_entry(document, where=where)
            (grants if entry.artifact_type == GRANT_TYPE else referrers).append(entry)
        tagged = tuple(SignatureTag(tagged.tag, tagged.document.descriptor) for tagged in self.tagged)
        return ImageRecord(self.image.descriptor, tagged, tuple(referrers), tuple(grants))


def unique_blobs(documents: Iterable[Document], *, where: str) -> dict[Digest, Descriptor]:
    """Return the blobs that manifests name, each once; one with two sizes is an InputError."""
    found: dict[Digest, Descriptor] = {}
    for document in documents:
        if document.is_index:
            continue
        place = f"{where}: manifest {document.descriptor.digest}"
        manifest = document.manifest(where=place)
        for blob in (manifest.config, *manifest.layers):
            known = found.setdefault(blob.digest, blob)
            if known.size != blob.size:
                raise InputError(f"{blob.digest} has two sizes: {known.size} and {blob.size}", where=place)
    return found


def find_attached(client: RegistryClient, repository: str, image: Document) -> Attached:
    """Return what a registry holds of an image: every list is bounded, every manifest is what its digest says."""
    subject = image.descriptor.digest
    tagged: list[Tagged] = []
    for suffix in TAG_SUFFIXES:
        tag = signature_tag(subject, suffix)
        document = client.find_manifest(repository, tag)
        if document is not None:
            document.manifest(where=client.where(repository, f"tag {tag}"))
            tagged.append(Tagged(tag, document))
    entries = sorted(list_referrers(client, repository, subject), key=lambda entry: entry.digest)
    fetched = (fetch_referrer(client, repository, entry, subject) for entry in entries)
    return Attached(image, tuple(tagged), tuple(document for document in fetched if document is not None))


def read_attached(store: Store, record: ImageRecord) -> Attached:
    """Return what the store holds of an image; a referrer of something else is an InputError."""
    subject = record.manifest.digest
    referrers = [read_document(store, entry) for entry in (*record.referrers, *record.grants)]
    for document in referrers:
        place = f"referrer {document.descriptor.digest}"
        found = document.manifest(where=place).subject
        if found is None or found.digest != subject:
            named = found.digest if found else "nothing"
            raise InputError(f"expected it to refer to {subject}, found that it refers to {named}", where=place)
    tagged = [Tagged(signature.tag, read_document(store, signature.manifest)) for signature in record.signatures]
    return Attached(read_document(store, record.manifest), tuple(tagged), tuple(referrers))


def read_document(store: Store, descriptor: Descriptor) -> Document:
    """Return a manifest from the store; an index is an InputError."""
    if descriptor.media_type in INDEX_TYPES:
        raise InputError("expected a manifest, found an index", where=descriptor.digest)
    data = store.read(descriptor.digest, LIMIT_BYTES)
    if len(data) != descriptor.size:
        reason = f"expected {descriptor.size} bytes, found {len(data)}"
        raise IntegrityError(reason, where=f"manifest {descriptor.digest}")
    document = Document(descriptor, data)
    document.manifest(where=f"manifest {descriptor.digest}")
    return document
