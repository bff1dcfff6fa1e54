"""The gateway between an agent and its model: one endpoint, counted and capped, with a credential that it adds itself.

It listens on a Unix socket; a relay carries a sandbox's loopback port there. Whatever else is asked of it is refused by
name, as JSON that clients of models show.
"""

from __future__ import annotations

import http.client
import json
import time
from http import HTTPStatus
from typing import IO, TYPE_CHECKING

from packager.agents.hosted import hosted_wish
from packager.agents.tally import Tally
from packager.agents.upstream import Upstream, UpstreamError
from packager.sandbox.http1 import BadRequestError, read_body, read_head
from packager.sandbox.relay import address_of, unix_socket
from packager.sandbox.serving import Connections

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from packager.agents.credential import Credential
    from packager.agents.endpoint import Endpoint
    from packager.agents.tally import Caps, Counts
    from packager.agents.upstream import Answering
    from packager.sandbox.http1 import Head

_MAX_CONNECTIONS = 16
_BACKLOG = 64
_PATIENCE = 100
_SLOW_S = 0.1
"""After so many refusals each takes a while: an agent that asks for ever must not keep this machine busy."""


class Gateway:
    """Passes requests on to one endpoint while the caps allow it; closed, it leaves nothing behind."""

    def __init__(self, endpoint: Endpoint, credential: Credential | None, caps: Caps) -> None:
        self._endpoint = endpoint
        self._tally = Tally(caps)
        self._connections = Connections(self._serve, most=_MAX_CONNECTIONS)
        self._upstream = Upstream(endpoint, credential, caps, self._connections.ending)
        self._path: Path | None = None

    def start(self, path: Path) -> None:
        """Listen on a Unix socket at `path`, for this user alone."""
        listener = unix_socket()
        listener.settimeout(None)
        with address_of(path) as address:
            listener.bind(address)
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        self._path = path
        self._connections.start(listener)

    def close(self) -> Counts:
        """End every connection, remove the socket, and return what was counted."""
        self._connections.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self._connections.raise_first()
        return self._tally.counts()

    def _serve(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            try:
                again = True
                while again:
                    head = read_head(stream)
                    again = head is not None and self._exchange(connection, stream, head)
            except BadRequestError as error:
                self._refuse(connection, error.status, f"refused: {error}", keep=False)

    def _exchange(self, connection: socket.socket, stream: IO[bytes], head: Head) -> bool:
        """Read a request to its end and answer it; return whether another may follow."""
        body = read_body(stream, head, lambda: connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n"))
        keep = head.keep_alive and head.method != "CONNECT"
        problem = (
            self._endpoint.problem(head)
            or hosted_wish(head.headers, body)
            or self._tally.take(len(body), counts=self._endpoint.counts(head))
        )
        if problem:
            self._refuse(connection, HTTPStatus.FORBIDDEN, problem, keep=keep)
            return keep
        status, whole = 0, False
        try:
            with self._upstream.ask(head, body) as answer:
                status = answer.status
                self._pass_on(connection, answer, keep=keep)
                whole = True
        except UpstreamError as error:
            _send_error(connection, error.status, str(error), keep=keep)
        except http.client.HTTPException as error:  # the agent must see a broken answer, not a short one
            raise ConnectionAbortedError from error
        finally:
            self._tally.end(status, whole=whole)
        return keep

    def _pass_on(self, connection: socket.socket, answer: Answering, *, keep: bool) -> None:
        """Send an answer while it comes, in chunks where its size is not known; beyond a cap it breaks off."""
        chunked = answer.size is None
        framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (answer.size or 0)
        lines = (*answer.lines, framing, b"Connection: keep-alive" if keep else b"Connection: close")
        connection.sendall(_head(answer.status, lines))
        for block in answer.blocks:
            if not self._tally.carry(len(block)):
                raise ConnectionAbortedError
            if block:
                connection.sendall(b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
        if chunked:
            connection.sendall(b"0\r\n\r\n")

    def _refuse(self, connection: socket.socket, status: int, text: str, *, keep: bool) -> None:
        if self._tally.refuse(text) > _PATIENCE:
            time.sleep(_SLOW_S)
        _send_error(connection, status, text, keep=keep)


def _send_error(connection: socket.socket, status: int, text: str, *, keep: bool) -> None:
    body = json.dumps({"error": {"type": "wideswe_gateway", "message": text}}).encode() + b"\n"
    framing = (b"Content-Type: application/json", b"Content-Length: %d" % len(body))
    connection.sendall(_head(status, (*framing, b"Connection: keep-alive" if keep else b"Connection: close")) + body)


def _head(status: int, lines: tuple[bytes, ...]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Answer"
    return b"\r\n".join((f"HTTP/1.1 {int(status)} {phrase}".encode(), *lines, b"", b""))
