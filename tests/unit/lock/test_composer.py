from __future__ import annotations

import gzip
import io
import json
import zipfile
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.lock.ecosystems import web
from packager.lock.ecosystems.asked import Asked, Held, Sort
from packager.lock.ecosystems.composer import ComposerPackages
from packager.sandbox.fetches import Request
from tests.support.artifacts import make_tar

if TYPE_CHECKING:
    from pathlib import Path

GET = Request("GET", "https", "packagist.invalid", 443, "/")
KEY = "dist/made/near/1.1.0/abc.zip"
MANIFEST = {"name": "made/other", "description": "x", "require": {"php": ">=8"}, "autoload": {"files": ["a.php"]}}


def archive(members: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for name, text in members.items():
            packed.writestr(name, text)
    return data.getvalue()


def held(folder: Path, data: bytes, key: str = KEY) -> Held:
    path = folder / digest_of(data).removeprefix("sha256:")
    path.write_bytes(data)
    return Held(key, digest_of(data), len(data), path)


def rows_of(rows: list[Held], key: str = "p2/made/near.json") -> list[dict[str, object]]:
    answer = ComposerPackages().render(Asked(Sort.INDEX, key), GET, rows)
    assert isinstance(answer.body, bytes)
    found: list[dict[str, object]] = json.loads(answer.body)["packages"]["made/near"]
    return found


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/packages.json", Asked(Sort.INDEX, "packages.json")),
        ("/p2/made/near.json", Asked(Sort.INDEX, "p2/made/near.json")),
        ("/p2/made/near~dev.json", Asked(Sort.INDEX, "p2/made/near~dev.json")),
        (f"/{KEY}", Asked(Sort.ARTIFACT, KEY)),
        ("/api/security-advisories/", None),
    ],
)
def test_paths_of_a_repository_have_one_meaning(path: str, asked: Asked | None) -> None:
    assert ComposerPackages().asked(path) == asked


def test_metadata_is_known_by_the_end_of_its_path() -> None:
    assert ComposerPackages().guess("/satis/p2/made/near.json") == Asked(Sort.INDEX, "p2/made/near.json")
    assert ComposerPackages().guess("/repos/made/near/zipball/abc") is None


def test_metadata_is_made_from_what_archives_say_of_themselves(tmp_path: Path) -> None:
    expected = {
        "name": "made/near",
        "version": "1.1.0",
        "type": "library",
        "require": {"php": ">=8"},
        "autoload": {"files": ["a.php"]},
        "dist": {"type": "zip", "url": f"https://packagist.invalid/{KEY}", "reference": "abc", "shasum": ""},
    }
    packed = archive({"near-abc/composer.json": json.dumps(MANIFEST), "near-abc/a/b/composer.json": "{}"})
    assert rows_of([held(tmp_path, packed)]) == [expected]
    tar = gzip.compress(make_tar({"near-abc/composer.json": json.dumps(MANIFEST).encode()}), mtime=0)
    (row,) = rows_of([held(tmp_path, tar, KEY.replace(".zip", ".tar"))])
    assert row["require"] == {"php": ">=8"}
    (bare,) = rows_of([held(tmp_path, archive({"a.php": ""}))])
    assert (bare["type"], "require" in bare) == ("library", False)


def test_branches_are_on_a_page_of_their_own(tmp_path: Path) -> None:
    rows = [held(tmp_path, archive({"composer.json": "{}"}), key) for key in (KEY, "dist/made/near/dev-main/def.zip")]
    assert [row["version"] for row in rows_of(rows)] == ["1.1.0"]
    assert [row["version"] for row in rows_of(rows, "p2/made/near~dev.json")] == ["dev-main"]
    assert ComposerPackages().render(Asked(Sort.INDEX, "p2/made/near~dev.json"), GET, rows[:1]).status == 404


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"nothing", "the archive cannot be read: file could not be opened successfully:"),
        (archive({"composer.json": "{"}), "the archive cannot be read: Expecting property name"),
        (archive({"composer.json": "[]"}), "expected an object in composer.json"),
    ],
)
def test_an_archive_that_is_none_is_named(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(InputError) as caught:
        rows_of([held(tmp_path, data)])
    assert str(caught.value).startswith(f"{KEY}: {why}")


def test_a_composer_lock_promises_hashes_where_it_has_them_and_names_always() -> None:
    url = "https://code.example/zipball/abc"
    packages = [
        {"name": "made/near", "version": "1.1.0", "dist": {"url": url, "shasum": "AA"}},
        {"name": "made/far", "version": "v2", "dist": {"url": url, "shasum": ""}},
        {"name": "made/own", "version": "v3", "source": {}},
    ]
    found = ComposerPackages().promises("composer.lock", json.dumps({"packages": packages}).encode())
    near, far = "pkg:composer/made/near@1.1.0", "pkg:composer/made/far@v2"
    assert [(one.subject, one.expected, one.purl) for one in found] == [
        (near, frozenset({"sha1:aa"}), near),
        (web.key_of(url), frozenset({"sha1:aa"}), near),
        (far, frozenset(), far),
        (web.key_of(url), frozenset(), far),
    ]
    with pytest.raises(InputError) as caught:
        ComposerPackages().promises("composer.lock", b'{"packages": [{}]}')
    assert str(caught.value) == "composer.lock: the lock file cannot be read: KeyError('name')"
