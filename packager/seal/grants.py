"""Grants as artifacts: a manifest that points at the image, with one layer that is an age file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import InputError, IntegrityError, TrustError, WorldError
from packager.oci.descriptor import Descriptor, describe
from packager.oci.manifest import (
    EMPTY_BYTES,
    EMPTY_DESCRIPTOR,
    MEDIA_MANIFEST,
    Manifest,
    format_manifest,
    parse_manifest,
)
from packager.seal.age_reader import opens
from packager.seal.identities import GRANT_LIMIT_BYTES, open_grant
from packager.seal.keys import Identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.store.store import Store

GRANT_TYPE = "application/vnd.wideswe.key-grant.v1"
GRANT_LAYER_TYPE = "application/vnd.wideswe.key-grant.v1+age"
MAX_GRANTS = 256
"""In one artifact."""
MAX_TRIED = 2048
"""Keys of grants that are held against a seal: whoever may push must not keep an evaluator busy for hours."""
_MANIFEST_LIMIT_BYTES = 1 << 20


def put_grant(store: Store, subject: Descriptor, grant: bytes) -> Descriptor:
    """Store a grant as an artifact that refers to an image's manifest; return the artifact's descriptor."""
    layer = Descriptor(GRANT_LAYER_TYPE, store.put(grant), len(grant))
    store.put(EMPTY_BYTES)
    manifest = format_manifest(Manifest(EMPTY_DESCRIPTOR, (layer,), artifact_type=GRANT_TYPE, subject=subject))
    store.put(manifest)
    return describe(MEDIA_MANIFEST, manifest)


def add_grants(
    store: Store, subject: Descriptor, known: Iterable[Descriptor], grants: Iterable[bytes]
) -> list[Descriptor]:
    """Return an image's grant artifacts with more grants: all that can be read go into one artifact, each once.

    Stock readers of referrers see the first page only, so there should be few. Those that cannot be read stay as
    they are: they may be others'.
    """
    layers: dict[str, Descriptor] = {}
    kept: list[Descriptor] = []
    for descriptor in known:
        found = _read_layers(store, descriptor)
        if not found:
            kept.append(descriptor)
        layers |= {layer.digest: layer for layer in found}
    for grant in grants:
        layer = Descriptor(GRANT_LAYER_TYPE, store.put(grant), len(grant))
        layers[layer.digest] = layer
    store.put(EMPTY_BYTES)
    every = [layers[digest] for digest in sorted(layers)]
    for start in range(0, len(every), MAX_GRANTS):
        part = tuple(every[start : start + MAX_GRANTS])
        manifest = format_manifest(Manifest(EMPTY_DESCRIPTOR, part, artifact_type=GRANT_TYPE, subject=subject))
        store.put(manifest)
        kept.append(describe(MEDIA_MANIFEST, manifest))
    return kept


def count_grants(store: Store, grants: Iterable[Descriptor]) -> int:
    """Return how many grants an image's grant artifacts hold; one that cannot be read counts as one."""
    return sum(len(_read_layers(store, descriptor)) or 1 for descriptor in grants)


def _read_layers(store: Store, descriptor: Descriptor) -> tuple[Descriptor, ...]:
    try:
        manifest = parse_manifest(store.read(descriptor.digest, _MANIFEST_LIMIT_BYTES))
    except (InputError, IntegrityError, WorldError):
        return ()
    ours = manifest.artifact_type == GRANT_TYPE
    return tuple(layer for layer in manifest.layers if ours and layer.media_type == GRANT_LAYER_TYPE)


def open_grants(store: Store, grants: Iterable[Descriptor], evaluators: str, sealed: bytes) -> Identity:
    """Return the first task identity, of all grants that the evaluator's keys open, that opens the sealed file.

    TrustError if none does. Anyone who may push can attach a grant: one that is damaged, gone, or of a useless key
    stops no good one, and too many keys to try are refused by name.
    """
    found = _Opened(evaluators, sealed)
    layers: list[Descriptor] = []
    for descriptor in grants:
        try:
            data = store.read(descriptor.digest, _MANIFEST_LIMIT_BYTES)
            layers += parse_manifest(data, where=f"grant {descriptor.digest}").layers
        except (InputError, IntegrityError, WorldError) as error:
            found.damaged.append(error.complaint)
    for layer in sorted(layers, key=lambda layer: (layer.size, layer.digest)):  # what floods comes last
        identity = found.take(store, layer)
        if identity is not None:
            return identity
    raise found.refusal()


@dataclass
class _Opened:
    """What came of the grants so far."""

    evaluators: str
    sealed: bytes
    useless: int = 0
    foreign: int = 0
    tried: int = 0
    damaged: list[str] = field(default_factory=list)

    def take(self, store: Store, layer: Descriptor) -> Identity | None:
        """Open one grant; return the identity in it that opens the seal, if there is one."""
        try:
            data = store.read(layer.digest, 2 * GRANT_LIMIT_BYTES)
            identities = open_grant(data, self.evaluators, where=f"grant {layer.digest}").split("\n")
        except TrustError:
            self.foreign += 1
            self._count(1)
            return None
        except (InputError, IntegrityError, WorldError) as error:
            self.damaged.append(error.complaint)
            self._count(1)
            return None
        for identity in identities:
            self._count(1)
            if opens(self.sealed, identity, where="seal"):
                return Identity(identity)
        self.useless += 1
        return None

    def _count(self, more: int) -> None:
        self.tried += more
        if self.tried > MAX_TRIED:
            reason = f"expected at most {MAX_TRIED} keys in the grants of an image, found more"
            raise TrustError(reason, hint="somebody attached them; have the image from another registry, or a bundle")

    def refusal(self) -> TrustError:
        if not self.tried and not self.damaged:
            reason = "the image comes without any grant: nobody was given its key"
        elif self.useless:
            reason = f"{self.useless} grants open with the evaluator's key, but hold no key of this image's seal"
        else:
            reason = (
                f"none of the {self.foreign + len(self.damaged)} grants of this image opens with the evaluator's key"
            )
        if self.damaged:
            reason += f"; {len(self.damaged)} of them are damaged, first: {self.damaged[0]}"
        return TrustError(
            reason,
            hint="send your public key (wideswe-pack keygen --evaluator shows it) to the suite's authors, who grant "
            "it the task with wideswe-pack grant and push; then pull again",
        )
