"""Registries on loopback over real HTTP, filled by tests, with the faults that real ones have."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote

from packager.lock.clients import Clients
from packager.lock.ecosystems.cargo_index import place_in_index
from tests.support.artifacts import integrity_of
from tests.support.http_server import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Fault:
    """How the next answers for one path go wrong: each entry is used once, then the registry is well again.

    A number is a status; `cut:N` breaks off after N bytes; `flip` changes the first byte.
    """

    queue: list[int | str] = field(default_factory=list)


class FakeRegistry:
    """All registries at once, below /simple, /npm, /go, /debian, /index and /rust of one loopback address."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, bytes]] = {}
        self.faults: dict[str, Fault] = {}
        self.requests: Counter[str] = Counter()
        self.ranges: list[str] = []
        self.serves_ranges = True
        self.url = ""
        self._files: dict[str, dict[str, bytes]] = {}
        self._packages: dict[str, dict[str, tuple[bytes, dict[str, object]]]] = {}

    def put(self, path: str, data: bytes, media_type: str = "application/octet-stream") -> None:
        """Serve bytes at a path."""
        self.pages[path] = (media_type, data)

    def add_file(self, project: str, filename: str, data: bytes) -> None:
        """Publish a Python distribution."""
        self._files.setdefault(project, {})[filename] = data
        self.put(f"/files/{filename}", data)
        rows = [{"filename": name, "url": f"/files/{name}", "hashes": {}} for name in self._files[project]]
        page = json.dumps({"meta": {"api-version": "1.0"}, "name": project, "files": rows}).encode()
        self.put(f"/simple/{project}/", page, "application/vnd.pypi.simple.v1+json")

    def add_package(self, name: str, version: str, data: bytes, **manifest: object) -> None:
        """Publish an npm package."""
        self._packages.setdefault(name, {})[version] = (data, manifest)
        short = name.rpartition("/")[2]
        self.put(f"/npm/{name}/-/{short}-{version}.tgz", data)
        versions = {
            number: {
                "name": name,
                "version": number,
                **fields,
                "dist": {
                    "tarball": f"{self.url}/npm/{name}/-/{short}-{number}.tgz",
                    "integrity": integrity_of(tarball),
                    "signatures": [{"sig": "x"}],
                },
            }
            for number, (tarball, fields) in self._packages[name].items()
        }
        page = json.dumps({"name": name, "dist-tags": {"latest": version}, "versions": versions}).encode()
        self.put(f"/npm/{name}", page, "application/json")

    def add_module(self, module: str, version: str, files: dict[str, bytes]) -> None:
        """Publish a Go module."""
        for suffix, data in files.items():
            self.put(f"/go/{module}/@v/{version}.{suffix}", data)
        media_type, known = self.pages.get(f"/go/{module}/@v/list", ("text/plain", b""))
        self.put(f"/go/{module}/@v/list", known + f"{version}\n".encode(), media_type)
        self.put(f"/go/{module}/@latest", files["info"], "application/json")

    def add_crate(self, data: bytes, row: dict[str, object]) -> None:
        """Publish a crate with its row of the index; crate files lie apart, where config.json says."""
        name, version = row["name"], row["vers"]
        place = f"/index/{place_in_index(str(name))}"
        page = self.pages.get(place, ("", b""))[1] + json.dumps(row).encode() + b"\n"
        self.put(place, page, "text/plain")
        self.put(f"/crates/{name}/{version}/download", data)
        self.put("/index/config.json", json.dumps({"dl": f"{self.url}/crates"}).encode(), "application/json")

    def clients(self, home: Path) -> Clients:
        """Return clients that find all registries here."""
        environment = {
            "HOME": str(home),
            "PATH": "/nonexistent",
            "WIDESWE_REGISTRY_PYPI": f"{self.url}/simple",
            "WIDESWE_REGISTRY_NPM": f"{self.url}/npm",
            "WIDESWE_REGISTRY_GOPROXY": f"{self.url}/go",
            "WIDESWE_REGISTRY_DEBIAN": f"{self.url}/debian",
            "WIDESWE_REGISTRY_CRATES": f"{self.url}/index",
            "WIDESWE_REGISTRY_RUSTDIST": f"{self.url}/rust",
        }
        return Clients(environment, root=home)


class _Handler(BaseHTTPRequestHandler):
    registry: ClassVar[FakeRegistry]

    def do_GET(self) -> None:
        path = unquote(self.path)
        registry = self.registry
        registry.requests[path] += 1
        if "Range" in self.headers:
            registry.ranges.append(self.headers["Range"])
        queue = registry.faults.get(path, Fault()).queue
        fault = queue.pop(0) if queue else None
        if isinstance(fault, int) or path not in registry.pages:
            self.send_response(fault if isinstance(fault, int) else 404)
            self.send_header("Retry-After", "1")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._send(*registry.pages[path], fault or "")

    def _send(self, media_type: str, data: bytes, fault: str) -> None:
        body = bytes([data[0] ^ 1]) + data[1:] if fault == "flip" else data
        start = 0
        if self.registry.serves_ranges and self.headers.get("Range", "").startswith("bytes="):
            start = int(self.headers["Range"][6:].rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        cut = int(fault[4:]) if fault.startswith("cut:") else len(body)
        self.wfile.write(body[start:][:cut])

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    """Run the registries until the block ends."""
    registry = FakeRegistry()
    with LoopbackServer(type("Handler", (_Handler,), {"registry": registry})) as server:
        registry.url = server.url
        yield registry
