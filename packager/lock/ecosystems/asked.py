"""What a package client asks a registry for, and the door that every ecosystem stands behind."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Answer, Request


WHOLE = "*"
"""The shelf of a page that is about a registry as such: it holds whatever is locked of that registry."""


class Sort(enum.Enum):
    """ARTIFACT: bytes that never change under their key, locked by digest. INDEX: a page that is rendered anew."""

    ARTIFACT = "artifact"
    INDEX = "index"


@dataclass(frozen=True)
class Asked:
    """What one request is about: the key without host, and the page's detail, if any (such as one version)."""

    sort: Sort
    key: str
    detail: str = ""


@dataclass(frozen=True, order=True)
class Held:
    """One locked artifact whose verified bytes are on disk."""

    key: str
    digest: Digest
    size: int
    path: Path


@dataclass(frozen=True)
class Promise:
    """What a project's lock file says of an artifact: `subject` names it, `expected` are the hashes it may have.

    A lock file that names addresses may be about plain downloads: their subject is their key (`web.key_of`). `purl` is
    for those whose key says less than the lock file; one without any hash gives a name and vouches for nothing.
    """

    where: str
    subject: str
    expected: frozenset[str]
    purl: str = ""


class Mark(enum.StrEnum):
    """What tests can show of a package client: a test shows it by `@pytest.mark.shows("<client>", "<mark>", …)`."""

    RECORDS = "records"
    REPLAYS = "replays offline"
    CHECKS = "cross-checked"
    NAMES = "SBOM names"


@dataclass(frozen=True)
class Row:
    """One package client in the table of ecosystems; `note` says what its tests could not use or do."""

    client: str
    shown: frozenset[Mark] = frozenset(Mark)
    note: str = ""


class Ecosystem(Protocol):
    """One kind of registry. Its methods decide; only those that take an `Upstream` reach the network."""

    @property
    def alias(self) -> str:
        """The registry's name in locks."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The clients that speak to it, and what tests show of each."""

    def environment(self) -> Mapping[str, str]:
        """Return the variables that point clients at the alias host; it is near and it retries, so they need not."""

    def asked(self, path: str) -> Asked | None:
        """Return what a path on the alias host means; None when no client has to ask for it."""

    def guess(self, path: str) -> Asked | None:
        """Return what a path on a foreign host could mean in this ecosystem (a lock file with absolute URLs)."""

    @property
    def always_lists(self) -> bool:
        """Say whether an index page exists even when nothing that it could list is locked."""

    def shelf(self, asked: Asked) -> str:
        """Return what an artifact has in common with the index pages that list it (a project, a module)."""

    def purl(self, key: str) -> str:
        """Return the package URL of an artifact."""

    def media_type(self, key: str) -> str:
        """Return the media type that an artifact is served with."""

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Return what takes the lasting part out of an artifact that registries decorate; None keeps it as it is."""

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Return what an absolute URL asks for if it is this registry's or one that its index links to."""

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Return the URLs where an artifact may be had, the best first."""

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Return an index page while recording: everything that the registry offers, with our addresses."""

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Return an index page from the locked artifacts that it owns."""

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Return what a project's lock file promises; nothing when the file is not one of this ecosystem's."""

    def subject(self, key: str) -> str:
        """Return what promises call an artifact."""

    def measure(self, path: Path, algorithm: str) -> str:
        """Return an artifact's hash as promises write it (`sha256:…`, `sha512-…`, `h1:…`)."""


def below(url: str, base: str) -> str | None:
    """Return the path of a URL below a base URL, with a leading slash, or None; schemes may differ."""
    bare, bare_base = url.partition("://")[2], base.partition("://")[2].rpartition("@")[2]
    return bare.removeprefix(bare_base) if bare.startswith(f"{bare_base}/") else None
