"""An HTTP server on loopback for the length of a block: a port of its own, threads that end with it."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from http.server import BaseHTTPRequestHandler

_POLL_S = 0.02


class LoopbackServer:
    """Answers with a handler of `http.server` while its block runs; with `tls`, over HTTPS."""

    def __init__(
        self,
        handler: Callable[..., BaseHTTPRequestHandler],
        *,
        tls: ssl.SSLContext | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        self._server = ThreadingHTTPServer((address, 0), handler)
        self._server.daemon_threads = True
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), daemon=True)
        self.host = f"{address}:{self._server.server_port}"
        self.url = f"{self._scheme}://{self.host}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
