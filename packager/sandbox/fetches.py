"""What a command asks of the network and what it is told: the values between the loopback proxy and its sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Request:
    """One request: method, the URL's parts (path with query, as sent), the headers (lower-case names) and the body."""

    method: str
    scheme: str
    host: str
    port: int
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """One answer: status, media type, and a body as bytes or as a file to stream; the proxy serves byte ranges.

    What stands in `before` is sent before the body; such an answer has no ranges. An `etag` is for clients that check a
    page against it (Bundler).
    """

    status: int
    media_type: str = "application/octet-stream"
    body: bytes | Path = b""
    before: bytes = b""
    etag: str = ""


class FetchSource(Protocol):
    """Answers requests: from the network while recording, from a lock's blobs while building."""

    def answer(self, request: Request) -> Answer:
        """Return the answer; an unknown request in replay is status 599 with a text that names it. Thread-safe."""

    def environment(self) -> Mapping[str, str]:
        """Return the variables that point package clients at loopback; the proxy variables are the engine's."""


@dataclass(frozen=True)
class Relay:
    """In place of a proxy: the loopback port leads to what listens on a Unix socket of the host."""

    path: Path


Reachable: TypeAlias = "FetchSource | Relay"
"""What a command can reach on the one port of its loopback."""
