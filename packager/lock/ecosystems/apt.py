"""Debian packages for apt-get inside a step: upstream's signed index while recording, one made from the lock later."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from packager.base.errors import InputError, IntegrityError
from packager.base.processes import find_program, run
from packager.lock.apt_sources import read_sources
from packager.lock.deb import read_control
from packager.lock.ecosystems.asked import Asked, Held, Mark, Promise, Row, Sort, below
from packager.lock.ecosystems.hashing import hex_hash
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_ARCHIVE = "debian/"
_DEB = re.compile(r"pool/.+/(?P<name>[^/_]+)_(?P<version>[^/_]+)_(?P<architecture>[^/_]+)\.deb", re.ASCII)
_PACKAGES = re.compile(r"dists/(?P<suite>[^/]+)/main/binary-(?P<architecture>[a-z0-9]+)/Packages", re.ASCII)
_RELEASE = re.compile(r"dists/(?P<suite>[^/]+)/Release", re.ASCII)
_CLEARSIGNED = re.compile(
    rb"-----BEGIN PGP SIGNED MESSAGE-----\n(?:[^\n]+\n)*\n(?P<text>.*?)\n-----BEGIN PGP SIGNATURE-----", re.DOTALL
)


class DebianPackages:
    """The registry `debian`."""

    alias = "debian"
    rows = (Row("apt", frozenset(Mark) - {Mark.CHECKS}),)
    always_lists = True

    def __init__(self, etc: Path = Path("/etc/apt")) -> None:
        self._etc = etc

    def environment(self) -> Mapping[str, str]:
        """Keep package scripts from asking; where apt looks is written in the base layer."""
        return {"DEBIAN_FRONTEND": "noninteractive", "DEBCONF_NONINTERACTIVE_SEEN": "true"}

    def asked(self, path: str) -> Asked | None:
        """Tell package files from index files."""
        plain = unquote(path.partition("?")[0]).lstrip("/")
        if not plain.startswith(_ARCHIVE):
            return None
        return self._asked(plain.removeprefix(_ARCHIVE))

    def guess(self, path: str) -> Asked | None:
        """Take the end of a path for a package's place in the pool."""
        found = re.search(r"(?:^|/)((?:pool|dists)/.+)$", unquote(path.partition("?")[0]))
        return self._asked(found[1]) if found else None

    def shelf(self, asked: Asked) -> str:
        """Return one name for all: one index lists every package."""
        del asked
        return "archive"

    def purl(self, key: str) -> str:
        """Return pkg:deb/debian/<name>@<version>?arch=<architecture>; pool paths lack the epoch."""
        found = _match(key)
        version = quote(found["version"], safe="+~")
        return f"pkg:deb/debian/{quote(found['name'], safe='+')}@{version}?arch={found['architecture']}"

    def media_type(self, key: str) -> str:
        """Return the registered type."""
        del key
        return "application/vnd.debian.binary-package"

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep packages as they are."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim what lies below the configured archive."""
        path = below(url, upstream.clients.base_url(self.alias))
        return None if path is None else self._asked(unquote(path).lstrip("/"))

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Every mirror has the same pool."""
        return [f"{upstream.clients.base_url(self.alias)}/{quote(key, safe='/+~:')}"]

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Pass index files through; the release file's signature is checked here, with this machine's keys."""
        del request
        url = self.locate(asked.key, upstream)[0]
        if asked.key.endswith(("/InRelease", "/Release.gpg")):
            return _absent()
        if not _RELEASE.fullmatch(asked.key):
            found = upstream.document(url)
            return _absent() if found.status in ABSENT else Answer(200, found.media_type, found.body)
        signed = upstream.document(f"{url.removesuffix('Release')}InRelease")
        if signed.status in ABSENT:
            return _absent()
        suite = asked.key.split("/")[1]
        keyrings = self._keyrings(suite)
        if keyrings:
            verify_release(signed.body, keyrings, where=f"{suite}/InRelease")
        return Answer(200, "text/plain", release_text(signed.body, where=f"{suite}/InRelease"))

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Return a Release or Packages file that knows the locked packages only."""
        del request
        release, packages = _RELEASE.fullmatch(asked.key), _PACKAGES.fullmatch(asked.key)
        if release:
            return Answer(200, "text/plain", format_release(release["suite"], held))
        if packages:
            return Answer(200, "text/plain", format_packages(held, packages["architecture"]))
        return _absent()

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read nothing: projects have no lock file for Debian packages."""
        del name, data
        return []

    def subject(self, key: str) -> str:
        """Return the package URL."""
        return self.purl(key)

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `<algorithm>:<hex>`."""
        return hex_hash(path, algorithm)

    def _asked(self, key: str) -> Asked | None:
        if _DEB.fullmatch(key):
            return Asked(Sort.ARTIFACT, key)
        return Asked(Sort.INDEX, key) if key.startswith("dists/") else None

    def _keyrings(self, suite: str) -> list[Path]:
        named = [Path(source.signed_by) for source in read_sources(self._etc) if source.suite == suite]
        candidates = [path for path in named if path.is_absolute()] or sorted((self._etc / "trusted.gpg.d").glob("*"))
        return [path for path in candidates if path.suffix in {".gpg", ".pgp"} and path.is_file()]


def verify_release(signed: bytes, keyrings: Sequence[Path], *, where: str) -> None:
    """Check a release file's signature with gpgv; a machine without gpgv relies on the lock's digests alone."""
    if find_program("gpgv") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "InRelease"
        path.write_bytes(signed)
        options = [word for keyring in keyrings for word in ("--keyring", str(keyring))]
        done = run(["gpgv", "--quiet", "--homedir", folder, *options, str(path)])
    if done.exit_code != 0:
        raise IntegrityError(
            "the archive's release file is not signed by a key that this machine's apt trusts", where=where
        )


def release_text(signed: bytes, *, where: str) -> bytes:
    """Return the text inside a clear-signed file (RFC 4880 §7)."""
    found = _CLEARSIGNED.search(signed.replace(b"\r\n", b"\n"))
    if found is None:
        raise InputError(f"expected a clear-signed release file, found {signed[:60]!r}", where=where)
    return re.sub(rb"(?m)^- ", b"", found["text"]) + b"\n"


def format_packages(held: Sequence[Held], architecture: str) -> bytes:
    """Return a Packages file: what each package says of itself, where it is, its size and hash."""
    stanzas = []
    for one in sorted(held):
        control = read_control(one.path)
        if control.get("architecture") not in {architecture, "all"}:
            continue
        fields = {"package": control.pop("package", _match(one.key)["name"])} | control
        fields |= {"filename": one.key, "size": str(one.size), "sha256": one.digest.removeprefix("sha256:")}
        lines = (f"{name.title()}: {_folded(value)}\n" for name, value in fields.items())
        stanzas.append("".join(lines).replace("Sha256:", "SHA256:"))
    return "\n".join(stanzas).encode()


def format_release(suite: str, held: Sequence[Held]) -> bytes:
    """Return a Release file for the Packages files of all architectures that the locked packages are for."""
    architectures = sorted({_match(one.key)["architecture"] for one in held} - {"all"}) or ["amd64"]
    lines = [
        "Origin: Debian",
        f"Suite: {suite}",
        f"Codename: {suite}",
        "Date: Tue, 01 Jan 1980 00:00:00 UTC",
        f"Architectures: {' '.join(architectures)}",
        "Components: main",
        "SHA256:",
    ]
    for architecture in architectures:
        packages = format_packages(held, architecture)
        digest = hashlib.sha256(packages).hexdigest()
        lines.append(f" {digest} {len(packages)} main/binary-{architecture}/Packages")
    return ("\n".join(lines) + "\n").encode()


def _folded(value: str) -> str:
    first, *rest = value.split("\n")
    return "\n".join([first, *(f" {line}" for line in rest)])


def _match(key: str) -> re.Match[str]:
    found = _DEB.fullmatch(key)
    if found is None:
        raise InputError(f"expected pool/…/<name>_<version>_<architecture>.deb, found {key[:120]!r}", where="debian")
    return found


def _absent() -> Answer:
    return Answer(404, "text/plain", b"not found\n")
