"""A model endpoint over real HTTP on loopback that behaves as its paths say, well or badly."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from packager.sandbox.relay import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "sk-wide-0123456789abcdef"
STALL_S = 30.0


@dataclass
class FakeModel:
    """Where it is, and what it was asked: method, path, headers (lower-case names) and body of each request."""

    url: str
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    @property
    def model(self) -> FakeModel:
        return self.server.model  # type: ignore[attr-defined, no-any-return]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.model.asked.append((self.command, self.path, headers, body))
        word = self.path.partition("?")[0].rpartition("/")[2]
        with contextlib.suppress(OSError):
            getattr(self, f"_{word}", self._ok)(headers, body)

    do_GET = do_POST  # noqa: N815 - the server's own name

    def _whole(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _ok(self, _headers: dict[str, str], body: bytes) -> None:
        self._whole(json.dumps({"number": len(self.model.asked), "size": len(body)}).encode())

    def _echo(self, headers: dict[str, str], body: bytes) -> None:
        said = json.dumps({"headers": headers, "body": body.decode()}).encode()
        self._whole(said, X_Told=headers.get("authorization", ""), Set_Cookie="a=b")

    def _limited(self, _headers: dict[str, str], _body: bytes) -> None:
        self._whole(b'{"error": "slow down"}', 429, Retry_After="1")

    def _broken(self, _headers: dict[str, str], _body: bytes) -> None:
        self._whole(b"oops", 500)

    def _redirect(self, _headers: dict[str, str], _body: bytes) -> None:
        self._whole(b"", 302, Location="http://elsewhere.example/")

    def _zipped(self, headers: dict[str, str], _body: bytes) -> None:
        self._whole(gzip.compress(str(headers).encode()), Content_Encoding="gzip")

    def _stall(self, _headers: dict[str, str], _body: bytes) -> None:
        self.model.stopped.wait(STALL_S)

    def _short(self, _headers: dict[str, str], _body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"only this")
        self.close_connection = True

    def _chunks(self, pieces: Iterator[bytes], wait_s: float = 0.0) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()
            if wait_s and self.model.stopped.wait(wait_s):
                return
        self.wfile.write(b"0\r\n\r\n")

    def _events(self, _headers: dict[str, str], _body: bytes) -> None:
        self._chunks(b"data: %d\n\n" % number for number in range(3))

    def _split(self, headers: dict[str, str], _body: bytes) -> None:
        told = headers.get("authorization", "").encode()
        self._chunks(iter((told[:12], told[12:20], told[20:] + b" and " + told, b" sk-wi")))

    def _drip(self, _headers: dict[str, str], _body: bytes) -> None:
        self._chunks((b"." for _ in range(1000)), 0.2)

    def _flood(self, _headers: dict[str, str], _body: bytes) -> None:
        block = b"x" * 65536
        self._chunks(iter(lambda: block, None))

    def _nonsense(self, _headers: dict[str, str], _body: bytes) -> None:
        self.wfile.write(b"this is no HTTP\r\n\r\n")
        self.close_connection = True


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    model: Any

    def handle_error(self, *_: Any) -> None: ...


@contextlib.contextmanager
def fake_model() -> Iterator[FakeModel]:
    """Serve until the block is left."""
    with Server(("127.0.0.1", 0), _Answers) as server:
        server.model = FakeModel(f"http://127.0.0.1:{server.server_address[1]}/v1")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.model
        finally:
            server.model.stopped.set()
            server.shutdown()
            thread.join()


class UnixClient(http.client.HTTPConnection):
    """An ordinary client of the gateway's socket."""

    def __init__(self, path: Path, timeout_s: float = 20.0) -> None:
        super().__init__("model.invalid", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket in place of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with address_of(self._path) as address:
            self.sock.connect(address)


def wait_until(holds: Any, seconds: float = 10.0) -> None:
    """Wait until a thing holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)
