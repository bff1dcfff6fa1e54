"""Serves connections in threads over one listening socket; closed, it leaves nothing behind."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

IDLE_S = 300.0
_CLOSE_S = 5.0


class Connections:
    """Calls `serve` with each connection, in a thread of its own; it ends when that returns. So many at once."""

    def __init__(self, serve: Callable[[socket.socket], None], *, most: int) -> None:
        self._serve = serve
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(most)
        self._faults = _Faults()

    def start(self, listener: socket.socket) -> None:
        """Serve what connects to `listener`, which belongs to this from now on."""
        self._listener = listener
        self._begin(self._accept, listener)

    def close(self) -> None:
        """Stop serving and end every connection."""
        with self._lock:
            ends = [*self._open, *([self._listener] if self._listener else [])]
            threads = list(self._threads)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(_CLOSE_S)
        if self._listener is not None:
            self._listener.close()

    def raise_first(self) -> None:
        """Raise what went wrong inside `serve`, if anything did, once; that a peer went away is nothing wrong."""
        self._faults.raise_first()

    @contextlib.contextmanager
    def ending(self, connection: socket.socket) -> Iterator[None]:
        """End one more socket when this is closed: what `serve` made of a connection, or opened because of it."""
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)

    def _begin(self, work: Callable[[socket.socket], None], connection: socket.socket) -> None:
        thread = _Thread(work, connection, self._faults)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()]
            self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            self._slots.acquire()
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.settimeout(IDLE_S)
            with self._lock:
                self._open.add(connection)
            self._begin(self._hold, connection)

    def _hold(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):  # a peer that goes away is its own affair
                self._serve(connection)
        finally:
            with self._lock:
                self._open.discard(connection)
            self._slots.release()


class _Faults:
    """Keeps the first exception of any thread, so that a bug is not taken for a peer's trouble."""

    def __init__(self) -> None:
        self._first: BaseException | None = None

    def __enter__(self) -> None:
        """Begin to watch."""

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        """Keep what was raised, if it is the first."""
        self._first = self._first or error
        return True

    def raise_first(self) -> None:
        """Raise what was kept, once."""
        first, self._first = self._first, None
        if first is not None:
            raise first


class _Thread(threading.Thread):
    """Does one piece of work; daemonic, since an upstream server may never answer."""

    def __init__(self, work: Callable[[socket.socket], None], connection: socket.socket, faults: _Faults) -> None:
        super().__init__(name="wideswe-proxy", daemon=True)
        self._work = work
        self._connection = connection
        self._watched = faults

    def run(self) -> None:
        """Do the work; what it raises is kept."""
        with self._watched:
            self._work(self._connection)
