"""Hidden fetches: a step that takes from the network what nobody pinned is caught while it is locked, and named."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.build.dockerfile import parse_dockerfile
from packager.build.execute import Builder, Input
from packager.build.record import record_fetches
from packager.lock.clients import Clients
from packager.lock.git import GitSources
from packager.lock.recorder import Recorder
from packager.oci.tree import scan_tree
from packager.store.store import Store
from tests.support.client_walk import Project, needs, walk
from tests.support.git_builder import GitBuilder
from tests.support.host_engine import HostEngine
from tests.support.host_tree import make_host_layer
from tests.support.http_server import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.engine

_COUNT = itertools.count()
UNPINNED = "hint: checklist I: pin what the command fetches (a version, a lock file, a commit): the same each time"


class _Moving(BaseHTTPRequestHandler):
    """Answers with something else each time, except below /fixed/."""

    def do_GET(self) -> None:
        fixed = self.path.startswith("/fixed/")
        body = b"echo installed >/work/tool\n" + (b"" if fixed else b"# release %d\n" % next(_COUNT))
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def moving_server() -> Iterator[str]:
    """Serve on a loopback address that clients do not take for their own machine, and so ask the proxy for."""
    with LoopbackServer(_Moving, address="127.0.0.2") as server:
        yield server.url


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with moving_server() as found:
        yield found


def refused(folder: Path, command: str) -> str:
    with pytest.raises(InputError) as caught:
        walk(folder, Project(command))
    return str(caught.value)


def npm_postinstall(url: str) -> str:
    """Return a step whose package downloads something of its own while it is installed."""
    script = f"curl -fsS -o binary {url}/latest/binary"
    package = f'{{"name":"dep","version":"1.0.0","scripts":{{"postinstall":"{script}"}}}}'
    return f"printf '{package}' >package.json && npm install --no-audit --no-fund --foreground-scripts"


HIDDEN: dict[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "curl | sh": (lambda url: f"curl -fsS {url}/install.sh | sh", ("curl",)),
    "latest archive": (
        lambda url: f"python3 -c \"import urllib.request as u; u.urlretrieve('{url}/latest', 'x')\"",
        (),
    ),
    "npm postinstall": (npm_postinstall, ("npm", "curl")),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_changes_between_two_recordings_is_refused_and_named(name: str, url: str, tmp_path: Path) -> None:
    command, programs = HIDDEN[name]
    needs(*programs)
    text = refused(tmp_path, command(url))
    assert text.startswith("step made/dependencies: two recordings of one command differ\nweb ")
    assert ": mutable: first sha256:" in text
    assert text.endswith(UNPINNED)


@pytest.mark.parametrize("moves", [True, False])
def test_a_clone_of_a_branch_is_refused_if_the_branch_moves_meanwhile(tmp_path: Path, *, moves: bool) -> None:
    needs("git")
    git = GitBuilder(tmp_path / "git" / "owner" / "thing.git")
    first = git.commit({"f": "1\n"})
    second = git.commit({"f": "2\n"}, first)
    store = Store(tmp_path / "store")
    clients = Clients({"HOME": str(tmp_path), "PATH": "/nonexistent"}, root=tmp_path)
    clients.git = GitSources(store, {"https://git.example/": f"{tmp_path / 'git'}/"}, tmp_path)
    tips = itertools.chain([first], itertools.repeat(second if moves else first))

    def recorder() -> Recorder:
        git.ref("refs/heads/main", next(tips))
        return Recorder(store, clients)

    base = make_host_layer(tmp_path / "base")
    builder = Builder(store, HostEngine(), {"inputs/base.tar": Input({}, lambda _: scan_tree(base))})
    instructions = parse_dockerfile(
        "FROM scratch\nADD inputs/base.tar /\nENV PATH=/usr/bin:/bin HOME=/root\n# step: t/dependencies\n"
        "RUN git clone -q -b main https://git.example/owner/thing.git /work/thing && rm -rf /work/thing/.git\n"
    )
    if not moves:
        found = record_fetches(builder, instructions, recorder)
        assert {row.blob.alias for row in found.fetches} == {"git"}
        return
    with pytest.raises(InputError) as caught:
        record_fetches(builder, instructions, recorder)
    assert str(caught.value).startswith("step t/dependencies: two recordings of one command differ\ngit ")
    assert str(caught.value).endswith(UNPINNED)


def test_an_address_of_the_hour_is_refused_and_named(url: str, tmp_path: Path) -> None:
    needs("curl")
    text = refused(tmp_path, f"curl -fsS {url}/fixed/$(date +%N) | sh")
    assert "fetched in only one of two recordings" in text
    assert text.endswith(UNPINNED)


def test_the_cured_twin_asks_for_one_thing_that_stays(url: str, tmp_path: Path) -> None:
    needs("curl")
    walked = walk(tmp_path, Project(f"curl -fsS {url}/fixed/install-1.0.sh | sh"))
    assert walked.files["work/tool"] == b"installed\n"
    assert [row.blob.alias for row in walked.recording.fetches] == ["web"]


def test_a_step_that_writes_the_time_is_refused_and_named_while_it_is_locked(tmp_path: Path) -> None:
    text = refused(tmp_path, "date +%s.%N >/work/built")
    assert text.startswith("lock: layer 1 recorded twice differs\nwork/built: content: ")
    assert text.endswith("\nhint: H time (the clock): use SOURCE_DATE_EPOCH instead of the time of day")


def test_a_fetch_outside_of_a_recorded_step_fails_and_is_named(tmp_path: Path) -> None:
    needs("curl")
    base = make_host_layer(tmp_path / "base")
    builder = Builder(
        Store(tmp_path / "store"), HostEngine(), {"inputs/base.tar": Input({}, lambda _: scan_tree(base))}
    )
    text = "FROM scratch\nADD inputs/base.tar /\nENV PATH=/usr/bin:/bin\n# step: t/prepare\nRUN curl -fsS https://host.invalid/x >x\n"
    with pytest.raises(InputError) as caught:
        builder.build(parse_dockerfile(text))
    assert str(caught.value) == (
        "step t/prepare: exit code 6 from: curl -fsS https://host.invalid/x >x\n"
        "curl: (6) Could not resolve host: host.invalid\n"
        "hint: checklist I (an input that is not pinned): pin a version, a commit or a digest in the recipe, and fetch it "
        "where it is recorded"
    )
