"""Made-up Rust projects, locked against the real registries with the real cargo, then built without network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.sandbox.namespaces import may_mount
from tests.support.locked_files import cargo_lock
from tests.support.recorded_suites import SuitePlace, lock_and_build, purls, said
from tests.support.suites import Sample

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="needs root: the sandbox mounts"),
]

BASE = {"debian": "bookworm", "packages": ["ca-certificates", "gcc", "git", "libc6-dev"]}
RUST = "1.95.0"
MANIFEST = """\
[package]
name = "sample"
version = "0.1.0"
edition = "2021"

[dependencies]
hex = { version = "0.4.3", default-features = false, features = ["alloc"] }
itoa = "1.0.15"

[target.'cfg(windows)'.dependencies]
once_cell = "1.21.3"
"""
MAIN = 'fn main() { println!("{} {}", hex::encode("go"), itoa::Buffer::new().format(7)); }\n'
CRATES = {"hex": "0.4.3", "itoa": "1.0.15", "once_cell": "1.21.3"}


@pytest.fixture(scope="module")
def store_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All suites share one store, since they share one base and one toolchain."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def place_for(tmp_path: Path, store_root: Path) -> SuitePlace:
    return SuitePlace(tmp_path, store_root)


def cargo_sample(*commands: str) -> Sample:
    files = {"Cargo.toml": MANIFEST, "Cargo.lock": cargo_lock(CRATES), "src/main.rs": MAIN, "README": "one\n"}
    return Sample(
        "cargo",
        files=files,
        gold={"README": "two\n"},
        base=BASE,
        fields={
            "toolchain": {"rust": RUST},
            "manifests": ["Cargo.toml", "Cargo.lock", "src/main.rs"],
            "dependencies": list(commands),
        },
    )


def test_cargo_fetch_takes_crates_from_the_index_and_builds_offline(place_for: SuitePlace) -> None:
    suite = place_for.suite(cargo_sample("cargo fetch --locked"))
    stage = lock_and_build(suite)
    assert purls(suite) == {f"pkg:cargo/{name}@{version}": "lock" for name, version in CRATES.items()}
    script = "cd cargo && cargo run --quiet --locked --offline"
    assert said(suite.task_build().builder(), stage, script) == "676f 7\n"
