"""Rust as a toolchain: compiler, standard library and cargo, as Rust's own distribution has them for one version."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from packager.base.digests import parse_digest
from packager.base.errors import InputError
from packager.lock.archives import Place, entries_of_tar
from packager.lock.ecosystems.rustup import RustDistribution
from packager.lock.model import LockedBlob, LockedToolchain
from packager.lock.upstream import ABSENT, Expected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.oci.entries import Entry
    from packager.store.store import Store

_VERSION = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
_COMPONENTS = ("cargo", "rust-std", "rustc")
_TRIPLES = {"amd64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}
_INSTALLER = b"/manifest.in"
"""What each component's installer reads; it is in nobody's way where there is one component only."""


def resolve_rust(
    version: str, upstream: Upstream, store: Store, *, architecture: str = "amd64"
) -> list[LockedToolchain]:
    """Pin the archives that the channel manifest of a version names, each by the hash that it gives."""
    if _VERSION.fullmatch(version) is None:
        raise InputError(f"expected an exact version such as 1.94.1, found {version[:40]!r}", where="toolchain.rust")
    place = f"{upstream.clients.base_url(RustDistribution.alias)}/dist/channel-rust-{version}.toml"
    page = upstream.document(place)
    if page.status in ABSENT:
        raise InputError(
            f"expected Rust {version}, found no such release",
            where="toolchain.rust",
            hint="choose a release such as 1.94.1, or give an archive with its sha256",
        )
    triple = _TRIPLES[architecture]
    rows = []
    for component in _COMPONENTS:
        url, sha256 = _archive_of(page.body, component, triple)
        key = unquote(urlsplit(url).path).partition("/dist/")[2]
        expected = Expected(f"rustdist {key}", parse_digest(f"sha256:{sha256}", where=f"rustdist {component}"))
        found = upstream.artifact(RustDistribution().locate(key, upstream)[0], store, expected)
        if found.digest is None:
            raise InputError("the manifest lists it but the server does not have it", where=expected.where)
        rows.append(LockedToolchain("rust", version, LockedBlob(RustDistribution.alias, key, found.digest, found.size)))
    return rows


def rust_entries(toolchain: LockedToolchain, path: Path, root: bytes, scratch: Path) -> Iterator[Entry]:
    """Yield one component's files as its installer would place them below `root`."""
    place = Place(root, scratch, strip=2, where=toolchain.blob.key)
    yield from (entry for entry in entries_of_tar(path, place) if entry.path != root + _INSTALLER)


def _archive_of(manifest: bytes, component: str, triple: str) -> tuple[str, str]:
    try:
        packages: dict[str, Any] = tomllib.loads(manifest.decode())["pkg"]
        row = packages[component]["target"][triple]
        return str(row["xz_url"]), str(row["xz_hash"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"expected {component} for {triple} in the channel manifest: {error!r}", where="toolchain.rust"
        ) from error
