"""A registry on loopback made of plain files: what is in its table is served, all else is absent.

It is an HTTP proxy, too, so that it can be a registry at any host that a test makes up.
"""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from tests.support.http_server import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Mapping


class SmallRegistry(LoopbackServer):
    """Serves bytes by path (with query, if there is one), whatever the host, and notes what it is asked."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)
        self.asked: list[str] = []
        super().__init__(type("Handler", (_Handler,), {"registry": self}))


class _Handler(BaseHTTPRequestHandler):
    registry: SmallRegistry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = re.sub(r"^http://[^/]+", "", self.path)
        self.registry.asked.append(path)
        found = self.registry.files.get(path)
        body = b"absent\n" if found is None else found
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass
