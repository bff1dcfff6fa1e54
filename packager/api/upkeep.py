"""The verbs that look after the store: gc, store check."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.digests import hex_of
from packager.base.errors import PackError
from packager.base.files import full_disk_trouble
from packager.base.problems import Problem
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.api.place import Place
    from packager.oci.descriptor import Descriptor
    from packager.store.garbage import Garbage
    from packager.store.store import Store


def images_in(place: Place) -> tuple[str, ...]:
    """Return the tasks whose images the store has."""
    return tuple(place.store().names("images"))


@full_disk_trouble("gc")
def collect_garbage(place: Place, *, max_bytes: int | None = None) -> Garbage:
    """Delete from the store what no image needs; a store in use is left alone and says so.

    With `max_bytes` only as much as is too much, least recently used first; what images need stays in any case.
    """
    from packager.sandbox.namespaces import reach_own_ids

    reach_own_ids()
    store = place.store()
    if max_bytes is not None:
        return store.shrink(lambda: list(_kept(place)), max_bytes=max_bytes)
    return store.collect_garbage(lambda: list(_kept(place)))


@dataclass(frozen=True)
class Checked:
    """How much of a store was read, and what was wrong with it; what is damaged was set aside."""

    blobs: int
    trees: int
    images: int
    problems: tuple[Problem, ...]


@full_disk_trouble("store check")
def check_store(place: Place, *, progress: Progress = silent) -> Checked:
    """Hash every blob and every unpacked layer, and look whether each image has all that it needs."""
    from packager.sandbox.namespaces import reach_own_ids
    from packager.store.checking import check_blobs, check_trees

    reach_own_ids()
    store = place.store()
    with store.lease():
        layers = _known_layers(place)
        blobs, broken = check_blobs(store, progress)
        trees = check_trees(store, layers, progress)
        images = images_in(place)
        incomplete = [problem for task in images for problem in _image_problems(place, task)]
    return Checked(blobs, trees.count, len(images), (*broken, *trees.problems, *incomplete))


def _known_layers(place: Place) -> dict[str, Descriptor]:
    """Return the blobs of layers by the names of their unpacked trees: of what was built here, and of all images."""
    from packager.build.results import parse_layer
    from packager.evaluate.judge import read_image

    store = place.store()
    found: dict[str, Descriptor] = {}
    for data in store.results():
        with contextlib.suppress(PackError):
            layer = parse_layer(data)
            if layer is not None:
                found[hex_of(layer.diff_id)] = layer.descriptor()
    for task in images_in(place):
        with contextlib.suppress(PackError):
            image = read_image(store, place.record(task))
            found |= {hex_of(name): layer for name, layer in zip(image.config.diff_ids, image.layers, strict=True)}
    return found


def _image_problems(place: Place, task: str) -> Iterator[Problem]:
    """Yield what a task's image lacks; blobs that were just found to be damaged are no longer there."""
    from packager.base.digests import Digest

    where, hint = f"names/images/{task}", f"wideswe-pack build --task {task}, or pull it again"
    try:
        needed = [Digest(name) for name in _needs(place, task) if name.startswith("sha256:")]
    except PackError as error:
        yield Problem(where, 0, "", f"the image cannot be read: {error.reason}", hint)
        return
    store = place.store()
    for digest in dict.fromkeys(needed):
        if not store.has(digest):
            yield Problem(where, 0, "", f"the image needs {digest}, which is not there", hint)


def _kept(place: Place) -> Iterator[str]:
    yield from _kept_of_suites(place.store())
    for task in images_in(place):
        yield from _needs(place, task)


def _kept_of_suites(store: Store) -> Iterator[str]:
    from packager.api.trusted import SUITES, suite_record
    from packager.oci.manifest import parse_manifest

    for name in store.names(SUITES):
        for descriptor in suite_record(store, name).manifests():
            manifest = parse_manifest(store.read(descriptor.digest, LIMIT_BYTES))
            yield from (descriptor.digest, manifest.config.digest, *(layer.digest for layer in manifest.layers))


def _needs(place: Place, task: str) -> Iterator[str]:
    """Yield the digests of all blobs that a task's image needs, and the names of its unpacked layers."""
    from packager.oci.config import parse_config
    from packager.oci.manifest import parse_manifest

    store, record = place.store(), place.record(task)
    for descriptor in record.manifests():
        yield descriptor.digest
        manifest = parse_manifest(store.read(descriptor.digest, LIMIT_BYTES))
        yield manifest.config.digest
        yield from (layer.digest for layer in manifest.layers)
        if descriptor == record.manifest:
            config = parse_config(store.read(manifest.config.digest, LIMIT_BYTES))
            yield from (hex_of(diff_id) for diff_id in config.diff_ids)
