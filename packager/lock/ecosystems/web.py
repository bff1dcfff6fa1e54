"""Whatever is fetched from hosts that are no registry: pinned by its address's hash, so that the lock names no host."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote, unquote, urlsplit

from packager.lock.clients import without_credentials
from packager.lock.ecosystems.asked import Mark, Row

ALIAS = "web"
ROWS = (Row("plain downloads", frozenset({Mark.RECORDS, Mark.REPLAYS})),)

_PLAIN = re.compile(r"[^A-Za-z0-9._+-]+", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def url_of(scheme: str, host: str, port: int, path: str) -> str:
    """Return a request's address; default ports are left out, so that one thing has one address."""
    place = host if port in {0, _DEFAULT_PORTS.get(scheme)} else f"{host}:{port}"
    return f"{scheme}://{place}{path if path.startswith('/') else f'/{path}'}"


def key_of(url: str) -> str:
    """Return `<start of the address's SHA-256>/<file name>`."""
    plain = without_credentials(url.partition("#")[0])
    name = _PLAIN.sub("-", unquote(urlsplit(plain).path.rpartition("/")[2])).strip(".-")[-80:] or "index"
    return f"{hashlib.sha256(plain.encode()).hexdigest()[:32]}/{name}"


def purl_of(key: str) -> str:
    """Return pkg:generic/<file name>."""
    return f"pkg:generic/{quote(key.rpartition('/')[2])}"
