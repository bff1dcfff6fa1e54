"""Distributions of Gradle, as its wrapper fetches them from the address in gradle-wrapper.properties."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING
from urllib.parse import quote

from packager.base.errors import InputError
from packager.lock.ecosystems.asked import Asked, Held, Promise, Row, Sort
from packager.lock.ecosystems.hashing import hex_hash
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_NAME = re.compile(r"gradle-(?P<version>[0-9][A-Za-z0-9.+-]*?)-(?:bin|all)\.zip", re.ASCII)
_PROPERTY = re.compile(r"^\s*(?P<name>distributionUrl|distributionSha256Sum)\s*[=:]\s*(?P<value>\S+)\s*$", re.MULTILINE)


class GradleDistributions:
    """The registry `gradle`: archives by their names, from wherever a wrapper asks for them."""

    alias = "gradle"
    rows = (Row("Gradle wrapper"),)
    always_lists = False

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}
        self._lock = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Nothing: a wrapper is a JVM like another (`maven.py`)."""
        return {}

    def asked(self, path: str) -> Asked | None:
        """Know an archive by its name."""
        name = path.partition("?")[0].rpartition("/")[2]
        return Asked(Sort.ARTIFACT, name) if _NAME.fullmatch(name) else None

    def guess(self, path: str) -> Asked | None:
        """Take any address of such a name for the archive."""
        return self.asked(path)

    def shelf(self, asked: Asked) -> str:
        """Return the name: nothing lists archives."""
        return asked.key

    def purl(self, key: str) -> str:
        """Return pkg:generic/gradle@<version>."""
        found = _NAME.fullmatch(key)
        if found is None:
            raise InputError(f"expected gradle-<version>-bin.zip or -all.zip, found {key[:120]!r}", where="gradle")
        return f"pkg:generic/gradle@{quote(found['version'])}"

    def media_type(self, key: str) -> str:
        """Return what a zip is served as."""
        del key
        return "application/zip"

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep archives as they are."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim every address of such a name."""
        del upstream
        asked = self.asked(url)
        if asked is not None:
            with self._lock:
                self._urls.setdefault(asked.key, url)
        return asked

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Where it was asked for; later on, the sources file of the lock has that address."""
        del upstream
        with self._lock:
            return [self._urls[key]] if key in self._urls else []

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Nothing lists archives."""
        del asked, request, upstream
        return Answer(404, "text/plain", b"not found\n")

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Nothing lists archives."""
        del asked, request, held
        return Answer(404, "text/plain", b"not found\n")

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read gradle-wrapper.properties; one without a checksum promises nothing."""
        if name.rpartition("/")[2] != "gradle-wrapper.properties":
            return []
        told = {found["name"]: found["value"] for found in _PROPERTY.finditer(data.decode(errors="replace"))}
        archive, sha256 = told.get("distributionUrl", "").rpartition("/")[2], told.get("distributionSha256Sum")
        return [Promise(name, archive, frozenset({f"sha256:{sha256.lower()}"}))] if archive and sha256 else []

    def subject(self, key: str) -> str:
        """Return the archive's name."""
        return key

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `sha256:<hex>`."""
        return hex_hash(path, algorithm)
