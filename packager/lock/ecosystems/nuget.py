"""NuGet packages: the service index of protocol 3, its flat container and its registrations."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from packager.base.canonical import format_canonical
from packager.base.errors import InputError
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Promise, Row, Sort, below
from packager.lock.ecosystems.nupkg import Nuspec, content_hash, read_nuspec
from packager.lock.ecosystems.versions import order_of
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_SERVICE = "v3/index.json"
_FLAT, _REGISTRATION = "flat", "registration"
_KINDS = {_FLAT: "PackageBaseAddress/3.0.0", _REGISTRATION: "RegistrationsBaseUrl"}
_SPELLINGS = ("", "/3.0.0-beta", "/3.0.0-rc", "/3.4.0", "/3.6.0")
"""Clients of different ages look for their own spelling; to us the last that a registry has is the best."""

_UNDERSTOOD = {_KINDS[_FLAT]: _FLAT} | {f"{_KINDS[_REGISTRATION]}{end}": _REGISTRATION for end in _SPELLINGS}
_PACKAGE = re.compile(r"flat/(?P<id>[a-z0-9_.-]+)/(?P<version>[a-z0-9.-]+)/(?P=id)\.(?P=version)\.nupkg", re.ASCII)
_PAGE = re.compile(r"(?P<service>flat|registration)/(?P<id>[a-z0-9_.-]+)/index\.json", re.ASCII)


class NugetPackages:
    """The registry `nuget`; remembers where the service index said that its services are."""

    alias = "nuget"
    rows = (Row("NuGet", note="nuget.exe on Mono; dotnet's own client is not to be had here"),)
    always_lists = False

    def __init__(self) -> None:
        self._services: dict[str, str] = {}
        self._lock = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Point dotnet at the alias host; MSBuild takes variables for properties."""
        return {
            "RestoreSources": "https://nuget.invalid/v3/index.json",
            "NUGET_HTTP_CACHE_PATH": "/tmp/nuget-http",  # noqa: S108 - inside the sandbox, dropped from layers
            "NUGET_SCRATCH": "/tmp/nuget-scratch",  # noqa: S108
            "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
            "DOTNET_NOLOGO": "1",
            "DOTNET_SKIP_FIRST_TIME_EXPERIENCE": "1",
        }

    def asked(self, path: str) -> Asked | None:
        """Tell packages from lists of versions, registrations and the service index."""
        key = unquote(path.partition("?")[0]).lstrip("/").lower()
        if _PACKAGE.fullmatch(key):
            return Asked(Sort.ARTIFACT, key)
        return Asked(Sort.INDEX, key) if key == _SERVICE or _PAGE.fullmatch(key) else None

    def guess(self, path: str) -> Asked | None:
        """Know a service index on any host: what it names is on the alias host."""
        return Asked(Sort.INDEX, _SERVICE) if path.partition("?")[0].endswith(f"/{_SERVICE}") else None

    def shelf(self, asked: Asked) -> str:
        """Return the package's id."""
        return WHOLE if asked.key == _SERVICE else asked.key.split("/")[1]

    def purl(self, key: str) -> str:
        """Return pkg:nuget/<id>@<version>."""
        found = _match(key)
        return f"pkg:nuget/{quote(found['id'])}@{quote(found['version'])}"

    def media_type(self, key: str) -> str:
        """Return what registries serve."""
        del key
        return "application/octet-stream"

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep packages as they are."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim the configured service index."""
        base = upstream.clients.base_url(self.alias)
        return Asked(Sort.INDEX, _SERVICE) if url == base or below(f"{url}/", base) == "/" else None

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Where the flat container is."""
        return [f"{self._service(_FLAT, upstream)}/{quote(key.removeprefix('flat/'))}"]

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Return a page of the registry's versions, of which registrations say no more than clients need."""
        if asked.key == _SERVICE:
            return _service_index(request)
        service, package, _ = asked.key.split("/")
        url = f"{self._service(service, upstream)}/{package}/index.json"
        found = upstream.document(url)
        if found.status in ABSENT:
            return _ABSENT
        try:
            if service == _FLAT:
                return _json({"versions": [str(version) for version in json.loads(found.body)["versions"]]})
            rows = [_plain_row(leaf["catalogEntry"]) for leaf in _leaves(json.loads(found.body), upstream)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"expected versions of a package, found {found.body[:60]!r}", where=asked.key) from error
        return _registration(package, rows, request)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Return a page about the locked packages, made from the specifications inside them."""
        if asked.key == _SERVICE:
            return _service_index(request)
        ordered = sorted(held, key=lambda one: order_of(_match(one.key)["version"]))
        if asked.key.startswith(f"{_FLAT}/"):
            return _json({"versions": [_match(one.key)["version"] for one in ordered]})
        return _registration(self.shelf(asked), [_row_of(read_nuspec(one)) for one in ordered], request)

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read packages.lock.json."""
        if name.rpartition("/")[2] != "packages.lock.json":
            return []
        try:
            return [
                _promise(f"{name} ({framework}: {package})", package, row)
                for framework, packages in json.loads(data)["dependencies"].items()
                for package, row in packages.items()
                if "contentHash" in row  # projects of the same solution have none
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the lock file cannot be read: {error!r}", where=name) from error

    def subject(self, key: str) -> str:
        """Return `<id>/<version>`."""
        return "/".join(_match(key).group("id", "version"))

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `sha512-<base64>` of what a package was before a registry signed it."""
        if algorithm != "sha512":
            raise InputError(f"expected sha512 hashes in packages.lock.json, found {algorithm[:20]!r}")
        return f"sha512-{content_hash(path)}"

    def _service(self, name: str, upstream: Upstream) -> str:
        """Return the base of a service without a final slash, as the registry's own index has it."""
        with self._lock:
            if name not in self._services:
                url = upstream.clients.base_url(self.alias)
                self._services |= _read_services(upstream.document(url).body, url)
            if name not in self._services:
                raise InputError(f"expected a service {_KINDS[name]}", where=upstream.clients.base_url(self.alias))
            return self._services[name]


_ABSENT = Answer(404, "application/json", b"{}\n")


def _promise(where: str, package: str, row: Mapping[str, Any]) -> Promise:
    expected = frozenset({f"sha512-{row['contentHash']}"})
    return Promise(where, f"{package}/{row['resolved']}".lower(), expected)


def _read_services(body: bytes, where: str) -> dict[str, str]:
    try:
        said = {str(row["@type"]): str(row["@id"]).rstrip("/") for row in json.loads(body)["resources"]}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"expected a service index, found {body[:60]!r}", where=where) from error
    return {name: said[kind] for kind, name in _UNDERSTOOD.items() if kind in said}


def _leaves(page: dict[str, Any], upstream: Upstream) -> Iterator[dict[str, Any]]:
    """Yield every version's entry; large registrations have their pages elsewhere."""
    for part in page["items"]:
        inner = part if "items" in part else json.loads(upstream.document(str(part["@id"])).body)
        yield from inner["items"]


def _plain_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    groups = [
        (str(group.get("targetFramework", "")), tuple(_pairs(group.get("dependencies") or ())))
        for group in entry.get("dependencyGroups") or ()
    ]
    return _row_of(Nuspec(str(entry["id"]), str(entry["version"]), tuple(groups), b"")) | {
        "listed": bool(entry.get("listed", True))
    }


def _pairs(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    return ((str(row["id"]), str(row.get("range") or "")) for row in rows)


def _row_of(spec: Nuspec) -> dict[str, Any]:
    groups = [
        {"dependencies": [{"id": name, "range": wanted or "0.0.0"} for name, wanted in rows]}
        | ({"targetFramework": framework} if framework else {})
        for framework, rows in spec.groups
    ]
    return {"id": spec.id, "version": spec.version, "dependencyGroups": groups, "listed": True}


def _registration(package: str, rows: Sequence[dict[str, Any]], request: Request) -> Answer:
    here = f"{_here(request)}/{_REGISTRATION}/{package}/index.json"
    leaves = []
    for row in rows:
        version = str(row["version"]).partition("+")[0].lower()
        content = f"{_here(request)}/{_FLAT}/{package}/{version}/{package}.{version}.nupkg"
        entry = row | {"@id": f"{here}#{version}", "packageContent": content}
        leaves.append({"@id": f"{here}#{version}", "catalogEntry": entry, "packageContent": content})
    bounds = {"lower": str(rows[0]["version"]), "upper": str(rows[-1]["version"])} if rows else {}
    page = {"@id": f"{here}#page", "count": len(leaves), "items": leaves, **bounds}
    return _json({"@id": here, "count": 1, "items": [page]})


def _service_index(request: Request) -> Answer:
    resources = [{"@id": f"{_here(request)}/{name}/", "@type": kind} for kind, name in _UNDERSTOOD.items()]
    return _json({"version": "3.0.0", "resources": resources})


def _here(request: Request) -> str:
    """Return the alias host's address as the client speaks to it: some refuse http, and Mono knows no new authority."""
    return f"{request.scheme}://nuget.invalid"


def _json(document: dict[str, Any]) -> Answer:
    return Answer(200, "application/json", format_canonical(document))


def _match(key: str) -> re.Match[str]:
    found = _PACKAGE.fullmatch(key)
    if found is None:
        raise InputError(f"expected flat/<id>/<version>/<id>.<version>.nupkg, found {key[:120]!r}", where="nuget")
    return found
