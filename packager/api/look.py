"""The verbs that look into an image: inspect, audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from packager.base.files import full_disk_trouble
from packager.base.progress import Event, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from packager.api.place import Place
    from packager.build.audit import Finding
    from packager.build.foreign import Recognised
    from packager.evaluate.judge import StoredImage
    from packager.store.store import Store


@dataclass(frozen=True)
class InspectedLayer:
    """One layer: the digests of its tar and its blob, and the blob's size in bytes."""

    diff_id: str
    digest: str
    size: int


@dataclass(frozen=True)
class Inspected:
    """What an image is made of."""

    task: str
    manifest: str
    content_id: str
    layers: tuple[InspectedLayer, ...]
    signatures: int
    grants: int


@dataclass(frozen=True)
class Audited:
    """What an audit found in an image of so many layers; clean if it found nothing."""

    task: str
    manifest: str
    layers: int
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing gives the answer away, as far as an audit can see."""
        return not self.findings


def inspect(place: Place, task: str) -> Inspected:
    """Return what a task's image is made of."""
    from packager.oci.config import content_id
    from packager.seal.grants import count_grants

    store = place.store()
    image = _image(place, store, task)
    layers = tuple(
        InspectedLayer(diff_id, layer.digest, layer.size)
        for layer, diff_id in zip(image.layers, image.config.diff_ids, strict=True)
    )
    return Inspected(
        task,
        image.record.manifest.digest,
        content_id(image.config.diff_ids, image.config_bytes),
        layers,
        len(image.record.signatures) + len(image.record.referrers),
        count_grants(store, image.record.grants),
    )


@full_disk_trouble("inspect")
def recognise(archive: Path, *, progress: Progress = silent) -> Recognised:
    """Return the task and content id of an image that another engine saved; every layer is rewritten by our rules."""
    from packager.build.foreign import recognise_archive

    return recognise_archive(
        archive, lambda number, total: progress(Event("inspect", number, total, "layers", "reading"))
    )


@full_disk_trouble("audit")
def audit(place: Place, task: str, *, progress: Progress = silent) -> Audited:
    """Look for anything in a task's image that gives the answer away; needs the recipe, its lock and the answer."""
    from packager.build.audit import audit_image
    from packager.build.audit_task import derive_task_secrets, trusted_layers

    store, recipe = place.store(), place.recipe(task)
    with store.lease():
        image = _image(place, store, task)
        lock = place.lock(task, f"{image.config.os}/{image.config.architecture}")
        progress(Event("audit", message="reading what is secret and what is public"))
        secrets = derive_task_secrets(recipe, lock, store=store, repositories=place.repositories(recipe))
        layers = _counted(image.tars(store), len(image.layers), progress)
        found = audit_image(
            layers, image.config_bytes, image.annotations, secrets, trusted_layers=trusted_layers(recipe)
        )
    return Audited(task, image.record.manifest.digest, len(image.layers), tuple(found))


def _counted(layers: Iterable[IO[bytes]], total: int, progress: Progress) -> Iterator[IO[bytes]]:
    for number, layer in enumerate(layers, 1):
        progress(Event("audit", number, total, "layers", "searching"))
        yield layer
    progress(Event("audit", total, total, "layers", finished=True))


def _image(place: Place, store: Store, task: str) -> StoredImage:
    from packager.evaluate.judge import read_image

    return read_image(store, place.record(task))
