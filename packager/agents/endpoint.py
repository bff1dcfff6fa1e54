"""The one place that an agent's requests may go to: a host, and paths on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packager.base.errors import InputError

if TYPE_CHECKING:
    from packager.sandbox.http1 import Head

_METHODS = ("GET", "POST")
_ODD = re.compile(r"\\|%2e|%2f|%5c|//|#|/\.{1,2}(/|$)", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Endpoint:
    """An upstream: scheme, host, port, the path that all others lie below (no slash at its end), and allowed paths.

    Allowed paths are relative to `base`; one that ends with a slash stands for all below it, else it stands for itself
    alone. None: all of `base`.
    """

    scheme: str
    host: str
    port: int
    base: str = ""
    paths: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    """What counts as a request to the model: "METHOD /path", with the path as in `paths`; none: all."""

    @property
    def authority(self) -> str:
        """Return the host, with its port if that is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def problem(self, head: Head) -> str:
        """Return why a request is not passed on, or nothing."""
        asked = f"{head.method} {head.target[:200]}"
        if head.method == "CONNECT" or not head.target.startswith("/"):
            return f"refused: {asked}: the only place to ask is {self.authority}, and this is no proxy to others"
        path = head.target.partition("?")[0]
        if head.method not in _METHODS:
            return f"refused: {asked}: only {' and '.join(_METHODS)} are passed on"
        if _ODD.search(path):
            return f"refused: {asked}: the path must be plain"
        if not any(_is_allowed(path, self.base + allowed) for allowed in self.paths or ("/",)):
            below = " ".join(self.base + allowed for allowed in self.paths or ("/",))
            return f"refused: {asked}: of {self.authority} only this may be asked: {below}"
        return ""

    def counts(self, head: Head) -> bool:
        """Say whether a request counts as one to the model."""
        pairs = [pair.partition(" ") for pair in self.counted]
        path = head.target.partition("?")[0]
        return not pairs or any(
            head.method == method and _is_allowed(path, self.base + place) for method, _, place in pairs
        )


def _is_allowed(path: str, place: str) -> bool:
    return path.startswith(place) if place.endswith("/") else path == place


def parse_endpoint(url: str, *, where: str, paths: tuple[str, ...] = (), counted: tuple[str, ...] = ()) -> Endpoint:
    """Return the endpoint that a URL names: http only on this machine, no user, no query."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"expected a URL, found {url[:120]!r}", where=where) from error
    host = parts.hostname or ""
    if (
        parts.scheme not in _PORTS
        or not host
        or parts.username
        or parts.query
        or parts.fragment
        or _ODD.search(parts.path)
    ):
        hint = "as https://models.example/v1"
        raise InputError(f"expected the URL of a model endpoint, found {url[:120]!r}", where=where, hint=hint)
    if parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        hint = "a credential in the clear is anybody's: https, or a gateway of your own on this machine"
        raise InputError(f"expected https, found {url[:120]!r}", where=where, hint=hint)
    return Endpoint(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"), paths, counted)
