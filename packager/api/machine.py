"""The verbs that look after the machine and the store: doctor, ecosystems, gc."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.digests import hex_of
from packager.base.files import full_disk_trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.api.place import Place
    from packager.lock.ecosystems.table import Line
    from packager.sandbox.probe import Capability
    from packager.store.garbage import Garbage
    from packager.store.store import Store


def images_in(place: Place) -> tuple[str, ...]:
    """Return the tasks whose images the store has."""
    return tuple(place.store().names("images"))


def doctor(place: Place) -> tuple[Capability, ...]:
    """Say what this machine can do, and how to get what is missing."""
    from packager.sandbox.probe import probe_machine

    there = next(path for path in (place.store_root, *place.store_root.parents) if path.is_dir())
    return tuple(probe_machine(there))


def ecosystems() -> tuple[Line, ...]:
    """Return the table of ecosystems: each package client, and what tests show of it."""
    from packager.lock.ecosystems.table import table_lines

    return table_lines()


def can_build(found: Sequence[Capability]) -> bool:
    """Tell whether the native engine can work here."""
    return all(row.ok for row in found if row.required)


@full_disk_trouble("gc")
def collect_garbage(place: Place) -> Garbage:
    """Delete from the store what no image needs; a store in use is left alone and says so."""
    from packager.sandbox.namespaces import reach_own_ids

    reach_own_ids()
    store = place.store()
    return store.collect_garbage(lambda: list(_kept(place)))


def _kept(place: Place) -> Iterator[str]:
    from packager.oci.config import parse_config
    from packager.oci.manifest import parse_manifest

    store = place.store()
    yield from _kept_of_suites(store)
    for task in images_in(place):
        for descriptor in place.record(task).manifests():
            yield descriptor.digest
            manifest = parse_manifest(store.read(descriptor.digest, LIMIT_BYTES))
            yield manifest.config.digest
            yield from (layer.digest for layer in manifest.layers)
            if descriptor == place.record(task).manifest:
                config = parse_config(store.read(manifest.config.digest, LIMIT_BYTES))
                yield from (hex_of(diff_id) for diff_id in config.diff_ids)


def _kept_of_suites(store: Store) -> Iterator[str]:
    from packager.api.trusted import SUITES, suite_record
    from packager.oci.manifest import parse_manifest

    for name in store.names(SUITES):
        for descriptor in suite_record(store, name).manifests():
            manifest = parse_manifest(store.read(descriptor.digest, LIMIT_BYTES))
            yield from (descriptor.digest, manifest.config.digest, *(layer.digest for layer in manifest.layers))
