"""Reads all of a store: each blob must hash to its name, each unpacked layer must be what its layer unpacks to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import PackError
from packager.base.problems import Problem
from packager.base.progress import Event
from packager.oci.decompression import measure_tar
from packager.oci.layer import Layer, open_layer, unpack_layer
from packager.oci.manifest import MEDIA_DOCKER_LAYER_GZIP, MEDIA_LAYER_GZIP
from packager.oci.tar_writer import write_tar
from packager.oci.tree import scan_layer
from packager.store.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.base.progress import Progress
    from packager.oci.descriptor import Descriptor
    from packager.store.store import Store


@dataclass(frozen=True)
class CheckedTrees:
    """How many unpacked layers were read, the faults in them, and how many nobody could tell anything about."""

    count: int
    problems: tuple[Problem, ...]
    unknown: int


def check_blobs(store: Store, progress: Progress) -> tuple[int, tuple[Problem, ...]]:
    """Hash every blob, set the broken ones aside, and return how many there were and what was wrong."""
    folder = store.root / "blobs" / "sha256"
    total = sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0

    def told(number: int) -> None:
        progress(Event("check", number, total, "blobs", "hashing", finished=number == total))

    return total, tuple(store.check(told))


def check_trees(store: Store, layers: Mapping[str, Descriptor], progress: Progress) -> CheckedTrees:
    """Hold every unpacked layer against its name, the digest of its tar; set aside those that are not what it says.

    `layers` has the blob of each layer by that name. What others wrote is not our canonical tar: such a layer is
    unpacked once more and compared; without its blob, nobody can tell, and the tree is set aside without complaint.
    """
    folder = store.root / "trees"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    problems: list[Problem] = []
    unknown = 0
    for number, name in enumerate(names, 1):
        progress(Event("check", number, len(names), "layers", "reading", finished=number == len(names)))
        found = tree_digest(folder / name)
        if found == name or _is_layer_of(store, found, layers.get(name)):
            continue
        store.quarantine_tree(name)
        if name not in layers:
            unknown += 1
            continue
        message = f"expected the unpacked layer sha256:{name}, found sha256:{found}"
        problems.append(Problem(f"trees/{name}", 0, "", message, "it was set aside and is unpacked anew when needed"))
    return CheckedTrees(len(names), tuple(problems), unknown)


def tree_digest(tree: Path) -> str:
    """Return the hexadecimal digest of the canonical tar of an unpacked layer, or why there is none."""
    found = hashlib.sha256()
    try:
        write_tar(scan_layer(tree), found.update)
    except (PackError, OSError) as error:
        return f"a tree that is no layer: {error}"
    return found.hexdigest()


def _is_layer_of(store: Store, found: str, layer: Descriptor | None) -> bool:
    """Say whether a layer, unpacked once more, has the digest that was found."""
    if layer is None:
        return False
    media_type = MEDIA_LAYER_GZIP if layer.media_type == MEDIA_DOCKER_LAYER_GZIP else layer.media_type
    try:
        with store.open(layer.digest) as blob:
            diff_id, size = measure_tar(blob, layer.media_type, layer.digest)
        with scratch_folder(store.root) as scratch:
            with open_layer(store, Layer(diff_id, layer.digest, layer.size, size, media_type)) as stream:
                unpack_layer(stream, scratch, overlay_whiteouts=True)
            return tree_digest(scratch) == found
    except PackError:
        return False
