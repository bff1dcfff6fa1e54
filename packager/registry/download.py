"""Fetches one blob into the store; what a lost connection leaves is kept and continued, also by the next run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.digests import hex_of
from packager.base.errors import IntegrityError, WorldError
from packager.registry.client import pull_scope
from packager.registry.exchange import Call, StatusError
from packager.registry.partial import Partial

if TYPE_CHECKING:
    from packager.oci.descriptor import Descriptor
    from packager.registry.client import RegistryClient
    from packager.registry.http import Response
    from packager.registry.parallel import Meter
    from packager.store.store import Store

_PROGRESS_BYTES = 1 << 20
"""A connection that brought as much was worth its while: the count of failures starts again."""

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)")
_WHOLE, _PART, _BAD_RANGE = 200, 206, 416


@dataclass(frozen=True)
class Download:
    """One blob on its way from a repository into the store."""

    client: RegistryClient
    store: Store
    repository: str
    blob: Descriptor
    meter: Meter

    @property
    def where(self) -> str:
        """How error texts name it."""
        return self.client.where(self.repository, f"blob {self.blob.digest}")

    def run(self) -> None:
        """Make sure that the store holds the blob, verified; may be run again after any fault."""
        if not self.store.has(self.blob.digest, self.blob.size):
            with self.store.lock(f"pull-{hex_of(self.blob.digest)}"):
                if not self.store.has(self.blob.digest, self.blob.size):
                    self._fetch()
        self._check_size()
        self.meter.reach(self.blob.size)

    def _fetch(self) -> None:
        with Partial(self.store, self.blob) as partial:
            self.complete(partial)
            partial.promote()

    def complete(self, partial: Partial) -> None:
        """Receive and verify; bytes that came in pieces and are wrong are dropped once, since a piece may be old."""
        if self._receive(partial) and partial.digest() != self.blob.digest:
            partial.restart()
            self._receive(partial)
        found = partial.digest()
        if found != self.blob.digest:
            partial.restart()
            reason = f"expected {self.blob.digest}, found {found} ({self.blob.size} bytes)"
            raise IntegrityError(reason, where=self.where)

    def _receive(self, partial: Partial) -> bool:
        """Receive until all bytes are there; return whether they came in more than one piece."""
        pacing = self.client.exchange.pacing
        continued, failures = partial.size > 0, 0
        while partial.size < self.blob.size:
            before = partial.size
            try:
                self._receive_once(partial)
            except WorldError as error:
                failures = 1 if partial.size - before >= _PROGRESS_BYTES else failures + 1
                if not error.retryable or failures >= pacing.attempts:
                    raise
                pacing.wait(failures - 1, error.retry_after_s if isinstance(error, StatusError) else 0.0)
                continued = True
        return continued

    def _receive_once(self, partial: Partial) -> None:
        headers = {"Range": f"bytes={partial.size}-"} if partial.size else {}
        url = self.client.url(self.repository, f"blobs/{self.blob.digest}")
        call = Call("GET", url, self.where, pull_scope(self.repository), headers, idempotent=False)
        wanted = {_WHOLE, _PART, _BAD_RANGE} if headers else {_WHOLE}
        with self.client.exchange.ask(call, wanted=wanted) as response:
            self._line_up(response, partial)
            for block in response.blocks():
                if partial.size + len(block) > self.blob.size:
                    partial.restart()
                    raise IntegrityError(f"expected {self.blob.size} bytes, found more", where=self.where)
                partial.write(block)
                self.meter.reach(partial.size)
        if partial.size < self.blob.size:
            raise WorldError(f"ended after {partial.size} of {self.blob.size} bytes", where=self.where, retryable=True)

    def _line_up(self, response: Response, partial: Partial) -> None:
        """Make the partial end where the answer's body begins, and refuse an answer that does not reach the end."""
        if response.status == _WHOLE:
            partial.restart()
        elif response.status == _BAD_RANGE or _start_of(response, self.blob.size) != partial.size:
            partial.restart()
            raise WorldError("the registry does not continue where we asked it to", where=self.where, retryable=True)
        left = self.blob.size - partial.size
        length = response.headers.get("Content-Length", "")
        if length.isascii() and length.isdigit() and int(length[:19]) != left:
            raise IntegrityError(f"expected {left} bytes, found an offer of {length[:19]}", where=self.where)

    def _check_size(self) -> None:
        size = self.store.path(self.blob.digest).stat().st_size
        if size != self.blob.size:
            raise IntegrityError(f"expected {self.blob.size} bytes, found {size}", where=self.where)


def _start_of(response: Response, size: int) -> int | None:
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    if match is None or int(match[2]) != size - 1 or match[3] not in {str(size), "*"}:
        return None
    return int(match[1])
