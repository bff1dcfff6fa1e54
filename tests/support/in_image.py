"""An image's files as a container has them, and programs run in them: what a harness's container is to a scorer."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.processes import Surroundings, run
from packager.evaluate.judge import read_image
from packager.evaluate.predictions import Patch
from packager.evaluate.workspace import Workspace
from packager.oci.places import SEALED_PATH
from packager.sandbox.native import NativeEngine
from tests.support.walk import sealed_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.processes import Finished
    from packager.sandbox.engine import Tree
    from tests.support.walk import Party

TIMEOUT_S = 300.0
ENTER = 'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" /bin/bash -c "$1"'


@dataclass(frozen=True)
class InImage:
    """A writable file system over an image."""

    tree: Tree
    env: Mapping[str, str]

    @property
    def root(self) -> Path:
        return self.tree.root

    def put(self, path: str, data: bytes) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def solve(self, patches: Mapping[str, bytes]) -> None:
        for name, patch in patches.items():
            Workspace(self.tree).apply(name, Patch(patch))

    def call(self, script: str, **env: str) -> Finished:
        """Run a shell script in it as root, with mounts and processes of its own and the network of this machine."""
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        argv = [*apart, "/bin/sh", "-c", ENTER, str(self.root), script]
        return run(argv, Surroundings(env={**self.env, **env}, timeout_s=TIMEOUT_S))


@contextlib.contextmanager
def in_image(party: Party) -> Iterator[InImage]:
    """Give a file system of its own over the party's image, sealed file included."""
    image = read_image(party.store, party.record)
    layers = image.trees(party.store)
    env = dict(pair.partition("=")[::2] for pair in image.config.env)
    with tempfile.TemporaryDirectory(dir=party.store_root) as scratch:
        engine = NativeEngine()
        with engine.open_tree(layers, scratch=Path(scratch)) as tree:
            made = InImage(tree, env)
            made.put(SEALED_PATH.decode(), sealed_file(party))
            yield made
