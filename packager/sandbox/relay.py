"""Carries what connects to a sandbox's loopback port to a Unix socket of the host, byte for byte."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from typing import TYPE_CHECKING

from packager.sandbox.serving import IDLE_S, Connections

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_CONNECTIONS = 64
_BLOCK_BYTES = 64 << 10


class RelayServer:
    """Serves the port; whatever listens on the socket decides what is answered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connections = Connections(self._serve, most=_MAX_CONNECTIONS)
        self.trusted: dict[Path, str] = {}

    def start(self, listener: socket.socket) -> None:
        """Serve what connects to `listener`, which belongs to the relay from now on."""
        self._connections.start(listener)

    def close(self) -> None:
        """Stop serving and end every connection."""
        self._connections.close()
        self._connections.raise_first()

    def _serve(self, connection: socket.socket) -> None:
        with unix_socket() as other, self._connections.ending(other):
            with address_of(self._path) as address:
                other.connect(address)
            _carry(connection, other)


@contextlib.contextmanager
def address_of(path: Path) -> Iterator[str]:
    """Give a name for a socket's place that is short enough, however long its path is (man 7 unix: 107 bytes)."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def unix_socket() -> socket.socket:
    """Return a socket that gives up on a peer that says nothing for long."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(IDLE_S)
    return made


def _carry(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until both sides have said their last, or nothing is said for long."""
    to = {one: other, other: one}
    with selectors.DefaultSelector() as selector:
        for side in to:
            selector.register(side, selectors.EVENT_READ)
        while selector.get_map():
            ready = [key.fileobj for key, _ in selector.select(IDLE_S)]
            if not ready:
                return
            for side in [side for side in to if side in ready and not _pass_on(side, to[side])]:
                selector.unregister(side)


def _pass_on(side: socket.socket, other: socket.socket) -> bool:
    """Carry one block; return whether more may follow."""
    block = side.recv(_BLOCK_BYTES)
    if block:
        other.sendall(block)
    else:
        other.shutdown(socket.SHUT_WR)
    return bool(block)
