"""Stock package clients against replay (from bytes made here) and against recordings of the real registries."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, find_program, run
from packager.lock.clients import Clients
from packager.lock.crosscheck import cross_check
from packager.lock.ecosystems.known import make_ecosystems
from packager.lock.fetch import fetch_blobs
from packager.lock.model import LockedBlob, LockedFetch
from packager.lock.recorder import Recorder, compare_recordings
from packager.lock.replay import Replay
from packager.store.store import Store
from tests.support.artifacts import integrity_of, make_module, make_tgz, make_wheel
from tests.support.debian_tools import go_cache
from tests.support.fetch_server import serve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packager.sandbox.fetches import FetchSource

PIP = (sys.executable, "-m", "pip")


def need(name: str) -> str:
    found = find_program(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@dataclass(frozen=True)
class Work:
    """One directory in which clients work with nothing of this machine's settings."""

    folder: Path
    store: Store

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def run(self, source: FetchSource, argv: Sequence[str], *, ok: bool = True) -> str:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        own = {
            "HOME": str(home),
            "GOPATH": str(self.folder / "gopath"),
            "GOCACHE": go_cache(),
            "npm_config_cache": str(self.folder / "npm-cache"),
        }
        with serve(source) as environment:
            around = Surroundings(env={**environment, **own}, cwd=self.folder, timeout_s=300)
            done = run(argv, around)
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert (done.exit_code == 0) is ok, said
        return said

    def tree(self, name: str) -> dict[str, bytes]:
        top = self.folder / name
        files = (path for path in sorted(top.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
        return {str(path.relative_to(top)): path.read_bytes() for path in files}


@pytest.fixture
def work(tmp_path: Path) -> Work:
    (tmp_path / "work").mkdir()
    return Work(tmp_path / "work", Store(tmp_path / "store"))


def replay(store: Store, alias: str, artifacts: Mapping[str, bytes]) -> Replay:
    ecosystem = make_ecosystems()[alias]
    rows = []
    for key, data in artifacts.items():
        lasting = ecosystem.canonical(key)
        kept = data if lasting is None else lasting(data)
        blob = LockedBlob(alias, key, store.put(kept), len(kept))
        rows.append(LockedFetch("s", blob, ecosystem.media_type(key), ecosystem.purl(key), "lock"))
    return Replay(store, rows, ())


WHEELS = {
    "foo-1.0-py3-none-any.whl": make_wheel("foo", "1.0", requires=("bar>=1",)),
    "bar-1.5-py3-none-any.whl": make_wheel("bar", "1.5"),
    "bar-2.0-py3-none-any.whl": make_wheel("bar", "2.0", python=">=99"),
}


@pytest.mark.engine
def test_pip_installs_from_a_lock_alone(work: Work) -> None:
    source = replay(work.store, "pypi", WHEELS)
    work.run(source, [*PIP, "install", "--target", "t", "foo"])
    assert work.tree("t")["foo.py"] == b"VERSION = '1.0'\n"
    assert work.tree("t")["bar.py"] == b"VERSION = '1.5'\n"
    assert source.unknown() == ()


@pytest.mark.engine
def test_pip_is_told_what_the_lock_lacks(work: Work) -> None:
    source = replay(work.store, "pypi", WHEELS)
    said = work.run(source, [*PIP, "install", "--target", "t", "qux"], ok=False)
    assert "No matching distribution found for qux" in said
    assert source.unknown() == ("GET http://pypi.invalid/simple/qux/",)


@pytest.mark.engine
def test_uv_installs_from_a_lock_alone(work: Work) -> None:
    source = replay(work.store, "pypi", WHEELS)
    work.run(source, [need("uv"), "pip", "install", "--python", sys.executable, "--target", "t", "foo"])
    assert work.tree("t")["bar.py"] == b"VERSION = '1.5'\n"
    assert not [name for name in work.tree("t") if "uv_cache" in name]
    assert source.unknown() == ()


PACKAGES = {
    "a/-/a-1.2.0.tgz": make_tgz("a", "1.2.0", dependencies={"@s/b": "^1.0.0"}),
    "@s/b/-/b-1.0.5.tgz": make_tgz("@s/b", "1.0.5", bin={"b": "index.js"}),
    "c/-/c-3.0.0.tgz": make_tgz("c", "3.0.0"),
}
PACKAGE_JSON = '{"name": "x", "version": "1.0.0", "dependencies": {"a": "^1.0.0", "c": "3"}}'


@pytest.mark.engine
def test_npm_installs_from_a_lock_alone_with_and_without_its_own_lock_file(work: Work) -> None:
    npm = need("npm")
    source = replay(work.store, "npm", PACKAGES)
    work.write({"package.json": PACKAGE_JSON})
    work.run(source, [npm, "install"])
    installed = work.tree("node_modules")
    assert json.loads(installed["@s/b/package.json"])["version"] == "1.0.5"
    rows = json.loads((work.folder / "package-lock.json").read_bytes())["packages"]
    assert rows["node_modules/c"]["integrity"] == integrity_of(PACKAGES["c/-/c-3.0.0.tgz"])
    work.run(source, [npm, "ci"])
    assert work.tree("node_modules") == installed
    assert source.unknown() == ()


@pytest.mark.engine
def test_npm_refuses_a_package_that_its_lock_file_does_not_mean(work: Work) -> None:
    npm = need("npm")
    work.write({"package.json": PACKAGE_JSON})
    work.run(replay(work.store, "npm", PACKAGES), [npm, "install", "--package-lock-only"])
    other = PACKAGES | {"c/-/c-3.0.0.tgz": make_tgz("c", "3.0.0", evil=True)}
    said = work.run(replay(work.store, "npm", other), [npm, "ci"], ok=False)
    assert "EINTEGRITY" in said


MODULE = make_module("ex.org/m", "v1.0.0", requires="\nrequire ex.org/Other v0.2.0\n")
OTHER = make_module("ex.org/Other", "v0.2.0")
MODULES = {
    **{f"ex.org/m/@v/v1.0.0.{suffix}": data for suffix, data in MODULE.items()},
    **{f"ex.org/!other/@v/v0.2.0.{suffix}": data for suffix, data in OTHER.items()},
}


@pytest.mark.engine
def test_go_downloads_and_builds_from_a_lock_alone(work: Work) -> None:
    go = need("go")
    source = replay(work.store, "goproxy", MODULES)
    work.write(
        {
            "go.mod": "module ex.org/x\n\ngo 1.21\n",
            "main.go": 'package main\n\nimport "ex.org/m"\n\nfunc main() { print(m.Version) }\n',
        }
    )
    work.run(source, [go, "get", "ex.org/m@latest"])
    work.run(source, [go, "mod", "download", "all"])
    assert "v1.0.0" in work.run(replay(work.store, "goproxy", {}), [go, "run", "."])
    assert "ex.org/Other v0.2.0" in (work.folder / "go.sum").read_text()


@dataclass(frozen=True)
class Recorded:
    fetches: tuple[LockedFetch, ...]
    replay: Replay


def record_twice(work: Work, argv: Sequence[str], *, clean: Sequence[str]) -> Recorded:
    """Record a command twice from nothing, demand agreement, then hand out the replay."""
    recordings = []
    for _ in range(2):
        for name in clean:
            run(["rm", "-rf", str(work.folder / name)])
        recorder = Recorder(work.store, Clients(dict(os.environ)))
        work.run(recorder, argv)
        recordings.append(recorder)
    first, second = recordings
    compare_recordings(first.fetches("s"), second.fetches("s"))
    assert first.absent("s") == second.absent("s")
    assert not any("://" in row.blob.key for row in first.fetches("s"))
    for name in clean:
        run(["rm", "-rf", str(work.folder / name)])
    return Recorded(first.fetches("s"), Replay(work.store, first.fetches("s"), first.absent("s")))


@pytest.mark.network
@pytest.mark.engine
@pytest.mark.shows("pip", "records", "replays offline", "cross-checked", "SBOM names")
def test_pip_is_recorded_and_replayed(work: Work, tmp_path: Path) -> None:
    argv = [*PIP, "install", "--target", "t", "six==1.16.0", "packaging==24.2"]
    done = record_twice(work, argv, clean=["t"])
    assert [row.purl for row in done.fetches] == ["pkg:pypi/packaging@24.2", "pkg:pypi/six@1.16.0"]
    pinned = b"six==1.16.0 --hash=sha256:8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254\n"
    checked = cross_check(done.fetches, {"requirements.txt": pinned}, work.store)
    assert [row.origin for row in checked] == ["recorded", "lock"]
    work.run(done.replay, argv)
    assert done.replay.unknown() == ()
    assert "six.py" in work.tree("t")
    other = Store(tmp_path / "other")
    assert fetch_blobs([row.blob for row in done.fetches], other, Clients(dict(os.environ))) > 0
    assert all(other.has(row.blob.digest) for row in done.fetches)


@pytest.mark.network
@pytest.mark.engine
def test_npm_ci_is_recorded_and_replayed(work: Work, tmp_path: Path) -> None:
    npm = need("npm")
    work.write({"package.json": '{"name": "x", "version": "1.0.0", "dependencies": {"debug": "4.3.4", "ms": "2.1.3"}}'})
    work.run(Recorder(work.store, Clients(dict(os.environ))), [npm, "install", "--package-lock-only"])
    done = record_twice(work, [npm, "ci"], clean=["node_modules", "npm-cache"])
    lock_file = (work.folder / "package-lock.json").read_bytes()
    assert {row.origin for row in cross_check(done.fetches, {"package-lock.json": lock_file}, work.store)} == {"lock"}
    work.run(done.replay, [npm, "ci"])
    assert done.replay.unknown() == ()
    assert "debug/package.json" in work.tree("node_modules")
    other = Store(tmp_path / "other")
    fetch_blobs([row.blob for row in done.fetches], other, Clients(dict(os.environ)))
    assert all(other.has(row.blob.digest) for row in done.fetches)


@pytest.mark.network
@pytest.mark.engine
@pytest.mark.shows("Go modules", "SBOM names")
def test_go_mod_download_is_recorded_and_replayed(work: Work, tmp_path: Path) -> None:
    go = need("go")
    requirements = "require (\n\tgithub.com/pkg/errors v0.9.1\n\tgithub.com/BurntSushi/toml v1.3.2\n)\n"
    sums = (
        "github.com/BurntSushi/toml v1.3.2 h1:o7IhLm0Msx3BaB+n3Ag7L8EVlByGnpq14C4YWiu/gL8=\n"
        "github.com/pkg/errors v0.9.1 h1:FEBLx1zS214owpjy7qsBeixbURkuhQAwrK5UwLGTwt4=\n"
    )
    work.write({"go.mod": f"module ex.org/x\n\ngo 1.21\n\n{requirements}"})
    argv = [go, "mod", "download", "all"]
    done = record_twice(work, argv, clean=["gopath"])
    checked = cross_check(done.fetches, {"go.sum": sums.encode()}, work.store)
    assert [row.blob.key for row in checked if row.origin == "lock"] == [
        "github.com/!burnt!sushi/toml/@v/v1.3.2.zip",
        "github.com/pkg/errors/@v/v0.9.1.zip",
    ]
    assert "pkg:golang/github.com/BurntSushi/toml@v1.3.2" in {row.purl for row in done.fetches}
    work.run(done.replay, argv)
    assert done.replay.unknown() == ()
    other = Store(tmp_path / "other")
    fetch_blobs([row.blob for row in done.fetches], other, Clients(dict(os.environ)))
    assert all(other.has(row.blob.digest) for row in done.fetches)
