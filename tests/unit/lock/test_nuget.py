from __future__ import annotations

import base64
import hashlib
import io
import json
import struct
import zipfile
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Sort
from packager.lock.ecosystems.nuget import NugetPackages
from packager.lock.ecosystems.nupkg import content_hash
from packager.sandbox.fetches import Request

if TYPE_CHECKING:
    from pathlib import Path

GET = Request("GET", "https", "nuget.invalid", 443, "/")
KEY = "flat/made.near/1.2.0/made.near.1.2.0.nupkg"
NUSPEC = """\
<package xmlns="http://schemas.example/nuspec"><metadata><id>Made.Near</id><version>1.2.0</version><dependencies>
<group targetFramework="net6.0"><dependency id="Made.Far" version="[1.0,2.0)" /></group><group targetFramework="net45" />
</dependencies></metadata></package>
"""


def package(nuspec: str = NUSPEC, **members: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Made.Near.nuspec", nuspec)
        for name, text in members.items():
            archive.writestr(f"lib/{name}", text)
    return data.getvalue()


def held(folder: Path, data: bytes, key: str = KEY) -> Held:
    path = folder / digest_of(data).removeprefix("sha256:")
    path.write_bytes(data)
    return Held(key, digest_of(data), len(data), path)


def hash_of(data: bytes) -> str:
    return base64.b64encode(hashlib.sha512(data).digest()).decode()


def signed(data: bytes, name: str = ".signature.p7s") -> bytes:
    """Sign as a registry does: one entry more, stored, after all others."""
    found = io.BytesIO(data)
    with zipfile.ZipFile(found, "a") as archive:
        archive.writestr(name, "signature")
    return found.getvalue()


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v3/index.json", Asked(Sort.INDEX, "v3/index.json")),
        ("/flat/made.near/index.json", Asked(Sort.INDEX, "flat/made.near/index.json")),
        (f"/{KEY}", Asked(Sort.ARTIFACT, KEY)),
        ("/flat/Made.Near/1.2.0/Made.Near.1.2.0.nupkg", Asked(Sort.ARTIFACT, KEY)),
        ("/registration/made.near/index.json", Asked(Sort.INDEX, "registration/made.near/index.json")),
        ("/flat/made.near/1.2.0/made.near.nuspec", None),
        ("/query", None),
    ],
)
def test_paths_of_the_registry_have_one_meaning(path: str, asked: Asked | None) -> None:
    assert NugetPackages().asked(path) == asked


def test_a_service_index_is_known_on_any_host() -> None:
    assert NugetPackages().guess("/some/v3/index.json?x") == Asked(Sort.INDEX, "v3/index.json")
    assert NugetPackages().guess("/some/v2/index.json") is None


def test_the_service_index_stays_with_the_scheme_of_the_client() -> None:
    for scheme in ("http", "https"):
        answer = NugetPackages().render(
            Asked(Sort.INDEX, "v3/index.json"), Request("GET", scheme, "nuget.invalid", 80, "/"), []
        )
        assert isinstance(answer.body, bytes)
        addresses = {row["@id"] for row in json.loads(answer.body)["resources"]}
        assert addresses == {f"{scheme}://nuget.invalid/flat/", f"{scheme}://nuget.invalid/registration/"}
    assert NugetPackages().shelf(Asked(Sort.INDEX, "v3/index.json")) == WHOLE


def test_pages_are_made_from_the_packages(tmp_path: Path) -> None:
    other = "flat/made.near/1.10.0/made.near.1.10.0.nupkg"
    rows = [held(tmp_path, package(NUSPEC.replace("1.2.0", "1.10.0")), other), held(tmp_path, package())]
    answer = NugetPackages().render(Asked(Sort.INDEX, "flat/made.near/index.json"), GET, rows)
    assert answer.body == b'{"versions":["1.2.0","1.10.0"]}'
    answer = NugetPackages().render(Asked(Sort.INDEX, "registration/made.near/index.json"), GET, rows)
    assert isinstance(answer.body, bytes)
    (page,) = json.loads(answer.body)["items"]
    assert (page["lower"], page["upper"], page["count"]) == ("1.2.0", "1.10.0", 2)
    entry = page["items"][0]["catalogEntry"]
    assert entry["packageContent"] == f"https://nuget.invalid/{KEY}"
    assert entry["dependencyGroups"] == [
        {"dependencies": [{"id": "Made.Far", "range": "[1.0,2.0)"}], "targetFramework": "net6.0"},
        {"dependencies": [], "targetFramework": "net45"},
    ]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"no zip", "the package cannot be read: File is not a zip file"),
        (package("<package>"), "the specification of the package cannot be read: no element found: line 1, column 9"),
    ],
)
def test_a_package_that_is_none_is_named(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(InputError) as caught:
        NugetPackages().render(Asked(Sort.INDEX, "registration/made.near/index.json"), GET, [held(tmp_path, data)])
    assert str(caught.value) == f"{KEY}: {why}"


def test_what_a_registry_signed_has_the_hash_that_it_had_before(tmp_path: Path) -> None:
    data = package(a="aa", b="bb" * 1000)
    assert signed(data) != data
    assert content_hash(held(tmp_path, data).path) == hash_of(data)
    assert content_hash(held(tmp_path, signed(data)).path) == hash_of(data)
    changed = data.replace(b"Made.Near.nuspec", b"Made.Fear.nuspec")
    assert content_hash(held(tmp_path, signed(changed)).path) != hash_of(data)
    assert content_hash(held(tmp_path, signed(data, "signature")).path) == hash_of(signed(data, "signature"))


def test_a_signed_package_that_lies_about_its_places_is_refused(tmp_path: Path) -> None:
    data = bytearray(signed(package()))
    end = data.rindex(b"PK\x05\x06")
    struct.pack_into("<H", data, end + 10, 9)  # more entries than there are
    with pytest.raises(InputError) as caught:
        content_hash(held(tmp_path, bytes(data)).path)
    assert "the package cannot be read: " in str(caught.value)


def test_a_packages_lock_is_a_promise() -> None:
    rows = {"Made.Near": {"type": "Direct", "resolved": "1.2.0", "contentHash": "aa=="}, "own": {"type": "Project"}}
    (one,) = NugetPackages().promises("src/packages.lock.json", json.dumps({"dependencies": {"net6.0": rows}}).encode())
    assert (one.where, one.subject, one.expected) == (
        "src/packages.lock.json (net6.0: Made.Near)",
        "made.near/1.2.0",
        frozenset({"sha512-aa=="}),
    )
    assert NugetPackages().subject(KEY) == "made.near/1.2.0"
    assert NugetPackages().purl(KEY) == "pkg:nuget/made.near@1.2.0"
    with pytest.raises(InputError) as caught:
        NugetPackages().promises("packages.lock.json", b"[]")
    assert str(caught.value) == (
        "packages.lock.json: the lock file cannot be read: TypeError('list indices must be integers or slices, not str')"
    )
