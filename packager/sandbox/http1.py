"""HTTP/1.1 as a proxy reads and writes it (RFC 9112): strict, bounded, and no more than package clients need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from packager.sandbox.fetches import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_LINE_BYTES = 64 << 10
MAX_HEADERS = 200
MAX_BODY_BYTES = 32 << 20
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_VERSION = re.compile(rb"HTTP/1\.[01]")
_TARGET = re.compile(rb"[\x21-\x7e]+")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_.])?", re.ASCII)
_HEXADECIMAL = re.compile(rb"[0-9A-Fa-f]{1,8}")
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
HOP_BY_HOP = frozenset(
    ("connection", "expect", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade")
)
_OURS = frozenset(("content-length", "transfer-encoding", "range", "if-range"))
"""The proxy has read the body whole and cuts ranges itself; a source answers with all of a file."""


class BadRequestError(Exception):
    """What a client sent is not HTTP as this proxy understands it; answered with `status` and the text."""

    def __init__(self, text: str, *, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Place(NamedTuple):
    """Where a request goes."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True)
class Head:
    """A request's first line and headers (names in lower case, equal names joined by a comma)."""

    method: str
    target: str
    keep_alive: bool
    headers: Mapping[str, str]

    def to_request(self, inside: Place | None, body: bytes) -> Request:
        """Return the request; `inside` is the place that a CONNECT named, None outside of a tunnel."""
        place, path = (inside, self.target) if inside is not None and self.target.startswith("/") else self._absolute()
        dropped = HOP_BY_HOP | _OURS | {name.strip().lower() for name in self.headers.get("connection", "").split(",")}
        kept = {name: value for name, value in self.headers.items() if name not in dropped}
        return Request(self.method, place.scheme, place.host, place.port, path, kept, body)

    def _absolute(self) -> tuple[Place, str]:
        parts = urlsplit(self.target)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise BadRequestError(f"expected a URL, as proxies are asked, found {self.target[:200]!r}")
        place = parse_place(parts.netloc.rpartition("@")[2], scheme=parts.scheme)
        path = parts.path or "/"
        return place, f"{path}?{parts.query}" if parts.query else path


def parse_place(text: str, *, scheme: str) -> Place:
    """Parse `host` or `host:port`; an IPv6 address stands in brackets."""
    host, found, port = text.rpartition(":")
    if not found or text.endswith("]"):
        host, port = text, "443" if scheme == "https" else "80"
    host = host.lower()
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_address = bare != host and re.fullmatch(r"[0-9a-f:.]{2,45}", bare) is not None
    if not (is_address or _HOST.fullmatch(host)) or not port.isascii() or not port.isdecimal():
        raise BadRequestError(f"expected a host and a port, found {text[:200]!r}")
    number = int(port[:6])
    if not 0 < number < 1 << 16:
        raise BadRequestError(f"expected a port, found {port[:10]!r}")
    return Place(scheme, bare, number)


def read_head(stream: IO[bytes]) -> Head | None:
    """Read a request's head; None if the client is gone before its first byte."""
    line = _read_line(stream)
    if line is None:
        return None
    if not line:
        line = _read_line(stream) or b""  # RFC 9112 2.2: one empty line before a request is ignored
    words = line.split(b" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or not _TARGET.fullmatch(words[1]):  # noqa: PLR2004
        raise BadRequestError(f"expected a request line, found {line[:100]!r}")
    if not _VERSION.fullmatch(words[2]):
        raise BadRequestError(f"expected HTTP/1.1, found {words[2][:20]!r}", status=505)
    headers = _read_headers(stream)
    wishes = headers.get("connection", headers.get("proxy-connection", "")).lower()
    keep_alive = "close" not in wishes if words[2].endswith(b"1.1") else "keep-alive" in wishes
    return Head(words[0].decode(), words[1].decode(), keep_alive, headers)


def _read_line(stream: IO[bytes]) -> bytes | None:
    line = stream.readline(MAX_LINE_BYTES + 1)
    if not line:
        return None
    if not line.endswith(b"\r\n"):
        raise BadRequestError("a line is too long or does not end with CR LF")
    return line[:-2]


def _read_headers(stream: IO[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = _read_line(stream)
        if line is None:
            raise BadRequestError("the head ends early")
        if not line:
            return headers
        name, found, value = line.partition(b":")
        text = value.strip(b" \t").decode("latin-1")
        if not found or not _TOKEN.fullmatch(name) or re.search("[\0\r\n]", text):
            raise BadRequestError(f"expected a header, found {line[:100]!r}")
        key = name.decode().lower()
        if key in headers and key in ("content-length", "transfer-encoding", "host") and headers[key] != text:
            raise BadRequestError(f"{key} is there twice")
        headers[key] = text if key not in headers or headers[key] == text else f"{headers[key]}, {text}"
    raise BadRequestError(f"more than {MAX_HEADERS} headers", status=431)


def read_body(stream: IO[bytes], head: Head, go_on: Callable[[], None]) -> bytes:
    """Read a request's body whole; `go_on` is called first when the client waits to be asked for it."""
    coding = head.headers.get("transfer-encoding")
    length = head.headers.get("content-length")
    if coding is None and length is None:
        return b""
    if coding is not None and (coding.lower() != "chunked" or length is not None):
        raise BadRequestError(f"transfer-encoding {coding[:50]!r} with content-length {length!r}", status=501)
    if length is not None and not (length.isascii() and length.isdecimal()):
        raise BadRequestError(f"expected a content-length, found {length[:50]!r}")
    if length is not None and (len(length) > 18 or int(length) > MAX_BODY_BYTES):  # noqa: PLR2004
        raise BadRequestError(f"a body of more than {MAX_BODY_BYTES} bytes", status=413)
    if head.headers.get("expect", "").lower() == "100-continue":
        go_on()
    return _read_chunks(stream) if length is None else _read_exactly(stream, int(length))


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise BadRequestError(f"expected {size} bytes of body, found {len(data)}")
    return data


def _read_chunks(stream: IO[bytes]) -> bytes:
    whole = bytearray()
    while True:
        line = (_read_line(stream) or b"").partition(b";")[0].strip()
        if not _HEXADECIMAL.fullmatch(line):
            raise BadRequestError(f"expected a chunk's size, found {line[:50]!r}")
        size = int(line, 16)
        if len(whole) + size > MAX_BODY_BYTES:
            raise BadRequestError(f"a body of more than {MAX_BODY_BYTES} bytes", status=413)
        if size == 0:
            _read_headers(stream)
            return bytes(whole)
        whole += _read_exactly(stream, size)
        if _read_line(stream) != b"":
            raise BadRequestError("a chunk is longer than it says")


def find_range(head: Head, size: int) -> tuple[int, int] | None:
    """Return the (first, end) that a request asks for of `size` bytes; None for all of it.

    More than one range, or one bound to a version by If-Range, gets all (RFC 9110 14.2 allows it). A range outside
    the file raises BadRequestError 416.
    """
    match = _RANGE.fullmatch(head.headers.get("range", "").replace(" ", ""))
    if head.method not in ("GET", "HEAD") or match is None or "if-range" in head.headers or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        span = (max(0, size - int(last)), size)
    else:
        span = (int(first), min(int(last) + 1, size) if last else size)
        if last and int(last) < int(first):
            return None
    if span[0] >= size or span[0] >= span[1]:
        raise BadRequestError(f"bytes */{size}", status=416)
    return span
