"""Made-up Rust projects, locked against the real registries with the real cargo, then built without network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.oci.layer import open_layer
from packager.oci.tar_reader import read_tar
from packager.sandbox.namespaces import may_mount
from tests.support.git_builder import GitBuilder
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
OWN = MANIFEST.partition("hex")[0]
GIT_LOCK = """\
version = 4

[[package]]
name = "sample"
version = "0.1.0"
dependencies = [
 "thing",
]

[[package]]
name = "thing"
version = "1.0.0"
source = "{source}"
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
    marks = (b"127.0.0.1", b":3128", b"ca.pem", b"loopback proxy")
    for layer in stage.layers[2:]:
        with open_layer(suite.place.store(), layer) as stream:
            for entry, content in read_tar(stream):
                data = content.read()
                if not entry.path.startswith(b"opt/toolchains/"):  # Cargo itself knows the address of loopback
                    assert (entry.path, [mark for mark in marks if mark in data]) == (entry.path, [])


def test_cargo_takes_a_dependency_from_git_and_leaves_the_same_each_time(place_for: SuitePlace) -> None:
    git = GitBuilder(place_for.folder / "git" / "thing.git")
    manifest = '[package]\nname = "thing"\nversion = "1.0.0"\nedition = "2021"\n'
    commit = git.commit({"Cargo.toml": manifest, "src/lib.rs": 'pub const SAYS: &str = "from git";\n'})
    git.ref("refs/heads/main", git.commit({"Cargo.toml": manifest}, commit, message="later"))
    source = f"git+https://git.invalid/thing?rev={commit}#{commit}"
    files = {
        "Cargo.toml": OWN + f'thing = {{ git = "https://git.invalid/thing", rev = "{commit}" }}\n',
        "Cargo.lock": GIT_LOCK.format(source=source),
        "src/main.rs": 'fn main() { println!("{}", thing::SAYS); }\n',
        "README": "one\n",
    }
    fields = {
        "toolchain": {"rust": RUST},
        "manifests": ["Cargo.toml", "Cargo.lock", "src/main.rs"],
        "dependencies": ["cargo fetch --locked"],
    }
    suite = place_for.suite(Sample("cargogit", files=files, gold={"README": "two\n"}, base=BASE, fields=fields))
    stage = lock_and_build(suite)
    assert purls(suite) == {f"pkg:generic/thing@{commit}": "lock"}
    assert "later" not in suite.lock_path.read_text()
    script = "cd cargogit && cargo run --quiet --locked --offline"
    assert said(suite.task_build().builder(), stage, script) == "from git\n"
