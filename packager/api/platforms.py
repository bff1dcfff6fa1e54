"""The verb that gives images of several platforms one name: index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.api.place import RELEASE_KEY, Place
from packager.api.ship import bare_home
from packager.base.errors import InputError
from packager.base.files import full_disk_trouble
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Joined:
    """Images of several platforms under one name: the index's digest, and those of the images by platform."""

    reference: str
    manifest: str
    platforms: Mapping[str, str]


@full_disk_trouble("index")
def join_platforms(place: Place, reference: str, images: Sequence[str], *, progress: Progress = silent) -> Joined:
    """Sign an index of images that were pushed (by digest, or by references in the same repository), and tag it."""
    from packager.base.digests import parse_digest
    from packager.oci.reference import parse_reference
    from packager.registry.client import RegistryClient
    from packager.registry.joining import Joining

    parsed = parse_reference(bare_home(reference))
    if parsed.tag is None or parsed.digest is not None:
        raise InputError("expected a tag for the index", where=reference, hint="REGISTRY/NAMESPACE/TASK:VERSION")
    digests = [parse_digest(image.rpartition("@")[2], where=image) for image in images]
    key, store = place.private_key(RELEASE_KEY), place.store()
    client = RegistryClient(parsed.registry, insecure=place.plain(parsed.registry))
    try:
        with store.lease():
            index, children = Joining(client, store, parsed, key, progress).run(digests)
    finally:
        client.close()
    return Joined(reference, index.digest, {one.platform: one.image.digest for one in children})
