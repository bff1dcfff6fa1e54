"""Enters the namespaces of containers that other engines made: their loopback network, and their files."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from packager.base.errors import WorldError
from packager.sandbox import kernel
from packager.sandbox.identity import PROXY_PORT
from packager.sandbox.launcher import raise_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OWN = "/proc/thread-self/ns/net"
_BACKLOG = 128
Made = TypeVar("Made")


@contextlib.contextmanager
def loopback_network(place: Path) -> Iterator[Path]:
    """Make a network whose only device is loopback; `place` is the file by which others enter it."""

    def work() -> None:
        kernel.unshare(kernel.CLONE_NEWNET)
        raise_loopback()
        kernel.mount(_OWN, str(place), None, kernel.MS_BIND)

    place.touch()
    try:
        _in_a_thread(work)
        yield place
    finally:
        with contextlib.suppress(OSError):
            kernel.unmount(str(place))
        place.unlink()


def listen_in(network: Path) -> socket.socket:
    """Return a socket that listens on the proxy's port inside a network; nothing else of ours is in there."""

    def work() -> socket.socket:
        handle = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
        try:
            kernel.enter_namespace(handle, kernel.CLONE_NEWNET)
        finally:
            os.close(handle)
        return socket.create_server(("127.0.0.1", PROXY_PORT), backlog=_BACKLOG)

    return _in_a_thread(work)


def open_root(process: int) -> int:
    """Return a descriptor of the root of a container's file system, without what is mounted over it.

    It is that of a detached copy of the root's own mount, which lives as long as the descriptor.
    """

    def work() -> int:
        kernel.unshare(kernel.CLONE_FS)
        handle = os.open(f"/proc/{process}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            kernel.enter_namespace(handle, kernel.CLONE_NEWNS)
        finally:
            os.close(handle)
        return kernel.clone_mount("/", recursive=False)

    return _in_a_thread(work)


def processes_in(network: Path) -> list[int]:
    """Return the first processes (number 1 inside) of containers in a network, by their numbers out here."""
    wanted = network.stat()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, StopIteration):
            status = (place / "ns/net").stat()
            same = (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino)
            if same and _number_inside(place) == 1:
                found.append(int(place.name))
    return found


def _number_inside(place: Path) -> int:
    lines = (place / "status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])


def _in_a_thread(work: Callable[[], Made]) -> Made:
    """Do something in a thread that may leave this process's namespaces, since it ends with it."""
    done: list[Made] = []
    problems: list[OSError] = []

    def run() -> None:
        try:
            done.append(work())
        except OSError as error:
            problems.append(error)

    thread = threading.Thread(target=run, name="wideswe-network")
    thread.start()
    thread.join()
    if problems:
        raise WorldError(
            f"a container cannot be entered: {problems[0]}",
            where="engine",
            hint="that needs root with CAP_SYS_ADMIN; the native engine needs neither",
        ) from problems[0]
    return done[0]
