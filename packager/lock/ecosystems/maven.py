"""Java packages: repositories in the layout of Maven 2, as Maven, Gradle and other clients of the JVM use them.

Where a repository is stands in a client, a build file or a plugin, and no variable moves all of them: requests keep
their hosts and are known by the start of their path. What no such start tells is pinned like any download (`web.py`).
"""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from packager.base.errors import InputError
from packager.lock.ecosystems import maven_pages
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Mark, Promise, Row, Sort, below
from packager.lock.ecosystems.hashing import hex_hash
from packager.lock.ecosystems.maven_keys import METADATA, find_artifact, purl_of, split_checksum
from packager.lock.ecosystems.maven_promises import read_promises
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer
from packager.sandbox.identity import JAVA_PASSWORD, JAVA_TRUST_PATH, PROXY_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_MEDIA = {"jar": "application/java-archive", "module": "application/json", "pom": "application/xml"}


_ROWS = (Row("Maven"), Row("Gradle", note="4.4.1, as Debian has it; .module files by unit test"))


class JavaPackages:
    """One repository, by default `maven`; `start` is how paths begin on whatever host has it."""

    always_lists = False

    def __init__(self, alias: str = "maven", start: str = "/maven2/", rows: tuple[Row, ...] = _ROWS) -> None:
        self.alias = alias
        self.rows = rows
        self._start = start
        self._asked: dict[str, str] = {}
        self._lock = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Lead every JVM through the proxy, and keep what depends on the hour out of local repositories."""
        proxy = {f"{scheme}.{name}": value for scheme in ("http", "https") for name, value in _PROXY.items()}
        trust = {"trustStore": JAVA_TRUST_PATH, "trustStorePassword": JAVA_PASSWORD, "trustStoreType": "PKCS12"}
        java = {**proxy, **{f"javax.net.ssl.{name}": value for name, value in trust.items()}}
        return {
            "JAVA_TOOL_OPTIONS": _options({**java, "http.nonProxyHosts": "localhost|127.0.0.1"}),
            "MAVEN_OPTS": _options(_MAVEN),
            "GRADLE_OPTS": _options({"org.gradle.daemon": "false"}),
        }

    def asked(self, path: str) -> Asked | None:
        """Tell artifacts from pages: metadata, and checksums of either; signatures are nobody's need."""
        key = unquote(path.partition("?")[0]).strip("/")
        plain, algorithm = split_checksum(key)
        if plain.rpartition("/")[2] == METADATA or (algorithm and find_artifact(plain)):
            return Asked(Sort.INDEX, key)
        return Asked(Sort.ARTIFACT, key) if find_artifact(key) else None

    def guess(self, path: str) -> Asked | None:
        """Take a path for what it is below the start that repositories of this kind have."""
        return self.asked(path.removeprefix(self._start)) if path.startswith(self._start) else None

    def shelf(self, asked: Asked) -> str:
        """Return group and artifact; metadata may be about a group, so it is about everything."""
        found = find_artifact(split_checksum(asked.key)[0])
        return f"{found['group']}/{found['artifact']}" if found else WHOLE

    def purl(self, key: str) -> str:
        """Return pkg:maven/<group>/<artifact>@<version>."""
        return purl_of(key)

    def media_type(self, key: str) -> str:
        """Return the type by the file's suffix."""
        return _MEDIA.get(key.rpartition(".")[2], "application/octet-stream")

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep files as they are."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim what lies below the configured repository, and what a client asks for at the usual place."""
        usual = self.guess("/" + url.partition("://")[2].partition("/")[2])
        path = below(url, self._base(upstream) or url)
        asked = usual if path is None else self.asked(path)
        if asked is not None:
            with self._lock:
                self._asked.setdefault(asked.key, url)
        return asked

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Where this machine's clients have it; where none of them says so, where it was asked for."""
        base = self._base(upstream)
        with self._lock:
            asked = self._asked.get(key)
        if not base and asked:
            return [asked]
        return [f"{base or upstream.clients.base_url(self.alias)}/{quote(key, safe='/@!+~')}"]

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Pass metadata and checksums through."""
        del request
        found = upstream.document(self.locate(asked.key, upstream)[0])
        return _ABSENT if found.status in ABSENT else Answer(200, _type_of_page(asked.key), found.body)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Write metadata about the locked files, and the checksums of either."""
        del request
        plain, algorithm = split_checksum(asked.key)
        if plain.rpartition("/")[2] == METADATA:
            page = maven_pages.format_metadata(plain.rpartition("/")[0], held)
            if page is None:
                return _ABSENT
            digest = hashlib.new(algorithm, page).hexdigest() if algorithm else ""  # what clients ask for, md5 too
            return Answer(200, _type_of_page(asked.key), digest.encode() or page)
        one = next((one for one in held if one.key == plain), None)
        if one is None:
            return _ABSENT
        return Answer(200, "text/plain", self.measure(one.path, algorithm).partition(":")[2].encode())

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read Gradle's verification metadata and Maven's trusted checksums."""
        return read_promises(name, data)

    def subject(self, key: str) -> str:
        """Return the key: it has all coordinates and the file's name."""
        return key

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `<algorithm>:<hex>`."""
        return hex_hash(path, algorithm)

    def _base(self, upstream: Upstream) -> str:
        try:
            return upstream.clients.base_url(self.alias)
        except InputError:
            return ""


def gradle_plugins() -> JavaPackages:
    """Return the registry `gradleplugins`, where Gradle looks for plugins by their marker artifacts."""
    return JavaPackages("gradleplugins", "/m2/", (Row("Gradle plugins", frozenset(Mark) - {Mark.CHECKS}),))


_PROXY = {"proxyHost": "127.0.0.1", "proxyPort": str(PROXY_PORT)}
_MAVEN = {
    "maven.legacyLocalRepo": "true",  # no _remote.repositories, which name the time and place of each download
    "aether.connector.http.useSystemProperties": "true",  # from Maven 3.9 on
    "maven.wagon.http.retryHandler.count": "0",
}
_ABSENT = Answer(404, "text/plain", b"not found\n")


def _options(properties: Mapping[str, str]) -> str:
    return " ".join(f"-D{name}={value}" for name, value in properties.items())


def _type_of_page(key: str) -> str:
    return "application/xml" if key.endswith(METADATA) else "text/plain"
