"""Lock files of projects as package managers write them, made from what this machine's registries say today."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from packager.lock.clients import Clients
from packager.lock.ecosystems.cargo_index import place_in_index
from packager.lock.ecosystems.pip_index import ACCEPT, parse_page
from packager.lock.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.lock.ecosystems.pip_index import IndexFile


def find_wheel(project: str, filename: str) -> IndexFile:
    """Return what the index says of one file."""
    upstream = Upstream(Clients(dict(os.environ)))
    page = upstream.document(f"{upstream.clients.base_url('pypi')}/{project}/", accept=ACCEPT)
    return next(file for file in parse_page(page.body, page.media_type, page.url) if file.name == filename)


def uv_lock(project: str, version: str, wheel: IndexFile) -> str:
    """Return a uv.lock of a virtual project `sample` that needs one wheel, whose address is absolute."""
    index = Clients(dict(os.environ)).base_url("pypi")
    sha256 = dict(wheel.hashes)["sha256"]
    return (
        'version = 1\nrevision = 2\nrequires-python = ">=3.11"\n\n'
        f'[[package]]\nname = "sample"\nversion = "0.1.0"\nsource = {{ virtual = "." }}\n'
        f'dependencies = [{{ name = "{project}" }}]\n\n'
        f'[package.metadata]\nrequires-dist = [{{ name = "{project}", specifier = "=={version}" }}]\n\n'
        f'[[package]]\nname = "{project}"\nversion = "{version}"\nsource = {{ registry = "{index}" }}\n'
        f'wheels = [{{ url = "{wheel.url}", hash = "sha256:{sha256}" }}]\n'
    )


def npm_lock(package: str, version: str) -> str:
    """Return a package-lock.json of a project `sample` that needs one package, whose address is absolute."""
    upstream = Upstream(Clients(dict(os.environ)))
    page = upstream.document(f"{upstream.clients.base_url('npm')}/{package}", accept="application/json")
    dist = json.loads(page.body)["versions"][version]["dist"]
    rows = {
        "": {"name": "sample", "version": "1.0.0", "dependencies": {package: version}},
        f"node_modules/{package}": {"version": version, "resolved": dist["tarball"], "integrity": dist["integrity"]},
    }
    lock = {"name": "sample", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": rows}
    return json.dumps(lock, indent=2)


def cargo_lock(crates: Mapping[str, str]) -> str:
    """Return a Cargo.lock of a project `sample` that needs crates which need no others."""
    upstream = Upstream(Clients(dict(os.environ)))
    rows = []
    for name, version in sorted(crates.items()):
        page = upstream.document(f"{upstream.clients.base_url('crates')}/{place_in_index(name)}")
        (row,) = (found for line in page.body.splitlines() if (found := json.loads(line))["vers"] == version)
        rows.append(
            f'[[package]]\nname = "{name}"\nversion = "{version}"\n'
            f'source = "registry+https://github.com/rust-lang/crates.io-index"\nchecksum = "{row["cksum"]}"\n'
        )
    needed = ",\n ".join(f'"{name}"' for name in sorted(crates))
    own = f'[[package]]\nname = "sample"\nversion = "0.1.0"\ndependencies = [\n {needed},\n]\n'
    return "version = 4\n\n" + "\n".join(sorted([*rows, own], key=lambda row: row.split('"')[1]))
