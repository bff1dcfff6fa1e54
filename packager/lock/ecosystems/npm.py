"""npm packages: the registry protocol (packuments and tarballs) as npm, pnpm and yarn use it."""

from __future__ import annotations

import json
import re
import tarfile
import threading
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote, urlsplit

from packager.base.canonical import format_canonical
from packager.base.errors import InputError
from packager.lock.ecosystems.asked import Asked, Held, Mark, Promise, Row, Sort, below
from packager.lock.ecosystems.hashing import hex_hash, integrity
from packager.lock.ecosystems.npm_locks import READERS, YARN_ZIP
from packager.lock.ecosystems.versions import order_of
from packager.lock.ecosystems.yarn_zip import hash_of_yarn_zip
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer
from packager.sandbox.identity import PROXY_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

CORGI = "application/vnd.npm.install-v1+json"
_LONG_AGO = "1980-01-01T00:00:00.000Z"
_MANIFEST_BYTES = 16 << 20
_NAME = r"(?:@[^/@]+/)?[^/@]+"
_TARBALL = re.compile(rf"(?P<name>{_NAME})/-/(?P<file>[^/]+\.tgz)")
_PACKAGE = re.compile(rf"(?P<name>{_NAME})(?:/(?P<version>[^/@]+))?")
_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_DROPPED = ("signatures", "attestations", "npm-signature")
_TOLD = ("package.json", "binding.gyp")
_INSTALLERS = ("preinstall", "install", "postinstall")


class NodePackages:
    """The registry `npm`; remembers where packuments said that tarballs are."""

    alias = "npm"
    rows = (
        Row("npm"),
        Row("pnpm"),
        Row("yarn 1"),
        Row("yarn berry", note="cross-checked where its zips are not compressed, as is usual since yarn 4"),
        Row("bun"),
        Row("corepack", frozenset(Mark) - {Mark.CHECKS}, note="for pnpm, yarn 1 and yarn berry"),
    )
    always_lists = False

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}
        self._manifests: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Point all clients at the alias host; nothing is asked but packages, caches go where layers end."""
        return {
            "npm_config_registry": "http://npm.invalid/",
            "npm_config_fetch_retries": "0",
            "npm_config_fetch_timeout": "600000",
            "npm_config_replace_registry_host": "always",
            "npm_config_audit": "false",
            "npm_config_fund": "false",
            "npm_config_update_notifier": "false",
            "npm_config_cache": "/tmp/npm-cache",  # noqa: S108 - inside the sandbox, dropped from layers
            "npm_config_logs_max": "0",
            "npm_config_progress": "false",
            "BUN_CONFIG_REGISTRY": "http://npm.invalid/",
            "BUN_INSTALL_CACHE_DIR": "/tmp/bun-cache",  # noqa: S108 - as above
            "DO_NOT_TRACK": "1",
            "NODE_USE_ENV_PROXY": "1",  # corepack leaves proxies to Node
            "YARN_ENABLE_TELEMETRY": "0",
            "YARN_HTTP_PROXY": _PROXY,  # berry looks at no other variable
            "YARN_HTTPS_PROXY": _PROXY,
            "YARN_REGISTRY": "http://npm.invalid/",
            "YARN_NPM_REGISTRY_SERVER": "http://npm.invalid",
            "YARN_UNSAFE_HTTP_WHITELIST": "npm.invalid",
            "COREPACK_NPM_REGISTRY": "http://npm.invalid",
            "COREPACK_INTEGRITY_KEYS": "0",
            "pnpm_config_registry": "http://npm.invalid/",
            "pnpm_config_fetch_retries": "0",
            "pnpm_config_fetch_timeout": "600000",
            "pnpm_config_cache_dir": "/tmp/pnpm-cache",  # noqa: S108 - as above
            "pnpm_config_state_dir": "/tmp/pnpm-state",  # noqa: S108 - as above
            "pnpm_config_store_dir": "/tmp/pnpm-store",  # noqa: S108 - as above
            "pnpm_config_package_import_method": "copy",
            "pnpm_config_update_notifier": "false",
            # Both ask about every entry of the lock file, of all platforms, though none is fetched for it.
            "pnpm_config_minimum_release_age": "0",
            "pnpm_config_trust_policy": "off",
        }

    def asked(self, path: str) -> Asked | None:
        """Tell tarballs, packuments and single versions apart; services below `/-/` are none of them."""
        plain = unquote(path.partition("?")[0]).strip("/")
        if plain.startswith("-/"):
            return None
        if _TARBALL.fullmatch(plain):
            return Asked(Sort.ARTIFACT, plain)
        found = _PACKAGE.fullmatch(plain)
        return Asked(Sort.INDEX, found["name"], found["version"] or "") if found else None

    def guess(self, path: str) -> Asked | None:
        """Take the end of a path for a tarball or packument."""
        plain = unquote(path.partition("?")[0]).strip("/")
        found = re.search(rf"(?:^|/)(?P<key>{_TARBALL.pattern})$", plain)
        return Asked(Sort.ARTIFACT, found["key"]) if found else self.asked(path)

    def shelf(self, asked: Asked) -> str:
        """Return the package's name."""
        return asked.key.partition("/-/")[0]

    def purl(self, key: str) -> str:
        """Return pkg:npm/<name>@<version>."""
        name, version = _split(key)
        return f"pkg:npm/{quote(name, safe='/')}@{quote(version)}"

    def media_type(self, key: str) -> str:
        """Return what registries serve."""
        del key
        return "application/octet-stream"

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep tarballs as they are."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim what lies below the configured registry, and tarballs at addresses such as all registries have."""
        path = below(url, upstream.clients.base_url(self.alias))
        if path is not None:
            return self.asked(path)
        found = _TARBALL.fullmatch(unquote(urlsplit(url).path).strip("/"))
        named = found is not None and found["file"].startswith(f"{found['name'].rpartition('/')[2]}-")
        return Asked(Sort.ARTIFACT, found[0]) if found and named else None

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Where the packument said, else where every registry has it."""
        with self._lock:
            known = self._urls.get(key)
        usual = f"{upstream.clients.base_url(self.alias)}/{quote(key, safe='/@')}"
        return [known, usual] if known and known != usual else [usual]

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Return a packument with tarballs below the alias host and without what registries sign."""
        accept = CORGI if CORGI in request.headers.get("accept", "") else "application/json"
        url = f"{upstream.clients.base_url(self.alias)}/{quote(asked.key, safe='@')}"
        page = upstream.document(url, accept=f"{accept}; q=1.0, application/json; q=0.8, */*")
        if page.status in ABSENT:
            return _absent()
        try:
            packument: dict[str, Any] = json.loads(page.body)
            versions = {str(version): self._moved(asked.key, row) for version, row in packument["versions"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"expected a packument, found {page.body[:60]!r}", where=f"npm {asked.key}") from error
        kept = {name: value for name, value in packument.items() if name in {"name", "dist-tags", "time", "modified"}}
        return _answer(kept | {"versions": versions}, asked, accept)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Return a packument of the locked versions, made from what the tarballs say of themselves."""
        accept = CORGI if CORGI in request.headers.get("accept", "") else "application/json"
        versions = {manifest["version"]: manifest for manifest in map(self._manifest, held)}
        ordered = sorted(versions, key=order_of)
        released = [version for version in ordered if "-" not in version]
        packument = {
            "name": asked.key,
            "dist-tags": {"latest": (released or ordered)[-1]},
            "modified": _LONG_AGO,
            "time": dict.fromkeys(ordered, _LONG_AGO),
            "versions": versions,
        }
        return _answer(packument, asked, accept)

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read the lock files of npm, pnpm, yarn 1, yarn berry and bun."""
        reader = READERS.get(name.rpartition("/")[2])
        return [] if reader is None else reader(name, data)

    def subject(self, key: str) -> str:
        """Return the package URL."""
        return self.purl(key)

    def measure(self, path: Path, algorithm: str) -> str:
        """Return a Subresource Integrity hash, or the checksum of the zip that yarn berry makes of a package."""
        return f"{YARN_ZIP}-{hash_of_yarn_zip(path)}" if algorithm == YARN_ZIP else integrity(path, algorithm)

    def _moved(self, name: str, row: dict[str, Any]) -> dict[str, Any]:
        dist = {field: value for field, value in row["dist"].items() if field not in _DROPPED}
        tarball = str(dist["tarball"])
        key = f"{name}/-/{unquote(urlsplit(tarball).path.rpartition('/')[2])}"
        with self._lock:
            self._urls[key] = tarball
        return row | {"dist": dist | {"tarball": _address(key)}}

    def _manifest(self, one: Held) -> dict[str, Any]:
        with self._lock:
            known = self._manifests.get(one.key)
        if known is None:
            known = manifest_of(one)
            with self._lock:
                self._manifests[one.key] = known
        return known


def manifest_of(one: Held) -> dict[str, Any]:
    """Return what a registry says of one version: the tarball's package.json, tidied, and where the tarball is."""
    manifest, has_gyp = _read_package(one)
    name, version = _split(one.key)
    manifest.setdefault("name", name)
    manifest.setdefault("version", version)
    if isinstance(manifest.get("bin"), str):
        manifest["bin"] = {name.rpartition("/")[2]: manifest["bin"]}
    scripts = manifest.get("scripts")
    if has_gyp or (isinstance(scripts, dict) and not scripts.keys().isdisjoint(_INSTALLERS)):
        manifest["hasInstallScript"] = True
    optional = manifest.get("optionalDependencies")
    if isinstance(optional, dict) and isinstance(manifest.get("dependencies"), dict):
        manifest["dependencies"] = {k: v for k, v in manifest["dependencies"].items() if k not in optional}
    manifest["dist"] = {
        "integrity": integrity(one.path, "sha512"),
        "shasum": hex_hash(one.path, "sha1").partition(":")[2],
        "tarball": _address(one.key),
    }
    return manifest


def _read_package(one: Held) -> tuple[dict[str, Any], bool]:
    try:
        with tarfile.open(one.path, "r|gz") as archive:
            found = _read_told(archive)
        manifest = json.loads(found.get("package.json", b"null").decode("utf-8-sig"))
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise InputError(f"the package cannot be read: {error}", where=one.key) from error
    if not isinstance(manifest, dict):
        raise InputError("expected a package.json in the package, found none", where=one.key)
    return manifest, "binding.gyp" in found


def _read_told(archive: tarfile.TarFile) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for member in archive:
        inner = member.name.removeprefix("./").partition("/")[2]
        if inner in _TOLD and member.isfile():
            found.setdefault(inner, cast("IO[bytes]", archive.extractfile(member)).read(_MANIFEST_BYTES))
    return found


def _answer(packument: dict[str, Any], asked: Asked, accept: str) -> Answer:
    if not asked.detail:
        return Answer(200, accept, json.dumps(packument, sort_keys=True, separators=(",", ":")).encode())
    version = packument.get("dist-tags", {}).get(asked.detail, asked.detail)
    row = packument["versions"].get(version)
    return _absent() if row is None else Answer(200, "application/json", json.dumps(row, sort_keys=True).encode())


def _absent() -> Answer:
    return Answer(404, "application/json", format_canonical({"error": "Not found"}))


def _address(key: str) -> str:
    return f"http://npm.invalid/{quote(key, safe='/@')}"


def _split(key: str) -> tuple[str, str]:
    found = _TARBALL.fullmatch(key)
    if found is None:
        raise InputError(f"expected <package>/-/<file>.tgz, found {key[:120]!r}", where="npm")
    stem, short = found["file"].removesuffix(".tgz"), found["name"].rpartition("/")[2]
    return found["name"], stem.removeprefix(f"{short}-")
