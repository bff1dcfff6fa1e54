"""Resolves Debian packages to exact files with an apt of its own; the machine's package state is left alone."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from packager.base.digests import parse_digest
from packager.base.errors import InputError, WorldError
from packager.base.processes import Surroundings, find_program, run
from packager.lock.apt_sources import AptSource, choose_source, read_sources
from packager.lock.model import LockedBase, LockedBlob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.lock.clients import Clients

ALIAS = "debian"
ALWAYS = ("apt", "usr-is-merged")
"""Wanted in every base; usr-is-merged keeps apt from choosing usrmerge, which drags in perl."""

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?", re.ASCII)
_URI = re.compile(
    r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>[0-9]+) SHA256:(?P<sha256>[0-9a-f]{64})$", re.MULTILINE | re.ASCII
)
_FIELD = re.compile(r"^Package: (\S+)$", re.MULTILINE)
_TIMEOUT_S = 600.0


def resolve(
    suite: str, packages: Sequence[str], *, clients: Clients, etc: Path = Path("/etc/apt"), architecture: str = "amd64"
) -> LockedBase:
    """Return the closure of a base system and `packages` in a suite's main archive, without recommended packages.

    Only the main archive is asked (it does not move between point releases), whose signature apt checks with the keys
    that this machine has for it. Keys are pool paths.
    """
    check_names(packages)
    if find_program("apt-get") is None:
        raise InputError(
            "resolving Debian packages needs apt-get, which this machine lacks",
            where="base.debian",
            hint="lock on a Debian machine (or in a Debian container); building from a lock needs no apt",
        )
    source = _source(suite, clients, etc)
    with tempfile.TemporaryDirectory(prefix="wideswe-apt-") as folder:
        apt = _IsolatedApt(Path(folder), clients.environment)
        apt.configure(source, etc=etc, architecture=architecture)
        apt.run("update", "--error-on=any")
        wanted = sorted({*apt.base_packages(), *ALWAYS, *packages})
        listing = apt.run("install", "--yes", "--print-uris", "--no-install-recommends", "--", *wanted)
    return LockedBase(suite, tuple(parse_uris(listing, source.uri)))


def check_names(packages: Iterable[str]) -> None:
    """Refuse what is not a Debian package name (with an optional `=version`)."""
    for name in packages:
        if _NAME.fullmatch(name) is None:
            raise InputError(f"expected the name of a Debian package, found {name[:80]!r}", where="base.packages")


def parse_uris(listing: str, archive: str) -> list[LockedBlob]:
    """Return the files of `apt-get --print-uris`, named by their paths below the archive."""
    found = []
    for match in _URI.finditer(listing):
        uri = match["uri"]
        if not uri.startswith(f"{archive}/"):
            raise InputError("expected every package from the suite's main archive, found another place for one")
        key = unquote(uri.removeprefix(f"{archive}/"))
        found.append(LockedBlob(ALIAS, key, parse_digest(f"sha256:{match['sha256']}"), int(match["size"])))
    quoted = sum(line.startswith("'") for line in listing.splitlines())
    if quoted != len(found) or not found:
        raise WorldError(
            f"expected a size and a SHA-256 for each of {quoted} packages, found {len(found)}", where="apt"
        )
    return sorted(found)


class _IsolatedApt:
    """An apt whose state, cache, configuration and idea of what is installed live in one folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        proxies = {name: value for name, value in environment.items() if name.lower() in {"http_proxy", "https_proxy"}}
        path = environment.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        self._env = {"PATH": path, "LC_ALL": "C.UTF-8", "APT_CONFIG": str(folder / "apt.conf"), **proxies}

    def configure(self, source: AptSource, *, etc: Path, architecture: str) -> None:
        """Write apt's configuration for one archive."""
        for name in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial", "log"):
            (self._folder / name).mkdir(parents=True)
        (self._folder / "state/status").touch()
        options = [f"arch={architecture}"]
        signed_by = source.signed_by
        if signed_by.startswith("-----BEGIN"):
            key = self._folder / "etc/archive.asc"
            key.write_text(re.sub(r"(?m)^\.$", "", signed_by) + "\n")
            signed_by = str(key)
        if signed_by:
            options.append(f"signed-by={signed_by}")
        line = f"deb [{' '.join(options)}] {source.uri} {source.suite} {' '.join(source.components)}\n"
        (self._folder / "etc/sources.list").write_text(line)
        text = _APT_CONF.format(folder=self._folder, etc=etc, architecture=architecture)
        (self._folder / "apt.conf").write_text(text)

    def run(self, *arguments: str) -> str:
        """Run apt-get and return what it printed; a package that it does not know is the recipe's fault."""
        done = run(["apt-get", "--quiet", *arguments], Surroundings(env=self._env, timeout_s=_TIMEOUT_S))
        said = done.stderr.decode(errors="replace").strip()
        if done.exit_code == 0:
            return done.stdout.decode(errors="replace")
        if arguments[0] == "install":
            raise InputError(f"apt cannot install these packages: {said[-1000:]}", where="base.packages")
        raise WorldError(f"apt-get {arguments[0]} failed: {said[-1000:]}", where="base.debian", retryable=True)

    def base_packages(self) -> set[str]:
        """Return the names of all packages that are essential or of priority required."""
        found: set[str] = set()
        for path in (self._folder / "state/lists").glob("*_Packages"):
            for stanza in path.read_text(errors="replace").split("\n\n"):
                if "\nEssential: yes" in stanza or "\nPriority: required" in stanza:
                    found.update(_FIELD.findall(stanza)[:1])
        if not found:
            raise WorldError("expected essential packages in the archive's index, found none", where="base.debian")
        return found


_APT_CONF = """\
Dir "{folder}";
Dir::State "{folder}/state";
Dir::State::status "{folder}/state/status";
Dir::Cache "{folder}/cache";
Dir::Log "{folder}/log";
Dir::Etc "{folder}/etc";
Dir::Etc::main "{folder}/apt.conf";
Dir::Etc::parts "{folder}/etc/apt.conf.d";
Dir::Etc::sourcelist "{folder}/etc/sources.list";
Dir::Etc::sourceparts "{folder}/etc/sources.list.d";
Dir::Etc::preferences "{folder}/etc/preferences";
Dir::Etc::preferencesparts "{folder}/etc/preferences.d";
Dir::Etc::trusted "{etc}/trusted.gpg";
Dir::Etc::trustedparts "{etc}/trusted.gpg.d";
Dir::Etc::netrc "{etc}/auth.conf";
Dir::Etc::netrcparts "{etc}/auth.conf.d";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::GzipIndexes "false";
Acquire::ForceHash "SHA256";
Acquire::Retries "3";
"""


def _source(suite: str, clients: Clients, etc: Path) -> AptSource:
    uri = clients.base_url(ALIAS)
    named = [source for source in read_sources(etc) if source.suite == suite and "main" in source.components]
    if named:
        chosen = choose_source(named, suite)
        return AptSource(uri, suite, ("main",), chosen.signed_by)
    return AptSource(uri, suite, ("main",))
