"""What the images of a suite share: bytes stored once, against one image per task."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.api.place import Place


@dataclass(frozen=True)
class TaskSharing:
    """One image: how many layers, their bytes, and the bytes of those that no other image here has."""

    task: str
    layers: int
    size_bytes: int
    own_bytes: int


@dataclass(frozen=True)
class SuiteSharing:
    """The layers of several images: their bytes if each image stood alone, and as they are stored and pushed."""

    tasks: tuple[TaskSharing, ...]
    images_bytes: int
    stored_bytes: int
    stored_layers: int
    shared_bytes: int

    @property
    def shared_percent(self) -> float:
        """Return the part of the images' bytes that need not be stored again."""
        return 100 * self.shared_bytes / self.images_bytes if self.images_bytes else 0.0


def inspect_suite(place: Place, tasks: Sequence[str] = ()) -> SuiteSharing:
    """Return what the named tasks' images (none named: all in the store) share; layers are compared as blobs."""
    from packager.evaluate.judge import read_image

    store = place.store()
    with store.lease():
        names = sorted(set(tasks)) or store.names("images")
        images = {
            task: {one.digest: one.size for one in read_image(store, place.record(task)).layers} for task in names
        }
    held = Counter(digest for layers in images.values() for digest in layers)
    sizes = {digest: size for layers in images.values() for digest, size in layers.items()}
    rows = tuple(
        TaskSharing(
            task,
            len(layers),
            sum(layers.values()),
            sum(size for digest, size in layers.items() if held[digest] == 1),
        )
        for task, layers in images.items()
    )
    apart, together = sum(row.size_bytes for row in rows), sum(sizes.values())
    return SuiteSharing(rows, apart, together, len(sizes), apart - together)
