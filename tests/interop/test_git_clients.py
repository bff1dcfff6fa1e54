"""Every client that takes dependencies from git, against a recording of a repository made here and against its replay."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.base.processes import Surroundings, find_program, run
from packager.lock.clients import Clients
from packager.lock.crosscheck import cross_check
from packager.lock.ecosystems.git import place_of
from packager.lock.fetch import fetch_blobs
from packager.lock.git import GitSources
from packager.lock.recorder import Recorder, compare_recordings
from packager.lock.replay import Replay
from packager.store.store import Store
from tests.support.git_builder import GitBuilder
from tests.support.tls_proxy import serve_tls

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.lock.model import LockedFetch
    from packager.sandbox.fetches import FetchSource

pytestmark = pytest.mark.engine

URL = "https://git.example/owner/thing.git"
PLACE = place_of(URL)

BACKEND = """\
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("thing.py", "SAYS = 'pip'\\n")
        wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: thing\\nVersion: 1.0\\n")
        wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("thing-1.0.dist-info/RECORD", "")
    return name
"""
FILES = {
    "Cargo.toml": '[package]\nname = "thing"\nversion = "1.0.0"\nedition = "2021"\n',
    "src/lib.rs": 'pub const SAYS: &str = "cargo";\n',
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "backend.py": BACKEND,
    "package.json": '{"name": "thing", "version": "1.0.0"}\n',
    "index.js": "module.exports = 'npm'\n",
    "go.mod": "module git.example/owner/thing.git\n\ngo 1.20\n",
    "thing.go": 'package thing\n\nconst Says = "go"\n',
}


def need(name: str) -> str:
    found = find_program(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@dataclass
class Work:
    """A repository with two commits, a later one, a branch and a tag; and folders in which clients work."""

    folder: Path
    store: Store
    git: GitBuilder
    first: str = ""
    second: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    def clients(self) -> Clients:
        found = Clients({"HOME": str(self.folder), "PATH": "/nonexistent"}, root=self.folder)
        found.git = GitSources(self.store, {"https://git.example/": f"{self.folder / 'git'}/"}, self.folder)
        return found

    def run(self, source: FetchSource, script: str, home: str, *, ok: bool = True) -> str:
        """Run a shell command in a folder of its own with the project's files; give what it printed."""
        place = self.folder / home
        for name, text in self.files.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        place.mkdir(exist_ok=True)
        own = {"HOME": str(place), "CARGO_HOME": str(place / "cargo"), "GOPATH": str(place / "go")}
        own |= {"GOCACHE": str(self.folder / "go-build"), "GIT_CONFIG_NOSYSTEM": "1", "GOTOOLCHAIN": "local"}
        with serve_tls(source) as environment:
            around = Surroundings(env={**environment, **own}, cwd=place, timeout_s=300)
            done = run(["/bin/sh", "-ec", script], around)
        assert (done.exit_code == 0) is ok, (done.stdout + done.stderr).decode(errors="replace")
        return done.stdout.decode() if ok else done.stderr.decode()

    def record(self, script: str) -> tuple[LockedFetch, ...]:
        """Record a command twice and return what both agree on."""
        one, two = Recorder(self.store, self.clients()), Recorder(self.store, self.clients())
        outputs = [self.run(one, script, "one"), self.run(two, script, "two")]
        assert (one.failures(), two.failures()) == ((), ())
        compare_recordings(one.fetches("s"), two.fetches("s"))
        assert outputs[0] == outputs[1]
        return one.fetches("s")

    def prove(self, script: str) -> tuple[str, tuple[LockedFetch, ...]]:
        """Record, then replay without any repository; give the output and the rows."""
        rows = self.record(script)
        rows = tuple(row for row in rows if row.blob.alias == "git")
        self.git.path.rename(self.git.path.with_name("away"))
        source = Replay(self.store, rows, ())
        said = self.run(source, script, "three")
        assert source.unknown() == ()
        return said, rows


@pytest.fixture
def work(tmp_path: Path) -> Work:
    git = GitBuilder(tmp_path / "git" / "owner" / "thing.git")
    made = Work(tmp_path, Store(tmp_path / "store"), git)
    made.first = git.commit({**FILES, "note": "one\n"}, message="one")
    made.second = git.commit({**FILES, "note": "two\n"}, made.first, message="two")
    later = git.commit({**FILES, "note": "later\n"}, made.second, message="later")
    git.ref("refs/heads/main", made.second)
    git.ref("refs/heads/next", later)
    git.ref("refs/tags/v1", made.first)
    return made


@pytest.mark.shows("git", "records", "replays offline", "SBOM names")
def test_a_fetched_commit_is_pinned_with_nothing_that_came_later(work: Work) -> None:
    script = f"git init -q r && cd r && git fetch -q {URL} {work.second} && git checkout -q FETCH_HEAD && git log --format=%s && cat note"
    said, rows = work.prove(script)
    assert said == "two\none\ntwo\n"
    assert [row.blob.key for row in rows] == [
        f"{PLACE}/HEAD/refs/heads/main/{work.second}",
        f"{PLACE}/refs/tags/v1/{work.first}",
        f"{PLACE}/want/0/{work.second}",
    ]
    assert {row.purl for row in rows} == {f"pkg:generic/thing@{one}" for one in (work.first, work.second)}
    assert len({row.blob.digest for row in rows}) == 1
    assert b"later" not in work.store.path(rows[0].blob.digest).read_bytes()


def test_a_shallow_clone_takes_no_history(work: Work) -> None:
    script = f"git clone -q --depth 1 {URL} r && cd r && git log --format=%s && cat .git/shallow note"
    said, rows = work.prove(script)
    assert said == f"two\n{work.second}\ntwo\n"
    assert b"one\n" not in work.store.path(rows[0].blob.digest).read_bytes()


def test_a_whole_clone_has_all_branches_and_tags(work: Work) -> None:
    script = f"git clone -q {URL} r && cd r && git branch -r --format='%(refname)' && git describe --tags"
    said, _ = work.prove(script)
    assert (
        said
        == f"refs/remotes/origin/HEAD\nrefs/remotes/origin/main\nrefs/remotes/origin/next\nv1-1-g{work.second[:7]}\n"
    )


def test_a_fetch_into_an_older_clone_and_the_rest_of_a_shallow_one_work(work: Work) -> None:
    script = (
        f"git clone -q --depth 1 {URL} r && cd r && git fetch -q --unshallow origin main && git log --format=%s FETCH_HEAD"
        f" && git fetch -q origin next && git log --format=%s FETCH_HEAD"
    )
    said, _ = work.prove(script)
    assert said == "two\none\nlater\ntwo\none\n"


def test_what_the_lock_lacks_is_refused_by_name(work: Work) -> None:
    rows = work.record(f"git init -q r && cd r && git fetch -q {URL} {work.first}")
    source = Replay(work.store, rows, ())
    work.run(source, f"git init -q r && cd r && git fetch -q {URL} {work.second}", "three", ok=False)
    work.run(source, "git clone -q https://git.example/owner/other.git", "four", ok=False)
    other = "https://git.example/owner/other.git/info/refs?service=git-upload-pack"
    assert source.unknown() == (f"POST {URL}/git-upload-pack", f"GET {other}")


def test_a_branch_that_moves_between_two_recordings_is_named(work: Work) -> None:
    one, two = Recorder(work.store, work.clients()), Recorder(work.store, work.clients())
    work.run(one, f"git clone -q --single-branch {URL} r", "one")
    third = work.git.commit(dict(FILES), work.second, message="third")
    work.git.ref("refs/heads/main", third)
    work.run(two, f"git clone -q --single-branch {URL} r", "two")
    with pytest.raises(InputError) as caught:
        compare_recordings(one.fetches("s"), two.fetches("s"))
    assert f"git {PLACE}/HEAD/refs/heads/main/{third}: fetched in only one of two recordings" in str(caught.value)


CARGO = '[package]\nname = "mine"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\nthing = {{ git = "{url}", {which} }}\n'


@pytest.mark.parametrize("which", ['rev = "{first}"', 'branch = "main"'])
@pytest.mark.shows("cargo + git", "records", "replays offline", "cross-checked", "SBOM names")
def test_cargo_takes_a_dependency_from_git(work: Work, which: str) -> None:
    need("cargo")
    manifest = CARGO.format(url=URL, which=which.format(first=work.first))
    work.files = {"Cargo.toml": manifest, "src/main.rs": 'fn main() { print!("{}", thing::SAYS) }\n'}
    said, rows = work.prove("cargo fetch --quiet && cargo run --quiet --offline")
    assert said == "cargo"
    lock_file = (work.folder / "three/Cargo.lock").read_bytes()
    checked = cross_check(rows, {"Cargo.lock": lock_file}, work.store)
    used = work.first if "rev" in which else work.second
    assert {(row.origin, row.purl) for row in checked} == {("lock", f"pkg:generic/thing@{used}")}
    wrong = lock_file.replace(b"#" + lock_file.rpartition(b"#")[2][:40], b"#" + b"0" * 40)
    with pytest.raises(InputError) as caught:
        cross_check(rows, {"Cargo.lock": wrong}, work.store)
    assert f"expected {'0' * 40}:there, found {'0' * 40}:absent in git {PLACE}/" in str(caught.value)


@pytest.mark.shows("pip + git", "records", "replays offline", "SBOM names")
def test_pip_installs_from_git(work: Work) -> None:
    pip = f"{sys.executable} -m pip install -q --disable-pip-version-check --no-deps --target t"
    script = f"{pip} git+{URL}@{work.first} && PYTHONPATH=t {sys.executable} -c 'import thing; print(thing.SAYS)'"
    said, rows = work.prove(script)
    assert said == "pip\n"
    assert f"pkg:generic/thing@{work.first}" in {row.purl for row in rows}


@pytest.mark.shows("npm + git", "records", "replays offline", "SBOM names")
def test_npm_installs_from_git(work: Work) -> None:
    need("npm")
    package = {"name": "mine", "version": "1.0.0", "dependencies": {"thing": f"git+{URL}#{work.first}"}}
    work.files = {"package.json": json.dumps(package)}
    script = "npm_config_replace_registry_host=npmjs npm install --silent --cache $HOME/npm-cache && node -p 'require(\"thing\")'"
    said, rows = work.prove(script)
    assert said.splitlines()[-1] == "npm"
    assert f"pkg:generic/thing@{work.first}" in {row.purl for row in rows}


@pytest.mark.shows("Go direct", "records", "replays offline", "SBOM names")
def test_go_takes_a_module_straight_from_git(work: Work) -> None:
    need("go")
    work.files = {"go.mod": "module mine\n\ngo 1.20\n"}
    direct = "export GOPROXY=direct GOVCS='*:git' GOFLAGS=-modcacherw"
    script = f"{direct}; go mod download -json git.example/owner/thing.git@v0.0.0-20200913122640-{work.first[:12]} | grep Sum"
    said, rows = work.prove(script)
    assert '"Sum": "h1:' in said
    assert f"pkg:generic/thing@{work.first}" in {row.purl for row in rows}


def test_a_machine_without_the_pack_makes_it_again_from_the_repository(work: Work) -> None:
    recorder = Recorder(work.store, work.clients())
    work.run(recorder, f"git clone -q --depth 1 {URL} r", "one")
    rows, sources = recorder.fetches("s"), recorder.sources()
    other = Store(work.folder / "other")
    clients = work.clients()
    clients.git = GitSources(other, {"https://git.example/": f"{work.folder / 'git'}/"}, work.folder)
    assert fetch_blobs([row.blob for row in rows], other, clients, sources=sources) == rows[0].blob.size
    assert other.has(rows[0].blob.digest, rows[0].blob.size)
    assert {source.url for source in sources} == {URL}
