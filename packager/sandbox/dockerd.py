"""The docker engine: commands run in containers of a docker daemon on this machine, through its API.

A tree is an image made of our layers and containers over it. What they hold is read through /proc by root, so that no
storage driver and no digest of docker's matters. There is no network; the proxy listens on the container's loopback.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.oci.tree import diff_trees
from packager.sandbox.carrier import Carrier
from packager.sandbox.dockerd_api import Containers, Wanted, trouble
from packager.sandbox.engine import Ended, Limits
from packager.sandbox.entering import listen_in
from packager.sandbox.guest import fixed_binds, guest_of
from packager.sandbox.loopback import open_loopback
from packager.sandbox.overlay import check_layers
from packager.sandbox.written import write_upper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.oci.entries import Entry
    from packager.sandbox.dockerd_api import Container
    from packager.sandbox.engine import Command, Streams
    from packager.sandbox.fetches import Reachable
    from packager.sandbox.guest import Guest

_KILLED = 137
_END_ALL = ("/bin/sh", "-c", "kill -9 -1")


class DockerEngine:
    """Runs commands in containers; `home` is a folder that lives as long as the engine."""

    def __init__(self, home: Path, host: str) -> None:
        self.home = home
        self.containers = Containers(host)
        self._carrier = Carrier(home / "carrier")
        self._images: dict[tuple[str, ...], str] = {}
        self._counter = itertools.count()

    @property
    def name(self) -> str:
        """The name that `--engine` takes."""
        return "docker"

    def close(self) -> None:
        """Remove the images that were made of layers."""
        for image in self._images.values():
            self.containers.remove_image(image)
        self._images.clear()
        self.containers.close()

    @contextlib.contextmanager
    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> Iterator[DockerTree]:
        """Load a stack of unpacked layers (lowest first) as an image; containers over it start when they are needed."""
        check_layers(layers)
        folder = scratch.absolute() / f"docker-{next(self._counter)}"
        folder.mkdir(mode=0o700)
        tree = DockerTree(self, self._image(layers, folder), tuple(layers), folder)
        try:
            yield tree
        finally:
            tree.close()

    def _image(self, directories: Sequence[Path], folder: Path) -> str:
        """Return the name of the image of a stack; only layers that the daemon lacks are sent."""
        layers = self._carrier.pack(directories)
        key = tuple(layer.diff_id for layer in layers)
        if key not in self._images:
            name = f"localhost/wideswe-step:{self.containers.owner}-{len(self._images)}"
            self._carrier.image(layers, name=name, labels=self.containers.labels)
            sent = {layer.digest for layer in layers for known in self._images if layer.diff_id in known}
            archive = folder / "image.tar"
            for without in (sent, set()):  # a daemon may have forgotten what it had
                self._carrier.write_archive(archive, without=without)
                if self.containers.load(archive, final=not without):
                    break
            archive.unlink()
            self._images[key] = name
        return self._images[key]


class DockerTree:
    """An image and the containers over it: one that commands run in, one that shows what was there before."""

    def __init__(self, engine: DockerEngine, image: str, layers: tuple[Path, ...], folder: Path) -> None:
        self._containers = engine.containers
        self._image = image
        self._layers = layers
        self._folder = folder
        self._current: Container | None = None
        self._before: Container | None = None
        self._committed: list[str] = []
        self._counter = itertools.count()

    @property
    def root(self) -> Path:
        """The writable view, as the container has it."""
        return self._running(None).root

    @property
    def lower(self) -> Path:
        """The view of the layers alone: a second container, in which nothing runs."""
        if self._before is None:
            self._before = self._containers.start(self._image, Wanted(Limits()))
        return self._before.root

    @property
    def upper(self) -> Path:
        """What was written, as a copy."""
        return write_upper(self.changes(), self._folder / f"upper-{next(self._counter)}")

    def changes(self) -> list[Entry]:
        """Return what was written, found by comparing both views."""
        return diff_trees(self.lower, self.root)

    def close(self) -> None:
        """Remove the containers and what was kept between two of them."""
        for container in (self._current, self._before):
            if container is not None:
                container.remove()
        for image in self._committed:
            self._containers.remove_image(image)

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        """Run a command; with `fetches`, behind the loopback proxy."""
        started = time.monotonic()
        with contextlib.ExitStack() as held:
            trusted: Mapping[Path, str] = {}
            if fetches is not None:
                proxy = open_loopback(fetches, self._folder / f"ca{next(self._counter)}")
                held.callback(proxy.close)
                trusted = proxy.trusted
            container = self._running(self._wanted(command, trusted))
            if fetches is not None:
                proxy.start(listen_in(container.network))
            guest = guest_of(command, fetches)
            code, timed_out = _execute(container, guest, command, streams)
            out_of_memory = code != 0 and not timed_out and container.ran_out_of_memory()
        return Ended(code, time.monotonic() - started, timed_out=timed_out, out_of_memory=out_of_memory)

    def _wanted(self, command: Command, trusted: Mapping[Path, str]) -> Wanted:
        fixed = fixed_binds(self._folder, self._layers, trusted)
        given = [(str(bind.source), bind.target, bind.writable) for bind in command.binds]
        return Wanted(command.limits, (*((here, there, False) for here, there in fixed), *given))

    def _running(self, wanted: Wanted | None) -> Container:
        """Return the container; one that lacks what is wanted is kept as an image and started again with it."""
        if self._current is None:
            self._current = self._containers.start(self._image, wanted or Wanted(Limits()))
        elif wanted is not None and self._current.wanted != wanted:
            image = self._current.commit(f"{self._image}-{next(self._counter)}")
            self._committed.append(image)
            self._current.remove()
            self._current = self._containers.start(image, wanted)
        return self._current


def _execute(container: Container, guest: Guest, command: Command, streams: Streams) -> tuple[int, bool]:
    """Run a command in a container; return its exit code and whether its time was up."""
    late = threading.Event()

    def end() -> None:
        late.set()
        container.end_processes(_END_ALL)

    timer = threading.Timer(command.timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        with trouble("run"):
            code = container.execute(guest, (command.uid, command.gid), streams)
    finally:
        timer.cancel()
    if code is None and not late.is_set() and not container.is_running():
        raise WorldError("the container ended before its command did", where="docker engine", retryable=True)
    return (_KILLED if late.is_set() or code is None else code), late.is_set()
