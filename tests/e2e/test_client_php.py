"""Composer of this machine against a repository on loopback, with and without a lock file, then from the lock alone."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.sandbox.namespaces import may_mount
from tests.support.client_walk import Project, needs, walk
from tests.support.small_registry import SmallRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root: the sandbox mounts")]

NEAR, FAR = "a" * 40, "b" * 40
RUN = 'php -r \'require "vendor/autoload.php"; exit(Near\\Thing::word() === "near far" ? 0 : 1);\''
INSTALL = "composer install --quiet --prefer-dist"


def archive(top: str, manifest: Mapping[str, object], source: str) -> bytes:
    """Return a zip as hosts of repositories make them: everything in one folder."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        packed.writestr(f"{top}/composer.json", json.dumps(manifest))
        packed.writestr(f"{top}/src/Thing.php", source)
    return data.getvalue()


NEAR_MANIFEST = {
    "name": "made/near",
    "description": "Near",
    "require": {"made/far": "^1.0", "php": ">=7.4"},
    "autoload": {"psr-4": {"Near\\": "src/"}},
}
FAR_MANIFEST = {"name": "made/far", "autoload": {"psr-4": {"Far\\": "src/"}}}
NEAR_ZIP = archive(
    "made-near-aaaaaaa",
    NEAR_MANIFEST,
    "<?php namespace Near; class Thing { static function word() { return 'near ' . \\Far\\Thing::word(); } }\n",
)
FAR_ZIP = archive(
    "made-far-bbbbbbb", FAR_MANIFEST, "<?php namespace Far; class Thing { static function word() { return 'far'; } }\n"
)


def dist(name: str, reference: str, shasum: str = "") -> dict[str, str]:
    url = f"https://code.example/repos/{name}/zipball/{reference}"
    return {"type": "zip", "url": url, "reference": reference, "shasum": shasum}


def repository(url: str) -> dict[str, bytes]:
    """Return a repository's files: minified metadata, as the usual one serves it, and archives elsewhere."""
    near = NEAR_MANIFEST | {"version": "1.1.0", "time": "2024-01-01T00:00:00+00:00", "dist": dist("made/near", NEAR)}
    near["dist"] = {**dist("made/near", NEAR), "url": f"{url}/repos/made/near/zipball/{NEAR}"}
    older = {"version": "1.0.0", "require": "__unset"}
    far = FAR_MANIFEST | {
        "version": "v1.0.0",
        "dist": {**dist("made/far", FAR), "url": f"{url}/repos/made/far/zipball/{FAR}"},
    }
    pages = {"made/near": [near, older], "made/far": [far]}
    found = {
        f"/p2/{name}.json": json.dumps({"minified": "composer/2.0", "packages": {name: rows}}).encode()
        for name, rows in pages.items()
    }
    archives = {f"/repos/made/near/zipball/{NEAR}": NEAR_ZIP, f"/repos/made/far/zipball/{FAR}": FAR_ZIP}
    return found | archives | {"/packages.json": b'{"packages": [], "metadata-url": "/p2/%package%.json"}'}


@pytest.mark.shows("Composer", "records", "replays offline", "SBOM names")
def test_composer_resolves_and_installs(tmp_path: Path) -> None:
    needs("composer", "php")
    with SmallRegistry({}) as registry:
        registry.files |= repository(registry.url)
        manifest = json.dumps({"require": {"made/near": "^1.0"}, "config": {"autoloader-suffix": "Made"}})
        variables = {"WIDESWE_REGISTRY_PACKAGIST": registry.url}
        done = walk(tmp_path, Project(INSTALL, {"composer.json": manifest}, variables, after=RUN))
    assert done.keys == [f"packagist dist/made/far/v1.0.0/{FAR}.zip", f"packagist dist/made/near/1.1.0/{NEAR}.zip"]
    assert done.purls == ["pkg:composer/made/far@v1.0.0", "pkg:composer/made/near@1.1.0"]
    assert done.never(registry.host)


def lock_file(near: str) -> str:
    """Return a composer.lock of the same two packages, whose archives have absolute addresses; one has a hash."""
    packages = [
        NEAR_MANIFEST | {"version": "1.1.0", "type": "library", "dist": dist("made/near", NEAR, near)},
        FAR_MANIFEST | {"version": "v1.0.0", "type": "library", "dist": dist("made/far", FAR)},
    ]
    document = {
        "content-hash": "0123456789abcdef0123456789abcdef",
        "packages": packages,
        "packages-dev": [],
        "aliases": [],
        "minimum-stability": "stable",
        "stability-flags": [],
        "prefer-stable": False,
        "prefer-lowest": False,
        "platform": [],
        "platform-dev": [],
        "plugin-api-version": "2.3.0",
    }
    return json.dumps(document, indent=4).replace("https://", "http://")


@pytest.mark.shows("Composer", "cross-checked")
def test_composer_installs_what_a_lock_file_with_absolute_addresses_names(tmp_path: Path) -> None:
    needs("composer", "php")
    files = {
        "composer.json": json.dumps(
            {"require": {"made/near": "^1.0"}, "config": {"autoloader-suffix": "Made", "secure-http": False}}
        ),
        "composer.lock": lock_file(hashlib.sha1(NEAR_ZIP, usedforsecurity=False).hexdigest()),
    }
    with SmallRegistry(repository("")) as registry:
        done = walk(tmp_path, Project(INSTALL, files, {"http_proxy": registry.url}, after=RUN))
    assert done.purls == [f"pkg:generic/{reference}" for reference in (NEAR, FAR)]
    checked = done.checked(files)
    assert sorted((row.purl, row.origin) for row in checked) == [
        ("pkg:composer/made/far@v1.0.0", "recorded"),
        ("pkg:composer/made/near@1.1.0", "lock"),
    ]
    with pytest.raises(InputError) as caught:
        done.checked({"composer.lock": lock_file("00")})
    assert "composer.lock (made/near): expected sha1:00, found sha1:" in str(caught.value)
