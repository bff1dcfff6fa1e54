"""The real cargo and the real rustup against recordings of a registry made here, and against their replay."""

from __future__ import annotations

import hashlib
import json
import lzma
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.processes import Surroundings, find_program, run
from packager.lock.crosscheck import cross_check
from packager.lock.ecosystems.asked import Held
from packager.lock.ecosystems.cargo_index import row_of
from packager.lock.recorder import Recorder, compare_recordings
from packager.lock.replay import Replay
from packager.sandbox.fetches import Request
from packager.store.store import Store
from tests.support.artifacts import make_crate, make_tar
from tests.support.fake_registry import FakeRegistry, fake_registry
from tests.support.tls_proxy import serve_tls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.lock.model import LockedFetch
    from packager.sandbox.fetches import FetchSource

pytestmark = pytest.mark.engine

CRATES = {
    ("leaf", "1.2.0"): make_crate("leaf", "1.2.0", source="pub fn leaf() -> u8 { 7 }\n"),
    ("leaf", "1.1.0"): make_crate("leaf", "1.1.0"),
    ("ab", "0.3.1"): make_crate(
        "ab",
        "0.3.1",
        manifest='[dependencies.lf]\npackage = "leaf"\nversion = "1"\noptional = true\n\n'
        '[features]\ndefault = ["seven"]\nseven = ["dep:lf"]\n\n'
        "[target.'cfg(windows)'.dependencies]\nwin-only = \"1\"\n",
        source="pub use lf::leaf;\n",
    ),
    ("win-only", "1.0.0"): make_crate("win-only", "1.0.0"),
}
MANIFEST = '[package]\nname = "mine"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\nab = "0.3"\n'


def need(name: str) -> str:
    found = find_program(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@dataclass(frozen=True)
class Work:
    """A folder in which clients work with nothing of this machine's settings."""

    folder: Path
    store: Store
    registry: FakeRegistry

    def recorder(self) -> Recorder:
        return Recorder(self.store, self.registry.clients(self.folder))

    def run(self, source: FetchSource, argv: Sequence[str], home: str, *, ok: bool = True) -> str:
        """Run a client with a home of its own; give what it said."""
        place = self.folder / home
        (place / "project" / "src").mkdir(parents=True, exist_ok=True)
        (place / "project" / "Cargo.toml").write_text(MANIFEST)
        (place / "project" / "src" / "main.rs").write_text('fn main() { print!("{}", ab::leaf()) }\n')
        own = {"HOME": str(place), "CARGO_HOME": str(place / "cargo"), "CARGO_TARGET_DIR": str(place / "target")}
        with serve_tls(source) as environment:
            around = Surroundings(env={**environment, **own}, cwd=place / "project", timeout_s=300)
            done = run(argv, around)
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert (done.exit_code == 0) is ok, said
        return said


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    with fake_registry() as registry:
        yield Work(tmp_path, Store(tmp_path / "store"), registry)


def publish(work: Work) -> None:
    """Put all crates into the registry, with rows such as a registry makes them."""
    for (name, version), data in CRATES.items():
        path = work.folder / f"{name}-{version}.crate"
        path.write_bytes(data)
        held = Held(f"{name}/{path.name}", digest_of(data), len(data), path)
        work.registry.add_crate(data, row_of(held))


def locked(work: Work) -> tuple[LockedFetch, ...]:
    """Record `cargo fetch` twice and return what both agree on."""
    first, second = work.recorder(), work.recorder()
    cargo = need("cargo")
    publish(work)
    work.run(first, [cargo, "fetch"], "first")
    work.run(second, [cargo, "fetch"], "second")
    assert (first.failures(), second.failures()) == ((), ())
    compare_recordings(first.fetches("s"), second.fetches("s"))
    return first.fetches("s")


@pytest.mark.shows("cargo", "records", "replays offline", "cross-checked", "SBOM names")
def test_cargo_fetches_crates_and_builds_from_the_lock_alone(work: Work) -> None:
    rows = locked(work)
    assert [(row.blob.alias, row.blob.key, row.purl) for row in rows] == [
        ("crates", "ab/ab-0.3.1.crate", "pkg:cargo/ab@0.3.1"),
        ("crates", "leaf/leaf-1.2.0.crate", "pkg:cargo/leaf@1.2.0"),
        ("crates", "win-only/win-only-1.0.0.crate", "pkg:cargo/win-only@1.0.0"),
    ]
    source = Replay(work.store, rows, ())
    work.run(source, [need("cargo"), "fetch"], "third")
    assert source.unknown() == ()
    lock_file = (work.folder / "third/project/Cargo.lock").read_bytes()
    assert lock_file == (work.folder / "first/project/Cargo.lock").read_bytes()
    assert {row.origin for row in cross_check(rows, {"Cargo.lock": lock_file}, work.store)} == {"lock"}
    assert work.run(source, [need("cargo"), "run", "--quiet", "--offline"], "third") == "7"


def test_nothing_that_cargo_keeps_names_a_registry_a_port_or_a_date(work: Work) -> None:
    rows = locked(work)
    found = []
    for home in ("third", "fourth"):
        work.run(Replay(work.store, rows, ()), [need("cargo"), "fetch"], home)
        top = work.folder / home / "cargo"
        files = {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}
        del files[".global-cache"]  # when each crate was used last: dependency_command takes it away
        found.append(files)
    assert found[0] == found[1]
    assert [name for name, data in found[0].items() if b"127.0.0.1" in data or b"3128" in data] == []


def test_cargo_is_told_what_the_lock_lacks(work: Work) -> None:
    rows = [row for row in locked(work) if row.purl != "pkg:cargo/leaf@1.2.0"]
    source = Replay(work.store, rows, ())
    said = work.run(source, [need("cargo"), "fetch"], "third", ok=False)
    assert "error" in said
    assert len(source.unknown()) == 1
    assert source.unknown()[0].endswith("/le/af/leaf")


def test_a_step_finds_in_cargos_home_what_an_earlier_step_left_there(work: Work) -> None:
    rows = locked(work)
    again = work.recorder()
    work.run(again, [need("cargo"), "update"], "first")
    work.run(again, [need("cargo"), "fetch"], "first")
    assert (again.fetches("t"), again.failures()) == ((), ())
    assert ("crates", "leaf") in {(row.alias, row.key) for row in again.absent("t")}
    work.run(Replay(work.store, rows, ()), [need("cargo"), "fetch"], "third")
    source = Replay(work.store, (), again.absent("t"), beside=rows)
    work.run(source, [need("cargo"), "update"], "third")
    work.run(source, [need("cargo"), "fetch"], "third")
    assert source.unknown() == ()


def test_only_cargo_is_answered_as_cargo(work: Work) -> None:
    source = Replay(work.store, locked(work), ())
    for agent, status in (("cargo/1.90.0", 200), ("curl/8", 599)):
        for path in ("/config.json", "/le/af/leaf"):
            request = Request("GET", "https", "index.example", 443, path, {"user-agent": agent})
            assert source.answer(request).status == status
    assert source.unknown() == ("GET https://index.example/config.json", "GET https://index.example/le/af/leaf")


RUST = {
    "cargo": {"cargo/bin/cargo": b"#!/bin/sh\necho a cargo\n"},
    "rustc": {"rustc/bin/rustc": b"#!/bin/sh\necho rustc 1.2.3\n"},
    "rust-std": {"rust-std/lib/rustlib/x86_64-unknown-linux-gnu/lib/libstd.rlib": b"std"},
}
TRIPLE = "x86_64-unknown-linux-gnu"


def publish_rust(registry: FakeRegistry) -> None:
    """Put a release of three components into the registry, in the layout of Rust's own."""
    lines = ['manifest-version = "2"', 'date = "2020-01-02"']
    for name, files in RUST.items():
        top = f"{name}-1.2.3-{TRIPLE}"
        inside = {f"{top}/{path}": data for path, data in files.items()}
        inside |= {f"{top}/components": f"{name}\n".encode(), f"{top}/rust-installer-version": b"3\n"}
        manifest = "".join(f"file:{path.partition('/')[2]}\n" for path in files)
        inside[f"{top}/{name}/manifest.in"] = manifest.encode()
        data = hashlib.sha256(archive := _xz(inside)).hexdigest()
        registry.put(f"/rust/dist/2020-01-02/{top}.tar.xz", archive)
        address = f"{registry.url}/rust/dist/2020-01-02/{top}.tar"
        lines += [f'[pkg.{name}]\nversion = "1.2.3 (0 2020-01-02)"', f"[pkg.{name}.target.{TRIPLE}]\navailable = true"]
        lines += [f'url = "{address}.gz"\nhash = "{"0" * 64}"\nxz_url = "{address}.xz"\nxz_hash = "{data}"']
    parts = ", ".join(f'{{ pkg = "{name}", target = "{TRIPLE}" }}' for name in RUST)
    lines += [f'[pkg.rust]\nversion = "1.2.3 (0 2020-01-02)"\n[pkg.rust.target.{TRIPLE}]\navailable = true']
    lines += [f"components = [{parts}]", '[profiles]\nminimal = ["rustc", "rust-std", "cargo"]']
    text = "\n".join(lines).encode() + b"\n"
    for name in ("1.2.3", "stable"):
        registry.put(f"/rust/dist/channel-rust-{name}.toml", text)


def _xz(files: dict[str, bytes]) -> bytes:
    return lzma.compress(make_tar(files, executable=tuple(name for name in files if "/bin/" in name)))


INSTALL = ["toolchain", "install", "--profile", "minimal", "--no-self-update"]


@pytest.mark.shows("rustup", "records", "replays offline", "SBOM names")
def test_rustup_installs_a_release_from_the_lock_alone(work: Work) -> None:
    rustup = need("rustup")
    publish_rust(work.registry)
    first = work.recorder()
    around = ["env", f"RUSTUP_HOME={work.folder / 'one'}", rustup, *INSTALL, "1.2.3"]
    work.run(first, around, "first")
    assert first.failures() == ()
    rows = first.fetches("s")
    assert sorted(row.purl for row in rows) == [
        f"pkg:generic/cargo@1.2.3?arch={TRIPLE}",
        "pkg:generic/channel-rust-1.2.3.toml",
        f"pkg:generic/rust-std@1.2.3?arch={TRIPLE}",
        f"pkg:generic/rustc@1.2.3?arch={TRIPLE}",
    ]
    source = Replay(work.store, rows, ())
    around = ["env", f"RUSTUP_HOME={work.folder / 'two'}", rustup, *INSTALL, "1.2.3"]
    work.run(source, around, "second")
    assert source.unknown() == ()
    trees = []
    for name in ("one", "two"):
        top = work.folder / name / "toolchains"
        trees.append({str(p.relative_to(top)): p.read_bytes() for p in sorted(top.rglob("*")) if p.is_file()})
    assert trees[0] == trees[1]
    assert f"1.2.3-{TRIPLE}/bin/rustc" in trees[0]


def test_rustup_is_refused_a_channel_that_moves(work: Work) -> None:
    publish_rust(work.registry)
    source = work.recorder()
    around = ["env", f"RUSTUP_HOME={work.folder / 'one'}", need("rustup"), *INSTALL, "stable"]
    work.run(source, around, "first", ok=False)
    assert source.failures()[0] == (
        "GET http://rustdist.invalid/dist/channel-rust-stable.toml.sha256: rustdist: the channel stable moves\n"
        "hint: name a whole version such as 1.94.1, or a dated nightly such as nightly-2026-05-19"
    )
    assert json.dumps(source.fetches("s")) == "[]"
