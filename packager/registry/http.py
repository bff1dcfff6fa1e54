"""One HTTP request and its answer, over requests: no redirects, cookies, proxies, netrc or decoding of its own."""

from __future__ import annotations

import os
import random
import ssl
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Protocol, Self

import requests
import urllib3
from requests.adapters import HTTPAdapter

from packager.base.digests import BLOCK_BYTES
from packager.base.errors import WorldError
from packager.registry.origins import without_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_POOL = 16
_DRAIN_BYTES = 1 << 16
_AGENT = "wideswe-pack"


class Body(Protocol):
    """A request's body that can be sent more than once: its size, and its blocks from the start."""

    def __len__(self) -> int:
        """Return the size in bytes."""

    def __iter__(self) -> Iterator[bytes]:
        """Return the blocks."""


@dataclass(frozen=True)
class Pacing:
    """How patient we are: tries per call, waits between them, time limits, and the clock that all of it uses."""

    attempts: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0
    connect_s: float = 15.0
    read_s: float = 60.0
    slowest_bytes_per_s: int = 1024
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random

    def wait(self, attempt: int, asked_s: float = 0.0) -> None:
        """Sleep before try number `attempt` + 1 (0 is the first): doubling with jitter, or as long as was asked for."""
        own = self.first_wait_s * 2**attempt * (0.5 + self.jitter() / 2)
        self.sleep(min(self.longest_wait_s, max(own, asked_s)))


@dataclass(frozen=True)
class Request:
    """One request to an absolute URL; `where` names registry, repository and thing for error texts."""

    method: str
    url: str
    where: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Body = b""


class Response:
    """The status and headers of an answer, and its body as it comes; to be closed."""

    def __init__(self, answer: requests.Response, *, where: str, pacing: Pacing) -> None:
        self._answer = answer
        self._where = where
        self._pacing = pacing
        self.status = answer.status_code
        self.headers: Mapping[str, str] = answer.headers
        self.url = str(answer.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection back for the next request if little is left to read of it, else close it."""
        left = self._answer.raw.length_remaining
        try:
            if left is not None and left <= _DRAIN_BYTES:
                self._answer.raw.drain_conn()
        except (urllib3.exceptions.HTTPError, OSError):
            pass
        finally:
            self._answer.close()

    def blocks(self) -> Iterator[bytes]:
        """Yield the body; WorldError (retryable) if it ends early, stalls, or comes slower than is bearable."""
        pacing = self._pacing
        since, count = pacing.now(), 0
        while block := self._read():
            yield block
            count += len(block)
            seconds = pacing.now() - since
            if seconds < pacing.read_s:
                continue
            if count < pacing.slowest_bytes_per_s * seconds:
                reason = f"stalled: {count} bytes in {seconds:.0f} s, expected {pacing.slowest_bytes_per_s} a second"
                raise WorldError(reason, where=self._where, retryable=True)
            since, count = pacing.now(), 0

    def body(self, limit: int) -> bytes:
        """Return the whole body; WorldError if it is larger than `limit` bytes."""
        found = bytearray()
        for block in self.blocks():
            found += block
            if len(found) > limit:
                raise WorldError(f"expected an answer of at most {limit} bytes, found more", where=self._where)
        return bytes(found)

    def retry_after_s(self) -> float:
        """Return how long the registry asks us to wait (seconds, or a date against its own clock), else 0."""
        text = self.headers.get("Retry-After", "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:9])
        try:
            until, now = (parsedate_to_datetime(value) for value in (text, self.headers.get("Date", "")))
            return max(0.0, (until - now).total_seconds())
        except (ValueError, TypeError):
            return 0.0

    def _read(self) -> bytes:
        try:
            block: bytes = self._answer.raw.read1(BLOCK_BYTES, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _lost(error, where=self._where) from error
        return block


class HttpDoor:
    """Sends single requests; the one place that touches the network. Safe to use from many threads."""

    def __init__(self, pacing: Pacing, environ: Mapping[str, str]) -> None:
        self.pacing = pacing
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.verify = _ca_bundle(environ)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=_POOL, max_retries=0))

    def send(self, request: Request) -> Response:
        """Send one request and return its answer, whatever the status; WorldError if there is none."""
        headers = {"Accept-Encoding": "identity", "User-Agent": _AGENT, **request.headers}
        try:
            answer = self._session.request(
                request.method,
                request.url,
                data=request.body if len(request.body) else b"",
                headers=headers,
                allow_redirects=False,
                stream=True,
                timeout=(self.pacing.connect_s, self.pacing.read_s),
            )
        except requests.exceptions.SSLError as error:
            raise WorldError(f"TLS failed: {_deepest(error)}", where=request.where, hint=_tls_hint(error)) from error
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise _lost(error, where=f"{request.where}: {request.method} {without_query(request.url)}") from error
        return Response(answer, where=request.where, pacing=self.pacing)

    def close(self) -> None:
        """Close all connections."""
        self._session.close()


def _ca_bundle(environ: Mapping[str, str]) -> str | bool:
    """Return the CA file or folder that OpenSSL would use (SSL_CERT_FILE, SSL_CERT_DIR, the system's)."""
    named = environ.get("SSL_CERT_FILE")
    if named and not os.path.isfile(named):  # noqa: PTH113 - a path from the environment, used as text
        raise WorldError("SSL_CERT_FILE does not name a file", where=named, hint="unset it, or correct it")
    paths = ssl.get_default_verify_paths()
    return named or paths.cafile or paths.capath or True


def _lost(error: BaseException, *, where: str) -> WorldError:
    hint = "check the host's name and the network, then try again"
    return WorldError(f"no answer, or only a part of it: {_deepest(error)}", where=where, hint=hint, retryable=True)


def _tls_hint(error: BaseException) -> str:
    if "WRONG_VERSION_NUMBER" in str(error):
        return "the registry seems to speak plain http; that must be allowed for it explicitly"
    return "the certificate must be signed by a CA of the system's bundle (SSL_CERT_FILE names another)"


def _deepest(error: BaseException) -> str:
    """Return the text of the first cause: the outer ones repeat it with object addresses and URLs."""
    seen = error
    while (inner := seen.__cause__ or seen.__context__) is not None:
        seen = inner
    text = str(seen) or type(seen).__name__
    return text[:200]
