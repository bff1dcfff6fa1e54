"""Base images by digest: pulled when a task is locked or its inputs are fetched, never when it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.progress import Progress, silent
from packager.build.image import image_blobs
from packager.oci.reference import parse_reference
from packager.registry.client import RegistryClient
from packager.registry.download import Download
from packager.registry.parallel import Meter, Tally, run_all
from packager.registry.platforms import choose_child, expect_platform

if TYPE_CHECKING:
    from packager.base.digests import Digest
    from packager.lock.model import Lock
    from packager.oci.reference import Reference
    from packager.registry.client import Document
    from packager.store.store import Store

_WORKERS = 4


def pull_base(image: str, store: Store, *, platform: str, progress: Progress = silent) -> Digest:
    """Bring an image into the store and return its manifest's digest; of an index, the platform's own image.

    Signatures and what else refers to it are left where they are: the recipe's digest is what vouches for a base.
    """
    reference = parse_reference(image, where="base.image")
    client = RegistryClient(reference.registry)
    try:
        document = client.get_manifest(reference.repository, str(reference.digest))
        if document.is_index:
            document = client.get_manifest(reference.repository, choose_child(document, platform, where=image).digest)
        _download(client, reference, document, store, progress)
    finally:
        client.close()
    expect_platform(store, document.descriptor.digest, platform, where=image)
    return document.descriptor.digest


def fetch_base(image: str | None, lock: Lock, store: Store, *, progress: Progress = silent) -> dict[Digest, int]:
    """Return digests and sizes of all blobs of the locked base image, if there is one; the store holds them then."""
    digest = lock.base.manifest
    if image is None or digest is None:
        return {}
    blobs = image_blobs(store, digest) if store.has(digest) else ()
    if not blobs or not all(store.has(blob.digest) for blob in blobs):
        pull_base(f"{image.partition('@')[0]}@{digest}", store, platform=lock.platform, progress=progress)
    size = store.path(digest).stat().st_size
    return {digest: size} | {blob.digest: blob.size for blob in image_blobs(store, digest)}


def _download(
    client: RegistryClient, reference: Reference, document: Document, store: Store, progress: Progress
) -> None:
    manifest = document.manifest(where=str(reference))
    blobs = {blob.digest: blob for blob in (manifest.config, *manifest.layers)}
    tally = Tally(progress, "base image", total=sum(blob.size for blob in blobs.values()))
    jobs = [Download(client, store, reference.repository, blob, Meter(tally)).run for blob in blobs.values()]
    run_all(jobs, tally, workers=_WORKERS)
    store.put(document.data)
    tally.finish(f"pulled {reference}")
