"""All that a sandboxed command can reach: a proxy on its loopback that asks a FetchSource for each answer."""

from __future__ import annotations

import socket
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING

from packager.base.errors import PackError
from packager.sandbox.authority import Authority
from packager.sandbox.fetches import Answer
from packager.sandbox.http1 import BadRequestError, Head, Place, find_range, parse_place, read_body, read_head
from packager.sandbox.identity import CA_PATH, JAVA_TRUST_PATH
from packager.sandbox.serving import IDLE_S, Connections

if TYPE_CHECKING:
    from packager.sandbox.fetches import FetchSource

_BLOCK_BYTES = 256 << 10
_MAX_CONNECTIONS = 128
_TLS_FIRST_BYTE = 0x16
_WITHOUT_BODY = (204, 304)
REFUSED = 599
"""The status of what no source knows; no client takes it for a temporary trouble of a real server."""


class Proxy:
    """Serves one source over a listening socket, in threads; closed, it leaves nothing behind."""

    def __init__(self, source: FetchSource, ca_file: Path) -> None:
        """Make a fresh authority and write what clients must trust to `ca_file`, and beside it what Java reads."""
        self._source = source
        self._authority = Authority()
        self._connections = Connections(self._serve, most=_MAX_CONNECTIONS)
        self.ca_file = ca_file
        self.trusted = {ca_file: CA_PATH, ca_file.with_suffix(".p12"): JAVA_TRUST_PATH}
        forms = (self._authority.certificate_pem(), self._authority.java_trust_store())
        for path, data in zip(self.trusted, forms, strict=True):
            path.write_bytes(data)
            path.chmod(0o644)

    def start(self, listener: socket.socket) -> None:
        """Serve what connects to `listener`, which belongs to the proxy from now on."""
        self._connections.start(listener)

    def close(self) -> None:
        """Stop serving, end every connection, and raise what went wrong inside the source, if anything did."""
        self._connections.close()
        for path in self.trusted:
            path.unlink(missing_ok=True)
        self._connections.raise_first()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._converse(connection, None)

    def _converse(self, connection: socket.socket, inside: Place | None) -> None:
        """Answer one request after the other until either side has enough."""
        with connection.makefile("rb") as stream:
            try:
                head = read_head(stream)
                while head is not None and not (head.method == "CONNECT" and inside is None):
                    again = self._exchange(connection, stream, head, inside)
                    head = read_head(stream) if again else None
                place = None if head is None else parse_place(head.target, scheme="https")
            except BadRequestError as error:
                _send(connection, None, Answer(error.status, "text/plain", f"{error}\n".encode()), keep=False)
                return
            if place is not None:
                self._tunnel(connection, place)

    def _tunnel(self, connection: socket.socket, place: Place) -> None:
        """Be the host that a client wants to reach: with TLS, or without where the client speaks plainly."""
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        first = connection.recv(1, socket.MSG_PEEK)
        if not first:
            return
        if first[0] != _TLS_FIRST_BYTE:
            self._converse(connection, place._replace(scheme="http"))
            return
        context = self._authority.context_for(place.host)
        with context.wrap_socket(connection, server_side=True) as secure, self._connections.ending(secure):
            secure.settimeout(IDLE_S)
            self._converse(secure, place)

    def _exchange(self, connection: socket.socket, stream: IO[bytes], head: Head, inside: Place | None) -> bool:
        """Read a request to its end, ask the source and send what it says; return whether another may follow."""
        body = read_body(stream, head, lambda: connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n"))
        request = head.to_request(inside, body)
        try:
            answer = self._source.answer(request)
        except (PackError, OSError) as error:
            answer = Answer(REFUSED, "text/plain; charset=utf-8", f"{error}\n".encode())
        _send(connection, head, answer, keep=head.keep_alive)
        return head.keep_alive


def _send(connection: socket.socket, head: Head | None, answer: Answer, *, keep: bool) -> None:
    """Send an answer, or the part of it that was asked for; a file is streamed."""
    size = len(answer.before) + (answer.body.stat().st_size if isinstance(answer.body, Path) else len(answer.body))
    status, span = answer.status, (0, size)
    lines = [f"Content-Type: {answer.media_type}", f"Connection: {'keep-alive' if keep else 'close'}"]
    lines += [f'ETag: "{answer.etag}"'] if answer.etag else []
    if status == HTTPStatus.OK and head is not None and not answer.before:
        lines.append("Accept-Ranges: bytes")
        try:
            wanted = find_range(head, size)
        except BadRequestError as error:
            status, span = error.status, (0, 0)
            lines.append(f"Content-Range: {error}")
        else:
            if wanted is not None:
                status, span = HTTPStatus.PARTIAL_CONTENT, wanted
                lines.append(f"Content-Range: bytes {span[0]}-{span[1] - 1}/{size}")
    if status not in _WITHOUT_BODY:
        lines.append(f"Content-Length: {span[1] - span[0]}")
    first = "\r\n".join([f"HTTP/1.1 {int(status)} {_reason(status)}", *lines, "", ""]).encode("latin-1", "replace")
    if status in _WITHOUT_BODY or (head is not None and head.method == "HEAD") or span[0] == span[1]:
        connection.sendall(first)
    elif isinstance(answer.body, Path):
        _send_file(connection, first + answer.before, answer.body, (span[0], span[1] - len(answer.before)))
    else:
        connection.sendall(first + (answer.before + answer.body)[span[0] : span[1]])


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Not In The Lock" if status == REFUSED else "Answer"


def _send_file(connection: socket.socket, first: bytes, path: Path, span: tuple[int, int]) -> None:
    left = span[1] - span[0]
    with path.open("rb") as stream:
        stream.seek(span[0])
        connection.sendall(first)
        while left > 0:
            block = stream.read(min(left, _BLOCK_BYTES))
            if not block:
                raise ConnectionAbortedError(path)  # shorter than it was: the client must see a broken answer
            connection.sendall(block)
            left -= len(block)
