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
from packager.seal.identities import GRANT_LIMIT_BYTES, open_grant
from packager.seal.keys import Identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.store.store import Store

GRANT_TYPE = "application/vnd.wideswe.key-grant.v1"
GRANT_LAYER_TYPE = "application/vnd.wideswe.key-grant.v1+age"
MAX_GRANTS = 256
"""In one artifact."""
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


def open_grants(store: Store, grants: Iterable[Descriptor], evaluators: str) -> Identity:
    """Return the task identities, one a line, of all grants that the evaluator's keys open; TrustError if none does.

    Anyone who may push can attach a grant: one that is damaged, gone, or of a useless key stops no good one.
    """
    found = _Opened()
    for descriptor in grants:
        try:
            data = store.read(descriptor.digest, _MANIFEST_LIMIT_BYTES)
            layers = parse_manifest(data, where=f"grant {descriptor.digest}").layers
        except (InputError, IntegrityError, WorldError) as error:
            found.damaged.append(error.complaint)
            continue
        for layer in layers:
            found.take(store, layer, evaluators)
    if not found.identities:
        raise found.refusal()
    return Identity("\n".join(dict.fromkeys("\n".join(found.identities).split("\n"))))


@dataclass
class _Opened:
    """What came of the grants so far."""

    identities: list[Identity] = field(default_factory=list)
    foreign: int = 0
    damaged: list[str] = field(default_factory=list)

    def take(self, store: Store, layer: Descriptor, evaluators: str) -> None:
        try:
            data = store.read(layer.digest, 2 * GRANT_LIMIT_BYTES)
            self.identities.append(open_grant(data, evaluators, where=f"grant {layer.digest}"))
        except TrustError:
            self.foreign += 1
        except (InputError, IntegrityError, WorldError) as error:
            self.damaged.append(error.complaint)

    def refusal(self) -> TrustError:
        if not self.foreign and not self.damaged:
            reason = "the image comes without any grant: nobody was given its key"
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
