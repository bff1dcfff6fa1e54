"""An engine whose trees list their directories in another order, where the file system keeps an order at all."""

from __future__ import annotations

import contextlib
import os
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.sandbox.engine import Engine, Tree

_ASIDE = b".wideswe-aside"


@dataclass
class ShuffledEngine:
    """Wraps an engine; only for stores that are thrown away, since it renames what is in the unpacked layers."""

    engine: Engine
    seed: int
    _done: set[Path] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The name of the engine that does the work."""
        return self.engine.name

    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> AbstractContextManager[Tree]:
        """Stack unpacked layers, each shuffled when it is first used."""
        for layer in layers:
            if layer not in self._done:
                shuffle_tree(os.fsencode(layer), random.Random(self.seed))  # noqa: S311 - no secret
                self._done.add(layer)
        return self.engine.open_tree(layers, scratch=scratch)


def shuffle_tree(root: bytes, chance: random.Random) -> None:
    """Give the entries of every directory a new order by renaming them away and back; times stay as they were."""
    for folder, folders, _files in os.walk(root):
        folders.sort()
        status = os.stat(folder)  # noqa: PTH116 - paths are bytes
        names = sorted(os.listdir(folder))  # noqa: PTH208 - paths are bytes
        chance.shuffle(names)
        with contextlib.suppress(PermissionError):
            for name in names:
                place = os.path.join(folder, name)  # noqa: PTH118 - paths are bytes
                aside = os.path.join(folder, _ASIDE)  # noqa: PTH118
                os.rename(place, aside)  # noqa: PTH104
                os.rename(aside, place)  # noqa: PTH104
        os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))
