"""The door to registries: documents and artifacts over HTTP, bounded, retried, resumed, verified while they arrive."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from packager.base.digests import BLOCK_BYTES, Digest
from packager.base.errors import IntegrityError, WorldError
from packager.lock.clients import without_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import requests

    from packager.lock.clients import Clients
    from packager.store.store import Store

DOCUMENT_BYTES = 256 << 20
ARTIFACT_BYTES = 8 << 30
ATTEMPTS = 5
ABSENT = frozenset({403, 404, 410})
"""What registries say of pages that they do not have; some say 403 for names that cannot exist."""


_RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_PAUSE_S = 60.0
_TIMEOUT_S = (30.0, 120.0)
_PARTIAL = 206
_OK = 200
_BAD = 400
_FORBIDDEN = 403


@dataclass(frozen=True)
class Document:
    """A small answer held in memory; `url` is where it came from after redirects."""

    status: int
    media_type: str
    body: bytes
    url: str


@dataclass(frozen=True)
class Artifact:
    """An answer kept in the store; without digest when the registry does not have it."""

    status: int
    media_type: str = ""
    digest: Digest | None = None
    size: int = 0


@dataclass(frozen=True)
class Expected:
    """What an artifact's bytes must be; `where` names it in complaints."""

    where: str
    digest: Digest | None = None
    size: int | None = None


class _Sink(Protocol):
    def write(self, block: bytes, /) -> object:
        """Take one block."""


class Upstream:
    """Fetches from registries with the machine's certificates and proxy; safe to use from several threads."""

    def __init__(self, clients: Clients, *, pause: Callable[[float], None] = time.sleep) -> None:
        self.clients = clients
        self._pause = pause
        self._local = threading.local()

    def document(self, url: str, *, accept: str = "*/*", limit: int = DOCUMENT_BYTES) -> Document:
        """Return a document, also when its status says that it is absent; anything else but success is a WorldError."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._document(url, accept, limit)
            except WorldError as error:
                self._wait(error, attempt)
        raise AssertionError("the last attempt returns or raises")

    def artifact(self, url: str, store: Store, expected: Expected) -> Artifact:
        """Bring an artifact into the store; an interrupted transfer goes on where it stopped."""
        with store.writer(expected.digest, expected.size) as writer:
            transfer = _Transfer(writer, expected)
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    status, media_type = self._transfer(url, transfer)
                except WorldError as error:
                    self._wait(error, attempt)
                else:
                    break
            if status == _FORBIDDEN:
                raise WorldError("the registry refuses it with status 403", where=expected.where)
            if status in ABSENT:
                return Artifact(status)
            try:
                digest, size = writer.commit()
            except IntegrityError as error:
                raise IntegrityError(error.reason, where=expected.where, hint=error.hint) from error
        return Artifact(_OK, media_type, digest, size)

    def _wait(self, error: WorldError, attempt: int) -> None:
        if not error.retryable or attempt == ATTEMPTS:
            raise error
        self._pause(_pause_of(error, attempt))

    def _document(self, url: str, accept: str, limit: int) -> Document:
        with self._get(url, {"Accept": accept}) as response:
            body = bytearray()
            for block in _blocks(response):
                body += block
                if len(body) > limit:
                    raise WorldError(f"expected at most {limit} bytes, found more", where=without_credentials(url))
            return Document(response.status_code, _media_type(response), bytes(body), response.url)

    def _transfer(self, url: str, transfer: _Transfer) -> tuple[int, str]:
        headers = {"Accept": "*/*"}
        if transfer.done:
            headers["Range"] = f"bytes={transfer.done}-"
        with self._get(url, headers) as response:
            if response.status_code in ABSENT:
                return response.status_code, ""
            transfer.take(response)
            return _OK, _media_type(response)

    def _get(self, url: str, headers: Mapping[str, str]) -> requests.Response:
        import requests  # noqa: PLC0415 - slow to import, and a build with nothing to do does not need it

        shown = without_credentials(url)
        try:
            response = self._session().get(url, headers=dict(headers), stream=True, timeout=_TIMEOUT_S)
        except requests.exceptions.SSLError as error:
            raise WorldError(f"the connection is not trusted: {_why(error)}", where=shown, hint=_CA_HINT) from error
        except requests.exceptions.RequestException as error:
            raise WorldError(f"no answer: {_why(error)}", where=shown, retryable=True) from error
        status = response.status_code
        secure_before = any(urlsplit(step.url).scheme == "https" for step in response.history)
        if secure_before and urlsplit(response.url).scheme != "https":
            response.close()
            raise WorldError("refused to be redirected from https to http", where=shown)
        if status >= _BAD and status not in ABSENT:
            response.close()
            raise _StatusError(status, response.headers.get("Retry-After", ""), shown)
        return response

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            self._local.session = self.clients.session()
        session: requests.Session = self._local.session
        return session


class _StatusError(WorldError):
    """An answer that is neither success nor absence; keeps how long the registry wants us to wait."""

    def __init__(self, status: int, retry_after: str, where: str) -> None:
        super().__init__(f"expected status 200, found {status}", where=where, retryable=status in _RETRYABLE)
        self.retry_after = retry_after


class _Transfer:
    """What has arrived of one artifact over however many connections."""

    def __init__(self, sink: _Sink, expected: Expected) -> None:
        self._sink = sink
        self._expected = expected
        self.done = 0

    def take(self, response: requests.Response) -> None:
        """Take the rest of the bytes; a server that ignores the wish for a range sends what is here already again."""
        skip = 0 if response.status_code == _PARTIAL else self.done
        limit = ARTIFACT_BYTES if self._expected.size is None else self._expected.size
        for arrived in _blocks(response):
            block = arrived[skip:]
            skip = max(0, skip - len(arrived))
            self.done += len(block)
            if self.done > limit:
                raise IntegrityError(f"expected {limit} bytes, found more", where=self._expected.where)
            self._sink.write(block)
        size = self._expected.size
        if size is not None and self.done < size:
            raise WorldError(
                f"expected {size} bytes, found {self.done}", where=self._expected.where, retryable=bool(response.ok)
            )


_CA_HINT = "set SSL_CERT_FILE to the file of certificates that this machine trusts"


def _blocks(response: requests.Response) -> Iterator[bytes]:
    import requests  # noqa: PLC0415 - imported already where a response exists

    length = response.headers.get("Content-Length", "")
    got = 0
    try:
        for block in response.iter_content(BLOCK_BYTES):
            got += len(block)
            yield block
    except requests.exceptions.RequestException as error:
        where = without_credentials(response.url)
        raise WorldError(f"the connection broke off: {_why(error)}", where=where, retryable=True) from error
    if length.isdigit() and got < int(length) and "Content-Encoding" not in response.headers:
        where = without_credentials(response.url)
        raise WorldError(f"expected {length} bytes, found {got}", where=where, retryable=True)


def _media_type(response: requests.Response) -> str:
    declared: str = response.headers.get("Content-Type", "")
    return declared.partition(";")[0].strip().lower() or "application/octet-stream"


def _pause_of(error: WorldError, attempt: int) -> float:
    wanted = error.retry_after if isinstance(error, _StatusError) else ""
    seconds = float(wanted) if wanted.isdigit() else 0.5 * 2**attempt
    return min(seconds, _LONGEST_PAUSE_S)


def _why(error: Exception) -> str:
    """Return the innermost cause, without the URL that outer ones repeat (it may hold a password)."""
    cause: BaseException = error
    while cause.__cause__ is not None or cause.__context__ is not None:
        cause = cause.__cause__ or cause.__context__ or cause
    return type(cause).__name__ if "://" in str(cause) else f"{type(cause).__name__}: {cause}"[:200]
