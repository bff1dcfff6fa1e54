"""PHP packages: a Composer repository (packages.json, p2 metadata), and the archives that it or composer.lock names."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urljoin

from packager.base.canonical import format_canonical
from packager.base.errors import InputError
from packager.lock.ecosystems import web
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Promise, Row, Sort, below
from packager.lock.ecosystems.composer_archive import lasting_row, read_composer_json
from packager.lock.ecosystems.hashing import hex_hash
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_NAME = r"(?P<name>[a-z0-9_.-]+/[a-z0-9_.-]+)"
_ARCHIVE = re.compile(rf"dist/{_NAME}/(?P<version>[^/]+)/(?P<reference>[^/]+)\.(?P<kind>zip|tar)", re.ASCII)
_PAGE = re.compile(rf"p2/{_NAME}(?P<dev>~dev)?\.json", re.ASCII)
_ROOT = "packages.json"
_HERE = "https://packagist.invalid"


class ComposerPackages:
    """The registry `packagist`; remembers where its metadata said that archives are."""

    alias = "packagist"
    rows = (Row("Composer"),)
    always_lists = False

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}
        self._lock = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Composer asks its usual host and is known by its name; its cache goes where layers end."""
        return {
            "COMPOSER_CACHE_DIR": "/tmp/composer-cache",  # noqa: S108 - inside the sandbox, dropped from layers
            "COMPOSER_ALLOW_SUPERUSER": "1",
            "COMPOSER_NO_INTERACTION": "1",
            "COMPOSER_NO_AUDIT": "1",
        }

    def asked(self, path: str) -> Asked | None:
        """Tell archives from metadata."""
        key = unquote(path.partition("?")[0]).lstrip("/")
        if _ARCHIVE.fullmatch(key):
            return Asked(Sort.ARTIFACT, key)
        return Asked(Sort.INDEX, key) if key == _ROOT or _PAGE.fullmatch(key) else None

    def guess(self, path: str) -> Asked | None:
        """Take the end of a path for metadata, wherever the repository is."""
        found = re.search(rf"(?:^|/)(?P<key>{re.escape(_ROOT)}|{_PAGE.pattern})$", unquote(path.partition("?")[0]))
        return Asked(Sort.INDEX, found["key"]) if found else None

    def shelf(self, asked: Asked) -> str:
        """Return the package's name."""
        found = _PAGE.fullmatch(asked.key) or _ARCHIVE.fullmatch(asked.key)
        return found["name"] if found else WHOLE

    def purl(self, key: str) -> str:
        """Return pkg:composer/<vendor>/<name>@<version>."""
        found = _match(key)
        return purl_of(found["name"], found["version"])

    def media_type(self, key: str) -> str:
        """Return the type by the archive's suffix."""
        return "application/zip" if key.endswith(".zip") else "application/x-tar"

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep archives as they are."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim what lies below the configured repository."""
        path = below(url, upstream.clients.base_url(self.alias))
        return None if path is None else self.asked(path)

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Where the metadata says that an archive is; it is asked once more if that is not known yet."""
        found = _match(key)
        if key not in self._known():
            for dev in ("", "~dev"):
                self._rows(f"p2/{found['name']}{dev}.json", upstream)
        return [self._known()[key]] if key in self._known() else []

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Return what is needed to choose and install versions, with archives below the alias host."""
        del request
        if asked.key == _ROOT:
            return _root()
        rows = self._rows(asked.key, upstream)
        return _ABSENT if rows is None else _page(self.shelf(asked), rows)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Return the locked versions from what their archives say of themselves."""
        del request
        if asked.key == _ROOT:
            return _root()
        wanted = "~dev." in asked.key
        rows = [_row_of(one) for one in held if _match(one.key)["version"].startswith("dev-") is wanted]
        return _page(self.shelf(asked), rows) if rows else _ABSENT

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read composer.lock: its archives by the addresses that it has, and by what the repository calls them."""
        if name.rpartition("/")[2] != "composer.lock":
            return []
        try:
            document = json.loads(data)
            packages = [*(document.get("packages") or ()), *(document.get("packages-dev") or ())]
            return [promise for row in packages for promise in _promises_of(name, row)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the lock file cannot be read: {error!r}", where=name) from error

    def subject(self, key: str) -> str:
        """Return the package URL."""
        return self.purl(key)

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `sha1:<hex>`: Composer knows no other hash; the lock has a better one."""
        return hex_hash(path, algorithm)

    def _known(self) -> dict[str, str]:
        with self._lock:
            return dict(self._urls)

    def _rows(self, key: str, upstream: Upstream) -> list[dict[str, Any]] | None:
        base = upstream.clients.base_url(self.alias)
        where = f"{base}/{key}"
        page = upstream.document(where)
        if page.status in ABSENT:
            return None
        name = self.shelf(Asked(Sort.INDEX, key))
        try:
            rows = _expanded(json.loads(page.body), name)
            return [moved for row in rows if (moved := self._moved(name, row, page.url))]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"expected versions of a package, found {page.body[:60]!r}", where=key) from error

    def _moved(self, name: str, row: Mapping[str, Any], page: str) -> dict[str, Any] | None:
        """Return a version's row with its archive below the alias host; None for one that has no archive."""
        dist = row.get("dist")
        if not isinstance(dist, dict) or dist.get("type") not in {"zip", "tar"}:
            return None
        reference = str(dist.get("reference") or dist.get("shasum") or "none")
        version = str(row["version"]).replace("/", "-")
        key = f"dist/{name}/{version}/{reference}.{dist['type']}"
        with self._lock:
            self._urls[key] = urljoin(page, str(dist["url"]))
        return lasting_row(row) | {"name": name, "version": row["version"], "dist": _dist(key)}


_ABSENT = Answer(404, "application/json", b"{}\n")


def purl_of(name: str, version: str) -> str:
    """Return pkg:composer/<vendor>/<name>@<version>."""
    return f"pkg:composer/{quote(name)}@{quote(version)}"


def _match(key: str) -> re.Match[str]:
    found = _ARCHIVE.fullmatch(key)
    if found is None:
        raise InputError(
            f"expected dist/<vendor>/<name>/<version>/<reference>.zip, found {key[:120]!r}", where="packagist"
        )
    return found


def _root() -> Answer:
    return Answer(
        200, "application/json", format_canonical({"metadata-url": f"{_HERE}/p2/%package%.json", "packages": []})
    )


def _page(name: str, rows: Sequence[dict[str, Any]]) -> Answer:
    return Answer(200, "application/json", json.dumps({"packages": {name: list(rows)}}, sort_keys=True).encode())


def _dist(key: str) -> dict[str, str]:
    found = _match(key)
    url = f"{_HERE}/{quote(key)}"
    return {"type": found["kind"], "url": url, "reference": found["reference"], "shasum": ""}


def _row_of(one: Held) -> dict[str, Any]:
    found = _match(one.key)
    row = lasting_row(read_composer_json(one))
    return row | {"name": found["name"], "version": found["version"], "dist": _dist(one.key)}


def _expanded(document: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return every version's whole row; minified metadata has only what changed since the row before."""
    rows = document["packages"][name]
    if document.get("minified") != "composer/2.0":
        return [dict(row) for row in (rows.values() if isinstance(rows, dict) else rows)]
    found: list[dict[str, Any]] = []
    for row in rows:
        whole = (found[-1] if found else {}) | row
        found.append({key: value for key, value in whole.items() if value != "__unset"})
    return found


def _promises_of(name: str, row: Mapping[str, Any]) -> list[Promise]:
    dist = row.get("dist") or {}
    shasum = str(dist.get("shasum") or "")
    purl = purl_of(str(row["name"]), str(row["version"]))
    expected = frozenset({f"sha1:{shasum.lower()}"} if shasum else ())
    where = f"{name} ({row['name']})"
    url = str(dist.get("url") or "")
    return [Promise(where, subject, expected, purl) for subject in (purl, web.key_of(url)) if dist]
