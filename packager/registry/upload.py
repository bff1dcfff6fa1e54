"""Sends one blob: not at all if it is there, by mounting it from another repository, whole, or in pieces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.digests import BLOCK_BYTES, digest_of_file
from packager.base.errors import IntegrityError, WorldError
from packager.registry.client import is_digest, pull_scope, push_scope
from packager.registry.exchange import Call, StatusError
from packager.registry.origins import next_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.oci.descriptor import Descriptor
    from packager.registry.client import RegistryClient
    from packager.registry.http import Body, Response
    from packager.registry.parallel import Meter

CHUNK_BYTES = 64 << 20
"""Blobs up to this size go in one piece; larger ones in pieces of it, so that a lost connection costs one piece."""

_MOST_CHUNK_BYTES = 1 << 40
_RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,19})")
_CREATED, _ACCEPTED, _MISSING, _BAD_RANGE = 201, 202, 404, 416


@dataclass(frozen=True)
class FilePart:
    """A part of a file as the body of a request; reports what it sends, and takes it back when it is sent again."""

    path: Path
    start: int
    size: int
    meter: Meter

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[bytes]:
        left = self.size
        self.meter.reach(self.start)
        with self.path.open("rb") as stream:
            stream.seek(self.start)
            while left and (block := stream.read(min(left, BLOCK_BYTES))):
                yield block
                left -= len(block)
                self.meter.reach(self.start + self.size - left)
        if left:
            raise IntegrityError(
                f"expected {self.size} bytes from {self.start}, found {left} less", where=str(self.path)
            )


@dataclass(frozen=True)
class Session:
    """An open upload: where it goes on, and how large the pieces are (a registry may want them larger than we do)."""

    location: str
    chunk_bytes: int


@dataclass(frozen=True)
class Upload:
    """One blob on its way from a file into a repository."""

    client: RegistryClient
    repository: str
    blob: Descriptor
    path: Path
    meter: Meter
    mount_from: str | None = None
    chunk_bytes: int = CHUNK_BYTES

    @property
    def where(self) -> str:
        """How error texts name it."""
        return self.client.where(self.repository, f"blob {self.blob.digest}")

    def run(self) -> None:
        """Make sure that the repository holds the blob; may be run again after any fault."""
        pacing = self.client.exchange.pacing
        self._check_file()
        for attempt in range(pacing.attempts):
            try:
                return self._run_once()
            except WorldError as error:
                refused = isinstance(error, StatusError) and error.code == "DIGEST_INVALID"
                if refused:
                    self._check_digest()
                if attempt + 1 == pacing.attempts or not (error.retryable or refused or _is_lost_session(error)):
                    raise
                asked_s = error.retry_after_s if isinstance(error, StatusError) else 0.0
            pacing.wait(attempt, asked_s)
        raise AssertionError("unreachable")

    def _run_once(self) -> None:
        if not self.is_there():
            session = self.start()
            if session is not None:
                self._send(session)
        self.meter.reach(self.blob.size)

    def is_there(self) -> bool:
        """Ask for the blob's head; what is there under the digest must have the right size."""
        url = self.client.url(self.repository, f"blobs/{self.blob.digest}")
        call = Call("HEAD", url, self.where, pull_scope(self.repository))
        with self.client.exchange.ask(call, wanted={200, _MISSING}) as response:
            size = response.headers.get("Content-Length", "")
            if response.status == _MISSING:
                return False
        if size.isascii() and size.isdigit() and int(size[:19]) != self.blob.size:
            raise IntegrityError(f"the registry holds {size[:19]} bytes, expected {self.blob.size}", where=self.where)
        return True

    def start(self) -> Session | None:
        """Open an upload session, or return None if the blob could be mounted instead."""
        source = self.mount_from if self.mount_from != self.repository else None
        query = f"?mount={self.blob.digest}&from={source}" if source else ""
        url = self.client.url(self.repository, f"blobs/uploads/{query}")
        if source:
            self.client.url(source, "")  # refuses what is not a repository's name
        call = Call("POST", url, self.where, push_scope(self.repository, source), idempotent=False)
        try:
            response = self.client.exchange.ask(call, wanted={_CREATED, _ACCEPTED} if source else {_ACCEPTED})
        except StatusError as error:
            if source is None or error.retryable:
                raise
            plain = Call("POST", url.partition("?")[0], self.where, push_scope(self.repository), idempotent=False)
            response = self.client.exchange.ask(plain, wanted={_ACCEPTED})
        with response:
            if response.status == _CREATED:
                return None
            return Session(self._location(response, url), max(self.chunk_bytes, _least_chunk(response)))

    def _send(self, session: Session) -> None:
        whole = self.blob.size <= session.chunk_bytes
        location = session.location if whole else self._send_chunks(session)
        body: bytes | Body = FilePart(self.path, 0, self.blob.size, self.meter) if whole else b""
        mark = "&" if "?" in location else "?"
        url = f"{location}{mark}digest={self.blob.digest}"
        headers = {"Content-Type": "application/octet-stream"}
        call = Call("PUT", url, self.where, push_scope(self.repository), headers, body, idempotent=False)
        with self.client.exchange.ask(call, wanted={_CREATED}) as response:
            claimed = response.headers.get("Docker-Content-Digest", "")
        if is_digest(claimed) and claimed != self.blob.digest:
            raise IntegrityError(f"expected it to be stored, found {claimed}", where=self.where)

    def _send_chunks(self, session: Session) -> str:
        """Send all bytes in pieces, going on where the registry says it is after a lost one; return the location."""
        pacing = self.client.exchange.pacing
        location, offset, failures = session.location, 0, 0
        while offset < self.blob.size:
            size = min(session.chunk_bytes, self.blob.size - offset)
            try:
                location, offset = self._send_chunk(location, offset, size), offset + size
                failures = 0
            except WorldError as error:
                failures += 1
                resumable = error.retryable or (isinstance(error, StatusError) and error.status == _BAD_RANGE)
                if not resumable or failures == pacing.attempts:
                    raise
                pacing.wait(failures - 1, error.retry_after_s if isinstance(error, StatusError) else 0.0)
                location, offset = self._ask_progress(location)
        return location

    def _send_chunk(self, location: str, offset: int, size: int) -> str:
        headers = {"Content-Type": "application/octet-stream", "Content-Range": f"{offset}-{offset + size - 1}"}
        body = FilePart(self.path, offset, size, self.meter)
        call = Call("PATCH", location, self.where, push_scope(self.repository), headers, body, idempotent=False)
        with self.client.exchange.ask(call, wanted={_ACCEPTED}) as response:
            if _received(response) not in {None, offset + size}:
                reason = f"expected {offset + size} bytes to have arrived, found {_received(response)}"
                raise WorldError(reason, where=self.where, retryable=True)
            return self._location(response, location)

    def _ask_progress(self, location: str) -> tuple[str, int]:
        """Return where to go on sending, and from which byte."""
        call = Call("GET", location, self.where, push_scope(self.repository))
        with self.client.exchange.ask(call, wanted={204}) as response:
            received = _received(response) or 0
            found = self._location(response, location) if "Location" in response.headers else location
        if received > self.blob.size:
            raise WorldError(f"expected at most {self.blob.size} bytes, found {received}", where=self.where)
        return found, 0 if received == 1 else received

    def _location(self, response: Response, current: str) -> str:
        location = response.headers.get("Location", "")
        if not location:
            raise WorldError("expected a Location, found none", where=self.where)
        return next_url(location, current=current, home=self.client.home, where=self.where)

    def _check_file(self) -> None:
        size = self.path.stat().st_size
        if size != self.blob.size:
            raise IntegrityError(f"the store holds {size} bytes, expected {self.blob.size}", where=self.where)

    def _check_digest(self) -> None:
        """Tell a blob that is broken in the store from one that was broken on its way."""
        found = digest_of_file(self.path)
        if found != self.blob.digest:
            raise IntegrityError(f"the store holds {found} under that name", where=self.where)


def _received(response: Response) -> int | None:
    """Return how many bytes a session holds; `0-0` stands for none (distribution says so, and one byte too)."""
    match = _RANGE.fullmatch(response.headers.get("Range", ""))
    return None if match is None else int(match[1]) + 1


def _least_chunk(response: Response) -> int:
    """Return how small a piece may be (distribution-spec, OCI-Chunk-Min-Length); nonsense means any size."""
    text = response.headers.get("OCI-Chunk-Min-Length", "")
    return min(int(text[:19]), _MOST_CHUNK_BYTES) if text.isascii() and text.isdigit() else 0


def _is_lost_session(error: WorldError) -> bool:
    return isinstance(error, StatusError) and error.status == _MISSING and error.code != "NAME_UNKNOWN"
