"""Verifies an image: a numbered list of checks that ends in yes or at the first no. The written procedure is this list.

1. manifest digest: the manifest's bytes have the size and digest that the record names
2. manifest: it is one image manifest and nothing else
3. config: its bytes have the size and digest that the manifest names; an image configuration, of the task asked for
4. legacy signature: by a given key, over this manifest, for the expected name or task
5. bundle signature: by a given key, an image signature, over this manifest
   with a trust policy, before the layers: suite, listed, and what else it asks for (see image_policy.py)
6. layer 1 … layer n: the blob has its size and digest, and unpacks within a fixed bound
7. diff ids: what the layers unpack to is what the config names, in order
8. seal: the last layer holds the sealed file in its fixed shape

The signatures come before the layers: nothing that nobody signed is decompressed, and a wrong key answers at once.
`verify_image` reads every byte; `verify_again` takes a layer whose file is unchanged from its mark (see marks.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import TrustError
from packager.base.progress import Progress, silent
from packager.oci.config import parse_config
from packager.oci.manifest import MANIFEST_TYPES, MEDIA_CONFIG, MEDIA_DOCKER_CONFIG, parse_manifest
from packager.oci.places import TASK_LABEL
from packager.trust.checks import Answer, Check, ask_all
from packager.trust.marks import Memory
from packager.trust.payload import parse_published_name
from packager.trust.seal_checks import verify_seal
from packager.trust.signature_checks import Claim, read_described, verify_bundle, verify_legacy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.base.digests import DiffId
    from packager.oci.config import ImageConfig
    from packager.oci.descriptor import Descriptor
    from packager.oci.manifest import Manifest
    from packager.oci.record import ImageRecord
    from packager.store.store import Store
    from packager.trust.keys import PublicKey


@dataclass(frozen=True)
class Demands:
    """What an image must show: who signed it, for which name (home/repository:tag) or task, and whatever else is asked.

    `more` are steps between signatures and layers; `signers` is how many different keys must have signed.
    """

    keys: tuple[PublicKey, ...]
    reference: str | None = None
    task: str | None = None
    signers: int = 1
    more: tuple[tuple[str, Callable[[], Answer]], ...] = ()


def verify_image(
    record: ImageRecord,
    store: Store,
    *,
    public_keys: Sequence[PublicKey],
    reference: str | None = None,
    progress: Progress = silent,
) -> list[Check]:
    """Run the checks in order and return them up to the first no; the image is good if the last one is a yes.

    `reference` is the expected published name, home/repository:tag. No key at all is a TrustError: nobody to believe.
    """
    return verify_demands(
        record, Demands(tuple(public_keys), reference), Memory(store, recall=False, progress=progress)
    )


def verify_again(
    record: ImageRecord,
    store: Store,
    *,
    public_keys: Sequence[PublicKey],
    reference: str | None = None,
    progress: Progress = silent,
) -> list[Check]:
    """Run the same checks, but read a layer only if its file has changed since it was last read."""
    return verify_demands(record, Demands(tuple(public_keys), reference), Memory(store, recall=True, progress=progress))


def verify_demands(record: ImageRecord, demands: Demands, memory: Memory) -> list[Check]:
    """Run the checks with all that is demanded; the list ends in yes or at the first no."""
    if not demands.keys:
        raise TrustError("no public key to verify with", hint="name the suite's public key")
    if demands.reference is not None:
        parse_published_name(demands.reference, where="expected reference")
    return ask_all(_Walk(record, demands, memory).steps())


class _Walk:
    """The steps of one verification, and what earlier ones have found for later ones."""

    def __init__(self, record: ImageRecord, demands: Demands, memory: Memory) -> None:
        self._record = record
        self._store = memory.store
        self._demands = demands
        self._claim = Claim(record.manifest, demands.keys, demands.reference, demands.task, demands.signers)
        self._memory = memory
        self._data = b""
        self._found: list[DiffId] = []
        self._manifest: Manifest
        self._config: ImageConfig

    def steps(self) -> Iterator[tuple[str, Callable[[], Answer]]]:
        """Yield the steps; each one may use what those before it have found."""
        yield "manifest digest", self._check_bytes
        yield "manifest", self._check_manifest
        yield "config", self._check_config
        yield "legacy signature", lambda: verify_legacy(self._record, self._claim, self._store)
        yield "bundle signature", lambda: verify_bundle(self._record, self._claim, self._store)
        yield from self._demands.more
        count = len(self._manifest.layers)
        for number, layer in enumerate(self._manifest.layers, start=1):
            yield f"layer {number} of {count}", partial(self._check_layer, layer)
        yield "diff ids", self._check_diff_ids
        yield "seal", lambda: verify_seal(self._store, self._manifest.layers[-1])

    def _check_bytes(self) -> Answer:
        manifest = self._record.manifest
        self._data = read_described(self._store, manifest, limit=LIMIT_BYTES, what="manifest")
        return Answer(ok=True, reason=manifest.digest)

    def _check_manifest(self) -> Answer:
        self._manifest = parse_manifest(self._data)
        said = self._record.manifest.media_type
        if said not in MANIFEST_TYPES or self._manifest.media_type != said:
            return Answer(ok=False, reason=f"expected {self._manifest.media_type}, the record says {said[:120]}")
        if self._manifest.artifact_type is not None or not self._manifest.layers:
            return Answer(ok=False, reason="expected an image with layers, found an artifact or nothing")
        return Answer(ok=True, reason=f"{len(self._manifest.layers)} layers")

    def _check_config(self) -> Answer:
        described = self._manifest.config
        if described.media_type not in (MEDIA_CONFIG, MEDIA_DOCKER_CONFIG):
            return Answer(ok=False, reason=f"expected {MEDIA_CONFIG}, found {described.media_type[:120]}")
        self._config = parse_config(read_described(self._store, described, limit=LIMIT_BYTES, what="config"))
        task, said = self._demands.task, self._config.labels.get(TASK_LABEL)
        if task is not None and said not in (None, task):
            return Answer(ok=False, reason=f"expected the task {task}, its label says {str(said)[:200]}")
        return Answer(ok=True, reason=described.digest)

    def _check_layer(self, layer: Descriptor) -> Answer:
        if not self._store.has(layer.digest):
            return Answer(ok=False, reason=f"the blob {layer.digest} is missing")
        measured, remembered = self._memory.measure(layer)
        self._found.append(measured.diff_id)
        how = "unchanged since it was read" if remembered else "unpacked"
        return Answer(ok=True, reason=f"{layer.digest}, {measured.diff_size} bytes {how}")

    def _check_diff_ids(self) -> Answer:
        named = self._config.diff_ids
        if len(named) != len(self._found):
            reason = f"the config names {len(named)} layers, the manifest {len(self._found)}"
            return Answer(ok=False, reason=reason)
        for number, (expected, found) in enumerate(zip(named, self._found, strict=True), start=1):
            if expected != found:
                return Answer(ok=False, reason=f"layer {number}: expected {expected}, found {found}")
        return Answer(ok=True, reason=f"{len(named)} layers unpack to what the config names")
