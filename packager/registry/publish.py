"""Publishes documents whose blobs are there already, in an order in which nobody ever sees a part of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.registry.referrers import announce

if TYPE_CHECKING:
    from packager.registry.attached import Attached, Tagged
    from packager.registry.client import Document, RegistryClient


@dataclass(frozen=True)
class Publish:
    """One image's documents on their way into one repository."""

    client: RegistryClient
    repository: str

    def run(self, found: Attached, *, tag: str | None) -> None:
        """Put the image by digest, then referrers and their list, then signatures, then the tag.

        A tag that names an index with this image in it stays.
        """
        image = found.image
        self.put(image.descriptor.digest, image)
        for document in found.referrers:
            self.put(document.descriptor.digest, document)
        if found.referrers:
            announce(self.client, self.repository, image.descriptor.digest, found.referrers)
        for tagged in found.tagged:
            self._put_tagged(tagged)
        if tag is not None and not self._is_named_by_index(tag, image):
            self.put(tag, image)

    def _is_named_by_index(self, tag: str, image: Document) -> bool:
        """Whether the tag is that of an index which has this image: to push it again must not hide the others."""
        if image.is_index:
            return False
        present = self.client.find_manifest(self.repository, tag)
        if present is None or not present.is_index:
            return False
        where = self.client.where(self.repository, f"tag {tag}")
        return image.descriptor.digest in {child.digest for child in present.index(where=where).manifests}

    def put(self, name: str, document: Document) -> None:
        """Put one document under a tag or its digest."""
        self.client.put_manifest(self.repository, name, document)

    def _put_tagged(self, tagged: Tagged) -> None:
        """Put a signature manifest under its tag, unless that would drop signatures that others left there."""
        where = self.client.where(self.repository, f"tag {tagged.tag}")
        document = tagged.document
        present = self.client.find_manifest(self.repository, tagged.tag)
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
        self.put(tagged.tag, document)
