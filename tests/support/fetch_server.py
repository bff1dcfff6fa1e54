"""A plain HTTP proxy on loopback around a FetchSource, for clients that speak to alias hosts; it has no TLS."""

from __future__ import annotations

import contextlib
import os
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from packager.sandbox.fetches import Request
from tests.support.http_server import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.sandbox.fetches import FetchSource


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    source: ClassVar[FetchSource]

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        parts = urlsplit(self.path)
        request = Request(
            method=self.command,
            scheme=parts.scheme,
            host=parts.hostname or "",
            port=parts.port or 80,
            path=parts.path + (f"?{parts.query}" if parts.query else ""),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )
        answer = self.source.answer(request)
        body = answer.body if isinstance(answer.body, bytes) else answer.body.read_bytes()
        status, extra = answer.status, {}
        wanted = self.headers.get("Range", "")
        if wanted.startswith("bytes=") and wanted.endswith("-") and status == 200:
            start = int(wanted[6:-1])
            extra["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            body, status = body[start:], 206
        self.send_response(status)
        for name, value in {"Content-Type": answer.media_type, "Content-Length": str(len(body)), **extra}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serve(source: FetchSource) -> Iterator[Mapping[str, str]]:
    """Serve a source; give the environment in which clients use it: proxy, alias hosts, no settings of this machine."""
    handler = type("Handler", (_Handler,), {"source": source})
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYENV_VERSION", "PYENV_ROOT") if name in os.environ}
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "npm_config_proxy", "npm_config_https_proxy")
    with LoopbackServer(handler) as server:
        yield {**kept, **dict.fromkeys(names, server.url), **source.environment()}
