"""The verbs of machines without network: bundle export and import, load into a local engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.api.carry import labelled_task
from packager.api.place import VERSION
from packager.api.ship import Shipped
from packager.api.trusted import ImageQuestion, Trust, refuse_unverified, suite_record
from packager.base.errors import InputError
from packager.base.files import full_disk_trouble
from packager.base.progress import Progress, silent
from packager.registry.bundle import BundleForm

if TYPE_CHECKING:
    from pathlib import Path

    from packager.api.place import Place
    from packager.oci.record import ImageRecord
    from packager.registry.bundle_export import Exported
    from packager.registry.bundle_import import Imported
    from packager.registry.load import EngineName, Loaded
    from packager.store.store import Store


@dataclass(frozen=True)
class Cargo:
    """What goes into a bundle: tasks, and suites with all that they list."""

    tasks: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()


@full_disk_trouble("bundle export")
def export_bundle(
    place: Place, cargo: Cargo, target: Path, *, form: BundleForm | None = None, progress: Progress = silent
) -> Exported:
    """Write images, with all that hangs on them, into one file; see registry/bundle.py for its form."""
    from packager.registry.bundle_export import Export

    store = place.store()
    store.sweep()
    with store.lease():
        return Export(store, target, form or BundleForm(), progress).run(_named(place, store, cargo))


def _named(place: Place, store: Store, cargo: Cargo) -> dict[str, ImageRecord]:
    from packager.api.suite_state import show_suite, suite_tasks

    listed = [task for name in cargo.suites for task in suite_tasks(place, name)]
    records = {task: place.record(task) for task in dict.fromkeys((*cargo.tasks, *listed))}
    found = {published_name(store, task, record): record for task, record in records.items()}
    if len(found) != len(records):
        raise InputError("two tasks were signed under one name", where="bundle", hint="sign them again")
    return found | {show_suite(place, name).reference: suite_record(store, name) for name in cargo.suites}


@full_disk_trouble("bundle import")
def import_bundle(
    place: Place, source: Path, *, trust: Trust | None = None, progress: Progress = silent
) -> tuple[Shipped, ...]:
    """Take a bundle into the store; every blob is hashed, and nothing is named before all of them are good.

    A suite in it is taken as `suite pull` does: one that the trust policy does not believe refuses the whole bundle.
    """
    from packager.api.suite_state import accept_suite
    from packager.oci.layout import open_layout
    from packager.oci.record import format_record
    from packager.registry.bundle_import import Import

    store = place.store()
    store.sweep()
    with store.lease(), open_layout(source) as layout:
        found = Import(layout, store, source.name, progress).run()
        suites = [image for image in found if _is_suite(store, image)]
        images = [image for image in found if image not in suites]
        tasks = [labelled_task(store, image.record, where=f"{source.name}: {image.name}") for image in images]
        if len(set(tasks)) != len(tasks):
            twice = next(task for task in tasks if tasks.count(task) > 1)
            raise InputError(f"two images are of the task {twice}", where=str(source))
        names = [accept_suite(place, suite.record, trust or Trust()).suite for suite in suites]
        for task, image in zip(tasks, images, strict=True):
            store.set_name("images", task, format_record(image.record))
    pairs = zip((*tasks, *names), (*images, *suites), strict=True)
    return tuple(Shipped(name, image.name, image.record.manifest.digest) for name, image in pairs)


def _is_suite(store: Store, image: Imported) -> bool:
    from packager.base.canonical import LIMIT_BYTES
    from packager.oci.manifest import parse_manifest
    from packager.trust.suite_artifact import SUITE_TYPE

    data = store.read(image.record.manifest.digest, LIMIT_BYTES)
    return parse_manifest(data, where=image.name).artifact_type == SUITE_TYPE


@full_disk_trouble("load")
def load(
    place: Place, task: str, *, engine: EngineName, trust: Trust | None = None, progress: Progress = silent
) -> Loaded:
    """Verify a task's image, put it into the daemon of an engine, and hold the ids there against what was verified."""
    from packager.registry.load import Load

    store, record = place.store(), place.record(task)
    store.sweep()
    with store.lease():
        refuse_unverified(ImageQuestion(place, record, task, trust or Trust()).ask(progress=progress).checks, task)
        return Load(store, engine, progress).run(record.manifest, published_name(store, task, record))


def published_name(store: Store, task: str, record: ImageRecord) -> str:
    """Return the name that an image's signature gives it, else one under localhost; `verify` says if it holds."""
    from packager.oci.manifest import parse_manifest
    from packager.trust.payload import LIMIT_BYTES, parse_payload, parse_published_name

    for signature in record.signatures:
        if signature.tag.endswith(".sig"):
            layers = parse_manifest(store.read(signature.manifest.digest, 1 << 20), where=signature.tag).layers
            if not layers:
                raise InputError("expected a signature, found a manifest without layers", where=signature.tag)
            payload = parse_payload(store.read(layers[0].digest, LIMIT_BYTES), where=signature.tag)
            return str(parse_published_name(payload.docker_reference, where=signature.tag))
    return f"localhost/{task}:{VERSION}"
