"""One request to a model endpoint and its answer, passed on while it comes."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from packager.agents.credential import Redaction
from packager.sandbox.http1 import HOP_BY_HOP

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from packager.agents.credential import Credential
    from packager.agents.endpoint import Endpoint
    from packager.agents.tally import Caps
    from packager.sandbox.http1 import Head

_CONNECT_S = 30.0
_BLOCK_BYTES = 64 << 10
_OURS = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "accept-encoding", "authorization", "x-api-key", "api-key"),
        *("x-goog-api-key", "cookie", "forwarded", "via", "x-forwarded-for", "x-real-ip"),
    )
)
_THEIRS = frozenset(("content-length", "transfer-encoding", "set-cookie", "alt-svc", "location", "keep-alive"))
_REDIRECTS = range(300, 400)
_WITHOUT_BODY = (204, 304)


class UpstreamError(Exception):
    """The model endpoint gave no answer that can be passed on; `status` is what the agent is told."""

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Answering:
    """An answer whose body is still to come."""

    status: int
    lines: tuple[bytes, ...]
    size: int | None
    """How long the body is; None if nobody knows yet."""
    blocks: Iterator[bytes]


@dataclass(frozen=True)
class Upstream:
    """Asks the endpoint; `ending` gives a socket's life to whoever closes all at the end of a run."""

    endpoint: Endpoint
    credential: Credential | None
    caps: Caps
    ending: Callable[[socket.socket], AbstractContextManager[None]]

    @contextlib.contextmanager
    def ask(self, head: Head, body: bytes) -> Iterator[Answering]:
        """Send a request and give the answer; the block reads its body."""
        until = time.monotonic() + self.caps.answer_s
        with contextlib.ExitStack() as held:
            try:
                connection = self._connected()
                held.callback(connection.close)
                held.enter_context(self.ending(connection.sock))
                self._send(connection, head, body)
                answer = connection.getresponse()
            except TimeoutError as error:
                raise UpstreamError(f"{self._name} said nothing for too long", status=504) from error
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
                raise UpstreamError(f"{self._name} cannot be asked: {reason}", status=502) from error
            held.callback(answer.close)
            yield self._answering(answer, until)

    @property
    def _name(self) -> str:
        return f"the model endpoint {self.endpoint.authority}"

    def _connected(self) -> http.client.HTTPConnection:
        place = (self.endpoint.host, self.endpoint.port)
        if self.endpoint.scheme == "https":
            context = ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                *place, timeout=_CONNECT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(*place, timeout=_CONNECT_S)
        connection.connect()
        connection.sock.settimeout(self.caps.idle_s)
        return connection

    def _send(self, connection: http.client.HTTPConnection, head: Head, body: bytes) -> None:
        connection.putrequest(head.method, head.target, skip_host=True, skip_accept_encoding=True)
        named = {name.strip().lower() for name in head.headers.get("connection", "").split(",")}
        own = "" if self.credential is None else self.credential.header.lower()
        for name, value in head.headers.items():
            if name not in HOP_BY_HOP | _OURS | named | {own}:
                connection.putheader(name, value.encode("latin-1"))
        connection.putheader("Host", self.endpoint.authority)
        connection.putheader("Accept-Encoding", "identity")
        if body or head.method == "POST":
            connection.putheader("Content-Length", str(len(body)))
        if self.credential is not None:
            connection.putheader(self.credential.header, self.credential.value)
        connection.endheaders(body or None)

    def _answering(self, answer: http.client.HTTPResponse, until: float) -> Answering:
        status = answer.status
        if status in _REDIRECTS and status != HTTPStatus.NOT_MODIFIED:
            raise UpstreamError(f"{self._name} redirects, and no redirect is followed", status=502)
        coding = answer.headers.get("Content-Encoding", "identity").lower()
        if coding != "identity":
            raise UpstreamError(f"{self._name} encodes its answers, though asked not to", status=502)
        secret = b"" if self.credential is None else self.credential.secret
        lines = []
        for name, value in answer.headers.items():
            if name.lower() in HOP_BY_HOP | _THEIRS:
                continue
            line = f"{name}: {value}".encode("latin-1", "replace").replace(b"\r", b" ").replace(b"\n", b" ")
            cleaned = Redaction(secret)
            lines.append(cleaned.take(line) + cleaned.end())
        length = answer.length if answer.headers.get("Content-Length") is not None else None
        size = 0 if status in _WITHOUT_BODY else length
        return Answering(status, tuple(lines), size, self._blocks(answer, secret, until))

    def _blocks(self, answer: http.client.HTTPResponse, secret: bytes, until: float) -> Iterator[bytes]:
        """Yield the body; one that breaks off, stalls or takes too long raises an OSError or HTTPException."""
        cleaned = Redaction(secret)
        expected, found = answer.length, 0
        while block := answer.read1(_BLOCK_BYTES):
            found += len(block)
            yield cleaned.take(block)
            if time.monotonic() > until:
                raise TimeoutError
        yield cleaned.end()
        if expected is not None and found != expected:
            raise ConnectionAbortedError
