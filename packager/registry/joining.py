"""Gives images of several platforms one name: an index of what was pushed, signed in both forms as each of them is.

The index vouches for nothing: whoever pulls takes one image of it, which is signed by itself and says its own platform.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base.errors import InputError, TrustError
from packager.base.progress import Progress, silent
from packager.oci.descriptor import describe
from packager.oci.manifest import MEDIA_INDEX, Index, format_index
from packager.oci.reference import parse_reference
from packager.registry.attached import Attached, Tagged, find_attached, read_document, unique_blobs
from packager.registry.client import Document
from packager.registry.download import Download
from packager.registry.parallel import Meter, Tally, run_all
from packager.registry.platforms import platform_of
from packager.registry.publish import Publish
from packager.registry.upload import Upload
from packager.trust.signature_checks import Claim, published_name, verify_bundle, verify_legacy
from packager.trust.signatures import sign_image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.digests import Digest
    from packager.oci.descriptor import Descriptor
    from packager.oci.record import ImageRecord
    from packager.oci.reference import Reference
    from packager.registry.client import RegistryClient
    from packager.store.store import Store
    from packager.trust.keys import PrivateKey

_WORKERS = 4


@dataclass(frozen=True)
class Child:
    """One image that an index is to name: what its signatures call it, and its platform."""

    image: Descriptor
    name: str
    platform: str


@dataclass(frozen=True)
class Joining:
    """Images in one repository that are to have one name; only manifests, configs and signatures are fetched."""

    client: RegistryClient
    store: Store
    reference: Reference
    key: PrivateKey
    progress: Progress = silent

    def run(self, digests: Sequence[Digest]) -> tuple[Descriptor, tuple[Child, ...]]:
        """Make the index of images that were pushed, sign it in both forms as they are signed, and give it the tag.

        Refused are images that this key has not signed in both forms under exactly the reference's name and tag, and
        two of one platform.
        """
        children = sorted((self._child(digest) for digest in dict.fromkeys(digests)), key=lambda one: one.platform)
        self._refuse_mixture(children)
        name = children[0].name
        data = format_index(Index(tuple(replace(one.image, platform=one.platform) for one in children)))
        self.store.put(data)
        described = describe(MEDIA_INDEX, data)
        signatures = sign_image(described, name, self.key, self.store)
        tagged = Tagged(signatures.legacy.tag, read_document(self.store, signatures.legacy.manifest))
        bundle = read_document(self.store, replace(signatures.bundle, annotations={}, artifact_type=None))
        found = Attached(Document(described, data), (tagged,), (bundle,))
        self._send(found)
        Publish(self.client, self.reference.repository).run(found, tag=self.reference.tag)
        return described, tuple(children)

    def _child(self, digest: Digest) -> Child:
        where = self.client.where(self.reference.repository, f"manifest {digest}")
        document = self.client.get_manifest(self.reference.repository, digest)
        if document.is_index:
            raise InputError("expected the manifest of an image, found an index", where=where)
        found = find_attached(self.client, self.reference.repository, document)
        config = document.manifest(where=where).config
        self._fetch([config, *unique_blobs(found.documents()[1:], where=where).values()])
        for one in found.documents():
            self.store.put(one.data)
        record = found.record(where=where)
        name = self._refuse_unsigned(record, where)
        return Child(document.descriptor, name, platform_of(self.store, config.digest, where=where))

    def _refuse_unsigned(self, record: ImageRecord, where: str) -> str:
        """Return the name that an image is signed under, in both forms and by our key."""
        claim = Claim(record.manifest, [self.key.public])
        for form, check in (("legacy signature", verify_legacy), ("bundle signature", verify_bundle)):
            answer = check(record, claim, self.store)
            if not answer.ok:
                hint = "sign it with the release key and push it again"
                raise TrustError(f"{form}: {answer.reason}", where=where, hint=hint)
        return published_name(record, claim.keys, self.store)

    def _refuse_mixture(self, children: Sequence[Child]) -> None:
        where = str(self.reference)
        if not children:
            raise InputError("expected images to put into the index, found none", where=where)
        task = self.reference.repository.rpartition("/")[2]
        for one in children:
            signed = parse_reference(one.name, where=where)
            if (signed.repository.rpartition("/")[2], signed.tag, one.name) != (
                task,
                self.reference.tag,
                children[0].name,
            ):
                reason = f"expected images that are all signed as {task}:{self.reference.tag}, found {one.name}"
                hint = f"its digest is {one.image.digest}"
                raise InputError(reason, where=where, hint=hint)
        platforms = [one.platform for one in children]
        twice = next((name for name in platforms if platforms.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"expected one image for each platform, found two for {twice}", where=where)

    def _fetch(self, blobs: Sequence[Descriptor]) -> None:
        tally = Tally(self.progress, f"index {self.reference.name}", total=sum(blob.size for blob in blobs))
        repository = self.reference.repository
        jobs = [Download(self.client, self.store, repository, blob, Meter(tally)).run for blob in blobs]
        run_all(jobs, tally, workers=_WORKERS)

    def _send(self, found: Attached) -> None:
        blobs = found.blobs(where=str(self.reference))
        tally = Tally(self.progress, f"index {self.reference.name}", total=sum(blob.size for blob in blobs))
        repository = self.reference.repository
        jobs = [Upload(self.client, repository, blob, self.store.path(blob.digest), Meter(tally)).run for blob in blobs]
        run_all(jobs, tally, workers=_WORKERS)
        tally.finish(f"signed {self.reference.name}@{found.image.descriptor.digest}")
