"""Rust's own distribution: channel manifests and component archives, as rustup fetches them.

The manifest of a released version never changes, so it is an artifact, with its addresses turned to the alias host.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from packager.base.digests import hex_of
from packager.base.errors import InputError
from packager.lock.ecosystems.asked import Asked, Held, Mark, Promise, Row, Sort, below
from packager.lock.ecosystems.hashing import hex_hash
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_VERSION = r"\d+\.\d+\.\d+(?:-beta\.\d+)?"
_DATE = r"\d{4}-\d{2}-\d{2}"
_SIDE = ".sha256"
_MANIFEST = re.compile(rf"channel-rust-{_VERSION}\.toml|{_DATE}/channel-rust-(?:stable|beta|nightly)\.toml", re.ASCII)
_MOVING = re.compile(r"channel-rust-(?P<name>[a-z]+|\d+\.\d+)\.toml(?:\.sha256)?", re.ASCII)
_ARCHIVE = re.compile(
    rf"{_DATE}/(?P<name>[a-z][a-z-]*?)-(?P<version>{_VERSION}|beta|nightly)(?:-(?P<target>[a-z0-9_.-]+))?\.tar\.[gx]z",
    re.ASCII,
)
_ADDRESS = re.compile(rb'= "https?://[^"\n]+?/dist/')


class RustDistribution:
    """The registry `rustdist`."""

    alias = "rustdist"
    rows = (Row("rustup", frozenset(Mark) - {Mark.CHECKS}, "toolchain files have no hashes"),)
    always_lists = False

    def environment(self) -> Mapping[str, str]:
        """Point rustup at the alias host; one download at a time, since it lists components in the order of arrival."""
        return {
            "RUSTUP_DIST_SERVER": "http://rustdist.invalid",
            "RUSTUP_UPDATE_ROOT": "http://rustdist.invalid/rustup",
            "RUSTUP_CONCURRENT_DOWNLOADS": "1",
        }

    def asked(self, path: str) -> Asked | None:
        """Tell manifests and archives, which never change, from the hashes beside manifests; refuse moving channels."""
        before, found, key = unquote(path.partition("?")[0]).rpartition("/dist/")
        if not found or before:
            return None
        if _MANIFEST.fullmatch(key) or _ARCHIVE.fullmatch(key):
            return Asked(Sort.ARTIFACT, key)
        if key.endswith(_SIDE) and _MANIFEST.fullmatch(key.removesuffix(_SIDE)):
            return Asked(Sort.INDEX, key)
        moving = _MOVING.fullmatch(key)
        if moving:
            raise InputError(
                f"the channel {moving['name']} moves",
                where="rustdist",
                hint="name a whole version such as 1.94.1, or a dated nightly such as nightly-2026-05-19",
            )
        return None

    def guess(self, path: str) -> Asked | None:
        """Take any mirror's address for what it is: all have the same paths."""
        return self.asked(path)

    def shelf(self, asked: Asked) -> str:
        """Return the file that a page is about: a hash beside a manifest is the manifest's."""
        return asked.key.removesuffix(_SIDE)

    def purl(self, key: str) -> str:
        """Return pkg:generic/<component>@<version>, of a manifest pkg:generic/<its name>."""
        found = _ARCHIVE.fullmatch(key)
        if found is None:
            return f"pkg:generic/{quote(key.rpartition('/')[2])}"
        arch = f"?arch={found['target']}" if found["target"] else ""
        return f"pkg:generic/{quote(found['name'])}@{quote(found['version'])}{arch}"

    def media_type(self, key: str) -> str:
        """Return the type by the file's suffix."""
        return {"toml": "application/toml", "xz": "application/x-xz"}.get(key.rpartition(".")[2], "application/gzip")

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Turn the addresses in a manifest to the alias host; archives stay as they are."""
        return _ours if key.endswith(".toml") else None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim what lies below the configured server."""
        path = below(url, upstream.clients.base_url(self.alias))
        return None if path is None else self.asked(path)

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Every mirror has the same layout."""
        return [f"{upstream.clients.base_url(self.alias)}/dist/{quote(key, safe='/+~')}"]

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Return the hash of a manifest as we serve it."""
        del request
        name = asked.key.removesuffix(_SIDE)
        found = upstream.document(self.locate(name, upstream)[0])
        if found.status in ABSENT:
            return Answer(404, "text/plain", b"not found\n")
        return _hash_file(hashlib.sha256(_ours(found.body)).hexdigest(), name)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Return the hash of a locked manifest."""
        del request
        return _hash_file(hex_of(held[0].digest), asked.key.removesuffix(_SIDE))

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read nothing: a toolchain file names a version and no hash."""
        del name, data
        return []

    def subject(self, key: str) -> str:
        """Return the package URL."""
        return self.purl(key)

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `<algorithm>:<hex>`."""
        return hex_hash(path, algorithm)


def _ours(manifest: bytes) -> bytes:
    return _ADDRESS.sub(b'= "http://rustdist.invalid/dist/', manifest)


def _hash_file(digest: str, name: str) -> Answer:
    return Answer(200, "text/plain", f"{digest}  {name.rpartition('/')[2]}\n".encode())
