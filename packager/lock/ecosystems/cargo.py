"""Crates: the sparse index and the crate files behind it, as cargo uses them.

Where its registry is stands in cargo itself and cannot be set by a variable, so cargo's requests are told by who asks.
"""

from __future__ import annotations

import json
import re
import threading
import tomllib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from packager.base.canonical import format_canonical
from packager.base.errors import InputError
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Promise, Row, Sort, below
from packager.lock.ecosystems.cargo_index import format_page, place_in_index, split_key
from packager.lock.ecosystems.hashing import hex_hash
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_CONFIG = "config.json"
_NAME = r"[A-Za-z0-9_-]+"
_CRATE = re.compile(rf"crates/(?P<key>(?P<name>{_NAME})/(?P=name)-[^/]+\.crate)", re.ASCII)
_PAGE = re.compile(
    rf"(?:^|/)(?P<place>(?:[12]|3/[a-z0-9_-]|[a-z0-9_-]{{2}}/[a-z0-9_-]{{2}})/(?P<name>{_NAME}))", re.ASCII
)
_MARKERS = re.compile(r"\{(crate|version|prefix|lowerprefix|sha256-checksum)\}")
_REGISTRY = "registry+"


class RustCrates:
    """The registry `crates`; remembers where the index said that crate files are."""

    alias = "crates"
    rows = (Row("cargo"),)
    always_lists = False

    def __init__(self) -> None:
        self._template = ""
        self._lock = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Let old cargos use the sparse index and the git that knows our proxy, and all of them ask once."""
        return {
            "CARGO_REGISTRIES_CRATES_IO_PROTOCOL": "sparse",
            "CARGO_NET_GIT_FETCH_WITH_CLI": "true",
            "CARGO_NET_RETRY": "0",
            "CARGO_HTTP_MULTIPLEXING": "false",
            "CARGO_HTTP_TIMEOUT": "600",
            "CARGO_CACHE_AUTO_CLEAN_FREQUENCY": "never",
            "CARGO_TERM_PROGRESS_WHEN": "never",
        }

    def asked(self, path: str) -> Asked | None:
        """Tell crate files from index pages."""
        plain = unquote(path.partition("?")[0]).lstrip("/")
        found = _CRATE.fullmatch(plain)
        return Asked(Sort.ARTIFACT, found["key"]) if found else self.guess(path)

    def guess(self, path: str) -> Asked | None:
        """Take the end of a path for a page of an index, wherever that index is."""
        plain = unquote(path.partition("?")[0])
        if plain.rpartition("/")[2] == _CONFIG:
            return Asked(Sort.INDEX, _CONFIG)
        found = _PAGE.search(plain)
        fits = found is not None and plain.endswith(found["place"]) and found["place"] == place_in_index(found["name"])
        return Asked(Sort.INDEX, found["name"]) if found and fits else None

    def shelf(self, asked: Asked) -> str:
        """Return the crate's name as the index has it; the registry's own page is about all."""
        if asked.sort is Sort.INDEX:
            return WHOLE if asked.key == _CONFIG else asked.key
        return split_key(asked.key)[0].lower()

    def purl(self, key: str) -> str:
        """Return pkg:cargo/<name>@<version>."""
        name, version = split_key(key)
        return f"pkg:cargo/{quote(name)}@{quote(version, safe='')}"

    def media_type(self, key: str) -> str:
        """Return what registries serve."""
        del key
        return "application/gzip"

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep crate files as they are."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim what lies below the configured index."""
        path = below(url, upstream.clients.base_url(self.alias))
        return None if path is None else self.guess(path)

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Where the index's config.json says that crate files are."""
        name, version = split_key(key)
        values = {
            "crate": quote(name),
            "version": quote(version),
            "prefix": place_in_index(name).rpartition("/")[0],
            "lowerprefix": place_in_index(name).rpartition("/")[0],
        }
        template = self._downloads(upstream)
        if not _MARKERS.search(template):
            template += "/{crate}/{version}/download"
        return [_MARKERS.sub(lambda found: values[found[1]], template)]

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Pass a crate's page through; the registry's own page sends clients to the alias host for crate files."""
        if asked.key == _CONFIG:
            return self.render(asked, request, ())
        found = upstream.document(f"{upstream.clients.base_url(self.alias)}/{place_in_index(asked.key)}")
        return _absent() if found.status in ABSENT else Answer(200, "text/plain", found.body)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Return a crate's page from what the locked crates say of themselves."""
        del request
        if asked.key == _CONFIG:
            place = "http://crates.invalid/crates/{crate}/{crate}-{version}.crate"
            return Answer(200, "application/json", format_canonical({"dl": place}))
        return Answer(200, "text/plain", format_page(held))

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read Cargo.lock of any version."""
        if name.rpartition("/")[2] != "Cargo.lock":
            return []
        try:
            document = tomllib.loads(data.decode())
            return [*_rows(name, document.get("package", ())), *_old_rows(name, document.get("metadata", {}))]
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise InputError(f"the lock file cannot be read: {error}", where=name) from error

    def subject(self, key: str) -> str:
        """Return the package URL."""
        return self.purl(key)

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `<algorithm>:<hex>`."""
        return hex_hash(path, algorithm)

    def _downloads(self, upstream: Upstream) -> str:
        with self._lock:
            if not self._template:
                self._template = _template_of(upstream, upstream.clients.base_url(self.alias))
            return self._template


def _template_of(upstream: Upstream, base: str) -> str:
    page = upstream.document(f"{base}/{_CONFIG}")
    try:
        template = str(json.loads(page.body)["dl"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"expected the config.json of an index, found {page.body[:60]!r}", where="crates") from error
    if "{sha256-checksum}" in template or not template.startswith(("http://", "https://")):
        raise InputError(f"expected an address of crate files by name and version, found {template!r}", where="crates")
    return template


def _rows(name: str, packages: Iterable[Mapping[str, Any]]) -> list[Promise]:
    found = []
    for row in packages:
        if row.get("checksum") and str(row.get("source", "")).startswith((_REGISTRY, "sparse+")):
            where = f"{name} ({row['name']} {row['version']})"
            found.append(Promise(where, _subject(row["name"], row["version"]), _expected(row["checksum"])))
    return found


def _old_rows(name: str, metadata: Mapping[str, Any]) -> list[Promise]:
    """Read the checksums of version 1, which stand in a table of their own."""
    found = []
    for key, value in metadata.items():
        words = key.split(" ")
        if words[0] == "checksum" and len(words) == 4 and words[3].startswith(f"({_REGISTRY}"):  # noqa: PLR2004
            found.append(Promise(f"{name} ({words[1]} {words[2]})", _subject(words[1], words[2]), _expected(value)))
    return found


def _subject(name: str, version: str) -> str:
    return f"pkg:cargo/{quote(name)}@{quote(version, safe='')}"


def _expected(checksum: object) -> frozenset[str]:
    return frozenset({f"sha256:{checksum}"})


def _absent() -> Answer:
    return Answer(404, "text/plain", b"not found\n")
