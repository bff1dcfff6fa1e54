"""pnpm, yarn 1 and berry, bun, corepack, poetry and pdm: real projects locked with the real clients, built without network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from packager.sandbox.namespaces import may_mount
from tests.support.client_locks import (
    PACKAGE,
    PYPROJECT,
    berry_lock,
    bun_lock,
    pdm_lock,
    pnpm_lock,
    poetry_lock,
    yarn_1_lock,
)
from tests.support.docker_registry import require_program
from tests.support.locked_files import find_wheel
from tests.support.recorded_suites import SuitePlace, lock_and_build, purls, said
from tests.support.suites import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="needs root: the sandbox mounts"),
]

COREPACK = "npm install --global --ignore-scripts corepack@0.36.0"
PNPM, BERRY, YARN_1, BUN = "pnpm@11.3.0", "@yarnpkg/cli-dist@4.18.1", "yarn@1.22.22", "bun@1.4.5"
STATE = "node_modules/.modules.yaml node_modules/.pnpm-workspace-state-v1.json"
KEPT = "find /root -type f -path '*/.cache/*' -o -type f -path '*/.local/*'"
TWO_DAYS = """node -p 'require("ms")("2 days")'"""
SIX = "six-1.16.0-py2.py3-none-any.whl"


@pytest.fixture(scope="module")
def store_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All suites share one store, since they share one base."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def place_for(tmp_path: Path, store_root: Path) -> SuitePlace:
    return SuitePlace(tmp_path, store_root)


def project(name: str, lock: Mapping[str, str], commands: list[str], *, manager: str = "") -> Sample:
    """Return a project of Node's; `manager` is what its package.json asks corepack for."""
    require_program("npm")  # which says where its registry is
    package = PACKAGE | ({"packageManager": manager} if manager else {})
    return Sample(
        name,
        files={"package.json": json.dumps(package), **lock, "README": "one\n"},
        gold={"README": "two\n"},
        fields={
            "toolchain": {"node": "24.21.0"},
            "manifests": ["package.json", *lock],
            "dependencies": commands,
        },
    )


def globally(package: str) -> str:
    return f"npm install --global --ignore-scripts {package}"


def check(place: SuitePlace, sample: Sample, script: str, *, client: str) -> str:
    """Lock and build; the lock file vouches for what it names and for nothing else. Return what the script says."""
    suite = place.suite(sample)
    stage = lock_and_build(suite)
    found = purls(suite)
    assert {purl for purl, origin in found.items() if origin == "lock"} == {"pkg:npm/ms@2.1.3"}
    assert f"pkg:npm/{client.replace('@', '%40', 1) if client[0] == '@' else client}" in found
    return said(suite.task_build().builder(), stage, f"cd {sample.name} && {script}")


@pytest.mark.shows("pnpm", "records", "replays offline", "cross-checked", "SBOM names")
def test_pnpm_installs_what_its_lock_file_names_and_does_not_install_again(place_for: SuitePlace) -> None:
    """`pnpm exec` would install first if the state file were gone or younger than the manifests."""
    sample = project("pnpm", {"pnpm-lock.yaml": pnpm_lock()}, [globally(PNPM), "pnpm install --frozen-lockfile"])
    script = f"pnpm exec {TWO_DAYS} && grep -h -o 'Tue, 01 Jan 1980\\|315532800000' {STATE}"
    assert check(place_for, sample, script, client=PNPM) == "172800000\nTue, 01 Jan 1980\n315532800000\n"


def test_pnpm_10_leaves_no_store_behind(place_for: SuitePlace) -> None:
    old = "pnpm@10.12.1"
    sample = project("pnpm10", {"pnpm-lock.yaml": pnpm_lock()}, [globally(old), "pnpm install --frozen-lockfile"])
    script = f"{TWO_DAYS} && {KEPT}"
    assert check(place_for, sample, script, client=old) == "172800000\n"


@pytest.mark.shows("corepack", "records", "replays offline", "SBOM names")
@pytest.mark.parametrize("manager", [PNPM, YARN_1, "yarn@4.18.1"])
def test_corepack_brings_the_client_that_a_project_asks_for(place_for: SuitePlace, manager: str) -> None:
    files: dict[str, tuple[dict[str, str], str, str]] = {
        PNPM: ({"pnpm-lock.yaml": pnpm_lock()}, "pnpm install --frozen-lockfile", PNPM),
        YARN_1: ({"yarn.lock": yarn_1_lock()}, "yarn install --frozen-lockfile", YARN_1),
        "yarn@4.18.1": (
            {"yarn.lock": berry_lock(), ".yarnrc.yml": "nodeLinker: node-modules\n"},
            "yarn install --immutable",
            BERRY,
        ),
    }
    lock, install, client = files[manager]
    name = f"corepack-{manager.partition('.')[0].replace('@', '-')}"
    sample = project(name, lock, [COREPACK, "corepack enable", install], manager=manager)
    script = f"{TWO_DAYS} && {manager.partition('@')[0]} --version"
    assert check(place_for, sample, script, client=client) == f"172800000\n{manager.partition('@')[2]}\n"


@pytest.mark.shows("yarn 1", "records", "replays offline", "cross-checked", "SBOM names")
def test_yarn_1_installs_from_a_lock_file_that_names_another_registry(place_for: SuitePlace) -> None:
    sample = project("yarn1", {"yarn.lock": yarn_1_lock()}, [globally(YARN_1), "yarn install --frozen-lockfile"])
    script = f"{TWO_DAYS} && {KEPT}"
    assert check(place_for, sample, script, client=YARN_1) == "172800000\n"


@pytest.mark.shows("yarn berry", "records", "replays offline", "cross-checked", "SBOM names")
@pytest.mark.parametrize("linker", ["node-modules", "pnp"])
def test_yarn_berry_installs_packages_whose_zips_its_lock_file_promises(place_for: SuitePlace, linker: str) -> None:
    files = {"yarn.lock": berry_lock(), ".yarnrc.yml": f"nodeLinker: {linker}\n"}
    sample = project(f"berry-{linker}", files, [globally(BERRY), "yarn install --immutable"])
    assert check(place_for, sample, f"yarn {TWO_DAYS}", client=BERRY) == "172800000\n"


@pytest.mark.shows("bun", "records", "replays offline", "cross-checked", "SBOM names")
def test_bun_installs_what_its_lock_file_names(place_for: SuitePlace) -> None:
    commands = [f"npm install --global --allow-scripts=bun {BUN}", "bun install --frozen-lockfile"]
    sample = project("bun", {"bun.lock": bun_lock()}, commands)
    script = """bun -p 'require("ms")("2 days")'"""
    assert check(place_for, sample, script, client=BUN) == "172800000\n"


def python_project(name: str, lock: str, commands: list[str]) -> Sample:
    return Sample(
        name,
        files={"pyproject.toml": PYPROJECT, f"{name}.lock": lock, "README": "one\n"},
        gold={"README": "two\n"},
        fields={
            "manifests": ["pyproject.toml", f"{name}.lock"],
            "dependencies": ["python3 -m venv /opt/tool", *commands],
        },
    )


@pytest.mark.shows("poetry", "records", "replays offline", "cross-checked", "SBOM names")
def test_poetry_installs_though_it_knows_no_index_but_its_own(place_for: SuitePlace) -> None:
    commands = [
        "/opt/tool/bin/pip install --quiet --only-binary :all: poetry==2.5.1",
        "POETRY_VIRTUALENVS_IN_PROJECT=true /opt/tool/bin/poetry sync --no-root",
    ]
    check_python(place_for, python_project("poetry", poetry_lock(find_wheel("six", SIX)), commands))


@pytest.mark.shows("pdm", "records", "replays offline", "cross-checked", "SBOM names")
def test_pdm_installs_what_its_lock_file_names(place_for: SuitePlace) -> None:
    commands = [
        "/opt/tool/bin/pip install --quiet --only-binary :all: pdm==2.25.9 hishel==0.1.3 unearth==0.17.5",
        "/opt/tool/bin/pdm sync --no-self",
    ]
    check_python(place_for, python_project("pdm", pdm_lock(find_wheel("six", SIX)), commands))


def check_python(place: SuitePlace, sample: Sample) -> None:
    suite = place.suite(sample)
    stage = lock_and_build(suite)
    found = purls(suite)
    assert {purl for purl, origin in found.items() if origin == "lock"} == {"pkg:pypi/six@1.16.0"}
    assert {purl.partition("@")[0] for purl in found} >= {f"pkg:pypi/{sample.name}"}
    script = f"{sample.name}/.venv/bin/python -B -c 'import six; print(six.__version__)' && {KEPT}"
    assert said(suite.task_build().builder(), stage, script) == "1.16.0\n"
