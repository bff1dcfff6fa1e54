"""Where registries are: the machine's own package clients know, our code names no host."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from packager.base.errors import InputError, WorldError
from packager.base.processes import Surroundings, find_program, run
from packager.lock import client_settings
from packager.lock.apt_sources import choose_source, read_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import requests

    from packager.lock.git import GitSources

OVERRIDE = "WIDESWE_REGISTRY_"
_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_CA_FILES = (
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/ssl/cert.pem",
)
_CLIENTS = {
    "crates": "cargo",
    "debian": "apt",
    "goproxy": "go",
    "gradleplugins": "gradle",
    "maven": "mvn",
    "npm": "npm",
    "nuget": "nuget",
    "packagist": "composer",
    "pypi": "pip",
    "rubygems": "gem",
    "rustdist": "rustup",
}
_PATIENCE = Surroundings(timeout_s=60)


class Clients:
    """Registry aliases and their base URLs, found on first use and then kept; `root` is where `/etc` is looked for."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, *, root: Path = Path("/"), suite: str = "bookworm"
    ) -> None:
        self.environment: Mapping[str, str] = os.environ if environment is None else environment
        self.suite = suite
        self.git: GitSources | None = None
        """Where git repositories are had; a machine's git knows, but mirrors are our own setting."""
        self._root = root
        self._found: dict[str, str] = {}
        self._defaults: dict[str, str] = {}

    def base_url(self, alias: str) -> str:
        """Return the base URL of a registry without a final slash, or raise InputError with a hint."""
        if alias not in self._found:
            self._found[alias] = self._find(alias).rstrip("/")
        return self._found[alias]

    def set_default(self, alias: str, url: str) -> None:
        """Say where a registry is if this machine's clients say nothing (a toolchain's own default)."""
        self._defaults.setdefault(alias, url)

    @cached_property
    def ca_bundle(self) -> Path | None:
        """The certificates that upstream connections are checked against; None leaves it to the library."""
        named = (self.environment.get(name, "") for name in _CA_VARIABLES)
        for path in (*(Path(name) for name in named if name), *(self._root / name for name in _CA_FILES)):
            if path.is_file():
                return path
        return None

    @cached_property
    def pypi_sites(self) -> tuple[str, str]:
        """The site, and the host of files, that pip was made for: lock files and poetry name them; else empty."""
        said = _pip_sites() or self._ask(["python3", "-c", _PIP_SITES]) or ""
        site, _, files = said.partition(" ")
        return site.rstrip("/"), files

    def session(self) -> requests.Session:
        """Return a new session that uses the machine's proxy and certificates, and no credentials but a URL's own."""
        import requests  # noqa: PLC0415 - slow to import, and a build with nothing to do does not need it

        session = requests.Session()
        session.trust_env = False
        session.proxies.update(_proxies(self.environment))
        session.verify = True if self.ca_bundle is None else str(self.ca_bundle)
        session.headers["User-Agent"] = "wideswe-pack"
        session.headers["Accept-Encoding"] = "identity"
        return session

    def _find(self, alias: str) -> str:
        override = self.environment.get(f"{OVERRIDE}{alias.upper()}", "")
        if override:
            return _checked(override, f"{OVERRIDE}{alias.upper()}")
        finders: dict[str, Callable[[], str | None]] = {
            "pypi": self._find_pypi,
            "npm": self._find_npm,
            "goproxy": self._find_goproxy,
            "debian": self._find_debian,
            "maven": self._find_maven,
            "gradleplugins": self._find_gradle_plugins,
            "rubygems": self._find_rubygems,
            "packagist": self._find_packagist,
            "nuget": self._find_nuget,
            "crates": self._find_crates,
            "rustdist": self._find_rustdist,
        }
        if alias not in finders:
            known = ", ".join(sorted(finders))
            raise InputError(
                f"expected a registry alias ({known}), found {alias[:40]!r}", hint=f"set {OVERRIDE}{alias.upper()[:40]}"
            )
        found = finders[alias]() or self._defaults.get(alias)
        if found is None:
            client = _CLIENTS[alias]
            raise InputError(
                f"no package client on this machine says where {alias} is",
                where="registries",
                hint=f"install or configure {client}, or set {OVERRIDE}{alias.upper()} to its URL",
            )
        return _checked(found, f"the configuration of {alias}")

    def _find_pypi(self) -> str | None:
        for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
            if self.environment.get(name):
                return self.environment[name]
        configured = self._ask([sys.executable, "-m", "pip", "config", "get", "global.index-url"])
        return configured or _pip_default() or self._ask(["python3", "-c", _PIP_DEFAULT])

    def _find_npm(self) -> str | None:
        for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
            if self.environment.get(name):
                return self.environment[name]
        return _npmrc_registry(self._home() / ".npmrc") or self._ask(["npm", "config", "get", "registry"])

    def _find_goproxy(self) -> str | None:
        listed = self.environment.get("GOPROXY") or self._ask(["go", "env", "GOPROXY"]) or ""
        return first_proxy(listed)

    def _find_debian(self) -> str | None:
        return choose_source(read_sources(self._root / "etc/apt"), self.suite).uri

    def _find_maven(self) -> str | None:
        settings = (self._home() / ".m2/settings.xml", self._root / "etc/maven/settings.xml")
        return client_settings.maven_repository(settings, self.environment)

    def _find_gradle_plugins(self) -> str | None:
        named = self.environment.get("GRADLE_USER_HOME")
        return client_settings.gradle_plugin_repository(Path(named) if named else self._home() / ".gradle")

    def _find_rubygems(self) -> str | None:
        mirror = self.environment.get("BUNDLE_MIRROR__ALL")
        return mirror or client_settings.gem_source(self._home() / ".gemrc", self._ask(["gem", "sources"]))

    def _find_packagist(self) -> str | None:
        named = self.environment.get("COMPOSER_HOME")
        said = self._ask(["composer", "config", "--global", "repositories"])
        home = Path(named) if named else self._home() / ".config/composer"
        return client_settings.composer_repository(home, said)

    def _find_nuget(self) -> str | None:
        places = (".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config")
        return client_settings.nuget_source([self._home() / place for place in places])

    def _find_crates(self) -> str | None:
        """Let cargo look for a crate behind a proxy that is not there: it says which index it could not reach."""
        named = self.environment.get("CARGO_HOME")
        home = Path(named) if named else self._home() / ".cargo"
        with tempfile.TemporaryDirectory() as folder:
            for name in ("config.toml", "config"):
                if (home / name).is_file():
                    shutil.copy(home / name, folder)
            around = _lonely_cargo(Path(folder), self.environment)
            try:
                said = run(["cargo", "generate-lockfile"], around).stderr.decode(errors="replace")
            except WorldError:
                return None
        found = re.search(r"`(?:sparse\+)?(https?://[^`]+)/config\.json`", said)
        return found[1] if found else None

    def _find_rustdist(self) -> str | None:
        """Ask rustup's variable, else the manifests that rustup keeps of what it has installed."""
        if self.environment.get("RUSTUP_DIST_SERVER"):
            return self.environment["RUSTUP_DIST_SERVER"]
        named = self.environment.get("RUSTUP_HOME")
        home = Path(named) if named else self._home() / ".rustup"
        for path in sorted(home.glob("toolchains/*/lib/rustlib/multirust-channel-manifest.toml")):
            found = re.search(r'(?m)^(?:xz_)?url = "(https?://[^"]+?)/dist/', path.read_text(errors="replace"))
            if found:
                return found[1]
        return None

    def _home(self) -> Path:
        return Path(self.environment.get("HOME") or Path.home())

    def _ask(self, argv: Sequence[str]) -> str | None:
        if find_program(argv[0]) is None:
            return None
        try:
            done = run(argv, Surroundings(env=dict(self.environment), cwd=self._home(), timeout_s=_PATIENCE.timeout_s))
        except WorldError:
            return None
        said = done.stdout.decode(errors="replace").strip()
        return said if done.exit_code == 0 and said not in {"", "undefined", "null"} else None


_PIP_SITES = (
    "from pip._internal.models.index import PyPI; import sys; "
    "sys.stdout.write(PyPI.url + ' ' + PyPI.file_storage_domain)"
)


def _lonely_cargo(folder: Path, environment: Mapping[str, str]) -> Surroundings:
    """Write a project that needs any crate, and return how a cargo is started in it that can reach nothing."""
    manifest = '[package]\nname = "none"\nversion = "0.0.0"\n\n[lib]\npath = "lib.rs"\n\n[dependencies]\nany = "1"\n'
    (folder / "Cargo.toml").write_text(manifest)
    (folder / "lib.rs").write_text("")
    kept = {name: value for name, value in environment.items() if name.lower() not in _PROXY_VARIABLES}
    nowhere = {"CARGO_HOME": str(folder), "CARGO_HTTP_PROXY": _NO_PROXY_THERE, "CARGO_NET_RETRY": "0"}
    return Surroundings(env=kept | nowhere, cwd=folder, timeout_s=_PATIENCE.timeout_s)


_PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
_NO_PROXY_THERE = "http://127.0.0.1:9"
_PIP_DEFAULT = "from pip._internal.models.index import PyPI; import sys; sys.stdout.write(PyPI.simple_url)"


def first_proxy(listed: str) -> str | None:
    """Return the first URL of a GOPROXY list; `direct` and `off` are not registries."""
    urls = (part.strip() for part in listed.replace("|", ",").split(","))
    return next((url for url in urls if url.startswith(("http://", "https://"))), None)


def without_credentials(url: str) -> str:
    """Return a URL without user name and password, fit for messages and files."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _pip_default() -> str | None:
    try:
        found = importlib.import_module("pip._internal.models.index").PyPI.simple_url
    except (ImportError, AttributeError):
        return None
    return str(found)


def _pip_sites() -> str | None:
    try:
        index = importlib.import_module("pip._internal.models.index").PyPI
        found = f"{index.url} {index.file_storage_domain}"
    except (ImportError, AttributeError):
        return None
    return found


def _npmrc_registry(path: Path) -> str | None:
    if not path.is_file():
        return None
    pairs = (line.partition("=") for line in path.read_text(errors="replace").splitlines())
    return next((value.strip().strip("\"'") for name, _, value in pairs if name.strip() == "registry"), None)


def _checked(url: str, where: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(f"expected an http or https URL, found {without_credentials(url)[:120]!r}", where=where)
    return url


def _proxies(environment: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for scheme in ("http", "https"):
        url = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        if url:
            found[scheme] = url
    exempt = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    for host in filter(None, (part.strip().lstrip(".") for part in exempt.split(","))):
        found.update({f"http://{host}": "", f"https://{host}": ""})
    return found
