"""An engine that lets one thing of the machine through that ours holds back: what a careless engine would do."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.support.wrapped_tree import WrappedTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.sandbox.engine import Command, Engine, Tree


@dataclass(frozen=True)
class Leak:
    """Variables that win over the command's, words before it, and files of lower layers that stay hard links."""

    env: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeakyTree(WrappedTree):
    """A tree whose commands see what leaks."""

    leak: Leak

    def changed(self, command: Command) -> Command:
        argv, env = (*self.leak.before, *command.argv), {**command.env, **self.leak.env}
        return replace(command, argv=argv, env=env)


@dataclass(frozen=True)
class LeakyEngine:
    """Opens such trees."""

    engine: Engine
    leak: Leak

    @property
    def name(self) -> str:
        return "leaky"

    @contextlib.contextmanager
    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> Iterator[Tree]:
        with self.engine.open_tree(layers, scratch=scratch) as tree:
            if self.leak.linked:
                _link(tree, self.leak.linked)
            yield LeakyTree(tree, self.leak)


def _link(tree: Tree, names: tuple[str, ...]) -> None:
    """Make copies of one file names of one again, as they are where layers are unpacked with their hard links."""
    first, *others = names
    data = (tree.root / first).read_bytes()
    (tree.root / first).write_bytes(data)
    for name in others:
        (tree.root / name).unlink()
        os.link(tree.root / first, tree.root / name)
