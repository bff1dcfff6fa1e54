"""Go modules: the module proxy protocol (go.dev/ref/mod#goproxy-protocol)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from packager.base.canonical import format_canonical
from packager.base.errors import InputError
from packager.lock.ecosystems.asked import Asked, Held, Promise, Row, Sort, below
from packager.lock.ecosystems.hashing import hash_of_mod, hash_of_zip
from packager.lock.ecosystems.versions import order_of
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_FILE = re.compile(r"(?P<module>[^@]+)/@v/(?P<version>v[^/@]+)\.(?P<suffix>info|mod|zip)", re.ASCII)
_PAGE = re.compile(r"(?P<module>[^@]+)/(?:@v/list|@latest)", re.ASCII)
_PSEUDO = re.compile(r".*[-.]\d{14}-[0-9a-f]{12}(\+incompatible)?", re.ASCII)
_SUM_LINE = re.compile(r"(?P<module>\S+) (?P<version>v\S+?)(?P<mod>/go\.mod)? (?P<hash>h1:\S+)", re.ASCII)
_MEDIA = {"info": "application/json", "mod": "text/plain", "zip": "application/zip"}


class GoModules:
    """The registry `goproxy`."""

    alias = "goproxy"
    rows = (Row("Go modules"),)
    always_lists = False

    def environment(self) -> Mapping[str, str]:
        """Point the go command at the alias host; hashes are checked against go.sum and the lock, not a database."""
        return {
            "GOPROXY": "http://goproxy.invalid",
            "GOSUMDB": "off",
            "GONOSUMDB": "*",
            "GOFLAGS": "-modcacherw",
            "GOTOOLCHAIN": "local",
            "GOVCS": "*:off",
        }

    def asked(self, path: str) -> Asked | None:
        """Tell files of versions from pages that list versions."""
        key = unquote(path.partition("?")[0]).lstrip("/")
        if _FILE.fullmatch(key):
            return Asked(Sort.ARTIFACT, key)
        return Asked(Sort.INDEX, key) if _PAGE.fullmatch(key) else None

    def guess(self, path: str) -> Asked | None:
        """Take any proxy's address for what it is: all have the same paths."""
        return self.asked(path)

    def shelf(self, asked: Asked) -> str:
        """Return the module."""
        return re.split(r"/@(?:v/|latest)", asked.key)[0]

    def purl(self, key: str) -> str:
        """Return pkg:golang/<module>@<version>."""
        found = _match(key)
        return f"pkg:golang/{quote(_unescape(found['module']))}@{quote(_unescape(found['version']), safe='+')}"

    def media_type(self, key: str) -> str:
        """Return the type by the file's suffix."""
        return _MEDIA[_match(key)["suffix"]]

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep version and time of an .info document; proxies differ in what else they say."""
        return _lasting if key.endswith(".info") else None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim what lies below the configured proxy."""
        path = below(url, upstream.clients.base_url(self.alias))
        return None if path is None else self.asked(path)

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Every proxy has the same layout."""
        return [f"{upstream.clients.base_url(self.alias)}/{quote(key, safe='/@!+~')}"]

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Pass a module's list of versions, or its latest version, through."""
        del request
        found = upstream.document(self.locate(asked.key, upstream)[0])
        if found.status in ABSENT:
            return Answer(404, "text/plain", b"not found\n")
        if asked.key.endswith("/@latest"):
            return Answer(200, "application/json", _lasting(found.body))
        return Answer(200, "text/plain", found.body)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """List the locked versions, or say which of them is the latest."""
        del request
        versions = sorted({_unescape(_match(one.key)["version"]) for one in held}, key=order_of)
        released = [version for version in versions if not _PSEUDO.fullmatch(version)]
        if asked.key.endswith("/@v/list"):
            return Answer(200, "text/plain", "".join(f"{version}\n" for version in released).encode())
        stable = [version for version in released if "-" not in version]
        latest = (stable or released or versions)[-1]
        info = next((one for one in held if one.key.endswith(f"/@v/{_escape(latest)}.info")), None)
        if info is None:
            return Answer(200, "application/json", format_canonical({"Version": latest}))
        return Answer(200, "application/json", info.path)

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read go.sum."""
        if name.rpartition("/")[2] != "go.sum":
            return []
        found = []
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            match = _SUM_LINE.fullmatch(line.strip())
            if match:
                sort = "mod" if match["mod"] else "zip"
                subject = f"{match['module']}@{match['version']} {sort}"
                found.append(Promise(f"{name}:{number}", subject, frozenset({match["hash"]})))
        return found

    def subject(self, key: str) -> str:
        """Return `<module>@<version> <suffix>`."""
        found = _match(key)
        return f"{_unescape(found['module'])}@{_unescape(found['version'])} {found['suffix']}"

    def measure(self, path: Path, algorithm: str) -> str:
        """Return the h1 hash of a module's zip or go.mod."""
        if algorithm != "h1":
            raise InputError(f"expected h1 hashes in go.sum, found {algorithm[:20]!r}")
        with path.open("rb") as stream:
            is_zip = stream.read(2) == b"PK"
        return hash_of_zip(path) if is_zip else hash_of_mod(path)


def _lasting(body: bytes) -> bytes:
    try:
        said = json.loads(body)
        return format_canonical({"Time": str(said["Time"]), "Version": str(said["Version"])})
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"expected the version and time of a module, found {body[:80]!r}", where="goproxy") from error


def _match(key: str) -> re.Match[str]:
    found = _FILE.fullmatch(key)
    if found is None:
        raise InputError(f"expected <module>/@v/<version>.info, .mod or .zip, found {key[:120]!r}", where="goproxy")
    return found


def _unescape(text: str) -> str:
    return re.sub(r"!([a-z])", lambda found: found[1].upper(), text)


def _escape(text: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"!{found[0].lower()}", text)
