"""The native engine with this machine's programs bound into every tree, for layers that have none of their own."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.sandbox.native import NativeEngine, prepare_process
from tests.support.host_tree import HOST_USR
from tests.support.wrapped_tree import WrappedTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.sandbox.engine import Command, Tree


class HostTree(WrappedTree):
    """A tree whose commands see this machine's /usr."""

    def changed(self, command: Command) -> Command:
        return replace(command, binds=(HOST_USR, *command.binds))


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
