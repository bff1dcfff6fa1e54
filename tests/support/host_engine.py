"""The native engine with this machine's programs bound into every tree, for layers that have none of their own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.sandbox.native import NativeEngine, prepare_process
from tests.support.host_tree import HOST_USR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.oci.entries import Entry
    from packager.sandbox.engine import Command, Ended, Streams, Tree
    from packager.sandbox.fetches import Reachable


@dataclass(frozen=True)
class HostTree:
    """A tree whose commands see this machine's /usr."""

    tree: Tree

    @property
    def root(self) -> Path:
        return self.tree.root

    @property
    def lower(self) -> Path:
        return self.tree.lower

    @property
    def upper(self) -> Path:
        return self.tree.upper

    def changes(self) -> list[Entry]:
        return self.tree.changes()

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        return self.tree.run(replace(command, binds=(HOST_USR, *command.binds)), streams, fetches=fetches)


class HostEngine:
    """Opens such trees."""

    def __init__(self) -> None:
        prepare_process()
        self._engine = NativeEngine()

    @property
    def name(self) -> str:
        return self._engine.name

    @contextlib.contextmanager
    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> Iterator[Tree]:
        with self._engine.open_tree(layers, scratch=scratch) as tree:
            yield HostTree(tree)
