"""A tree around another one, for engines that change a command on its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from packager.oci.entries import Entry
    from packager.sandbox.engine import Command, Ended, Streams, Tree
    from packager.sandbox.fetches import Reachable


@dataclass(frozen=True)
class WrappedTree:
    """All of the inner tree, but that commands go through `changed`."""

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

    def changed(self, command: Command) -> Command:
        """Return what runs in the place of a command."""
        raise NotImplementedError

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        return self.tree.run(self.changed(command), streams, fetches=fetches)
