"""Every engine: what a command sees, how it ends, what it leaves, and what becomes of the tree, against the native one."""

from __future__ import annotations

import io
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, running
from packager.oci.tar_writer import write_tar
from packager.oci.unpack import unpack_layer
from packager.sandbox.engine import Bind, Command, Limits
from packager.sandbox.engines import find_lack, open_engine
from packager.sandbox.fetches import Answer, Relay
from packager.sandbox.namespaces import may_mount
from packager.sandbox.relay import address_of
from packager.store.scratch import scratch_folder
from tests.support.docker_daemon import docker_daemon
from tests.support.fake_fetches import FakeFetches
from tests.support.host_tree import run_captured
from tests.support.tiny_base import tiny_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packager.oci.entries import Entry
    from packager.sandbox.engine import Engine, Tree

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root")]
ROOT = Path(__file__).parents[2]
PROGRAMS = ("sh", "bash", "cat", "chmod", "chown", "env", "hostname", "id", "ln", "ls", "mkdir", "rm", "sleep", "sort")
SLOWER = ("buildah", "docker-newer", "docker-containerd")
ENGINES = ("podman", "docker", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER))
ENV = {"PATH": "/usr/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}

SEE = (
    "hostname; cat /etc/hostname /etc/hosts /etc/resolv.conf; pwd; umask; id -u; id -g; id -G; env | sort; "
    "ls /proc/self/fd; ulimit -n; ulimit -c; while read -r k v; do case $k in Cap*|NoNew*) echo $k $v;; esac; done "
    "</proc/self/status; ls -ld /tmp /proc/self/ns/../../sys >/dev/null; cat /proc/net/dev | while read -r k v; do "
    "case $k in *:) echo $k;; esac; done; (echo x >/proc/sys/kernel/hostname) 2>/dev/null || echo read-only"
)
WRITE = (
    "cd /work; echo a >a; chown 42:43 a; chmod 6750 a; ln a b; ln -s a c; mkdir -m 2775 d; rm /etc/old; rm -r /gone; "
    "mkdir /gone; echo x >/gone/x; echo t >/tmp/t; echo r >/etc/resolv.conf; (sleep 5555 &)"
)
CHANGES = [
    "dir etc",
    "whiteout etc/old",
    "dir gone",
    "whiteout gone/y",
    "file gone/x",
    "dir work",
    "file work/a",
    "hardlink work/b",
    "symlink work/c",
    "dir work/d",
]


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Make a layer of programs, and one over it that deletes and covers."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    tar = io.BytesIO()
    write_tar(list(tiny_entries(PROGRAMS)), tar.write)
    tar.seek(0)
    unpack_layer(tar, first, overlay_whiteouts=True)
    for name in ("work/lower", "etc/old", "gone/y"):
        (second / name).parent.mkdir(exist_ok=True)
        (second / name).write_text("lower\n")
    for path in (first, second, first / "tmp"):
        path.chmod(0o755)
    (first / "tmp").chmod(0o1777)
    return [first, second]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    name, _, kind = request.param.partition("-")
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        if name == "docker":
            daemon = docker_daemon(newer=bool(kind), containerd_store=kind == "containerd")
            patch.setenv("DOCKER_HOST", request.getfixturevalue("held").enter_context(daemon))
        lack = find_lack(name, home)
        if lack is not None:
            pytest.skip(lack.reason)
        yield open_engine(name, home)


@pytest.fixture(scope="module")
def held() -> Iterator[object]:
    from contextlib import ExitStack  # noqa: PLC0415 - here alone

    with ExitStack() as stack:
        yield stack


def opened(engine: Engine, layers: list[Path], folder: Path) -> Iterator[Tree]:
    with scratch_folder(folder) as scratch, engine.open_tree(layers, scratch=scratch) as tree:
        yield tree


@pytest.fixture(scope="module")
def tree(engine: Engine, layers: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    yield from opened(engine, layers, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def native(layers: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    place = tmp_path_factory.mktemp("native")
    yield from opened(open_engine("native", place), layers, place)


def shell(script: str, **more: object) -> Command:
    return Command(("/bin/sh", "-c", script), env=ENV, **more)  # type: ignore[arg-type]


def bash(script: str, **more: object) -> Command:
    return Command(("/usr/bin/bash", "-c", script), env={"PATH": "/usr/bin"}, **more)  # type: ignore[arg-type]


def test_a_command_sees_what_the_native_engine_shows(tree: Tree, native: Tree) -> None:
    ours, theirs = (run_captured(one, shell(SEE)) for one in (tree, native))
    assert ours[1].splitlines() == theirs[1].splitlines()
    assert ours[0].exit_code == theirs[0].exit_code == 0


def test_exit_codes_and_streams_are_a_shells(tree: Tree) -> None:
    ended, out, err = run_captured(tree, shell("echo out; echo err >&2; exit 3"))
    assert (ended.exit_code, ended.timed_out, out, err) == (3, False, "out\n", "err\n")
    assert run_captured(tree, shell("kill -SEGV $$"))[0].exit_code == 139
    nowhere = run_captured(tree, shell("true", cwd="/nowhere"))
    assert (nowhere[0].exit_code, nowhere[2]) == (
        127,
        "wideswe-pack: cannot enter /nowhere: No such file or directory\n",
    )
    assert run_captured(tree, Command(("no-such-program",), env=ENV))[0].exit_code == 127


def test_the_deadline_ends_everything_that_was_started(tree: Tree) -> None:
    ended, out, err = run_captured(tree, shell("trap '' TERM; (sleep 7777 &); echo started; sleep 7777", timeout_s=3.0))
    assert (ended.exit_code, ended.timed_out, out, err) == (137, True, "started\n", "")
    assert sleeping("7777") == []


def test_a_command_runs_as_the_user_that_it_names(tree: Tree) -> None:
    ended, out, _ = run_captured(tree, shell("id -u; id -g; echo x >/etc/x || echo denied", uid=1000, gid=1000))
    assert (ended.exit_code, out) == (0, "1000\n1000\ndenied\n")


def test_binds_below_the_room_need_no_mount_point(tree: Tree, tmp_path: Path) -> None:
    command = shell("echo r >/run/wideswe/report/r", binds=(Bind(tmp_path, "/run/wideswe/report", writable=True),))
    assert run_captured(tree, command)[0].exit_code == 0
    assert (tmp_path / "r").read_text() == "r\n"


def test_a_greedy_command_is_stopped(tree: Tree) -> None:
    script = "x=0123456789abcdef; while :; do x=$x$x; done"
    ended, _, _ = run_captured(tree, bash(script, limits=Limits(memory_bytes=64 << 20)))
    assert ended.exit_code != 0


ASK = r"exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://a.invalid/b HTTP/1.1\r\nHost: a.invalid\r\nConnection: close\r\n\r\n' >&3; cat <&3"


def test_fetches_are_answered_on_loopback(tree: Tree) -> None:
    source = FakeFetches({"http://a.invalid/b": Answer(200, "text/plain", b"fetched\n")}, {"ASKED": "yes"})
    script = f"{ASK}; echo $ASKED $http_proxy; test -s $SSL_CERT_FILE && echo trusted"
    ended, out, err = run_captured(tree, bash(script), source)
    assert (ended.exit_code, err) == (0, "")
    assert out.endswith("\r\n\r\nfetched\nyes http://127.0.0.1:3128\ntrusted\n")
    assert run_captured(tree, bash(ASK))[0].exit_code != 0


def test_the_loopback_port_can_lead_to_a_socket_of_the_host(tree: Tree, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, address_of(tmp_path / "socket") as address:
        listener.bind(address)
        listener.listen()
        listener.settimeout(60)
        peer = threading.Thread(target=_answer_one, args=(listener,))
        peer.start()
        script = "exec 3<>/dev/tcp/127.0.0.1/3128; echo ask >&3; read -r line <&3; echo $line; env"
        ended, out, err = run_captured(tree, bash(script), Relay(tmp_path / "socket"))
        peer.join()
    assert (ended.exit_code, out.split("\n")[0], err) == (0, "answer to ask", "")
    assert "proxy" not in out.lower()


def _answer_one(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        stream.write(b"answer to " + stream.readline())


def test_changes_are_those_of_the_native_engine(
    engine: Engine, native: Tree, layers: list[Path], tmp_path: Path
) -> None:
    run_captured(native, shell(WRITE))
    for tree in opened(engine, layers, tmp_path):
        ended, _, err = run_captured(tree, shell(WRITE))
        assert (ended.exit_code, sleeping("5555"), "esolv.conf" in err) == (0, [], True)
        changes = tree.changes()
        assert [f"{one.kind.value} {one.path.decode()}" for one in changes] == CHANGES
        assert tar_of(changes) == tar_of(native.changes())
        assert (tree.root / "work/a").read_text() == "a\n"
        assert not (tree.lower / "work/a").exists()
        (tree.root / "work/host").write_text("from outside\n")
        assert run_captured(tree, shell("cat /work/host"))[1] == "from outside\n"
        upper = tree.upper
        with engine.open_tree([*layers, upper], scratch=tmp_path) as over:
            assert run_captured(over, shell("cat /work/host /work/b; ls /gone"))[1] == "from outside\na\nx\n"
    assert list((tmp_path / "tmp").iterdir()) == []


KILLED = """
import sys
from pathlib import Path
from packager.sandbox.engine import Command, Streams
from packager.sandbox.engines import open_engine
name, home, *layers = sys.argv[1:]
with open_engine(name, Path(home)).open_tree([Path(one) for one in layers], scratch=Path(home)) as tree:
    tree.run(Command(("/bin/sh", "-c", "sleep 6666"), {"PATH": "/usr/bin"}), Streams())
"""


def test_nothing_runs_on_when_the_builder_is_killed(engine: Engine, layers: list[Path], tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KILLED, engine.name, str(tmp_path), *map(str, layers)]
    with running(argv, Surroundings(env={**os.environ, "PYTHONPATH": str(ROOT)})) as child:
        wait_until(lambda: sleeping("6666") != [] or child.poll() is not None)
        assert child.poll() is None
        child.kill()
        wait_until(lambda: sleeping("6666") == [])
    assert sleeping("6666") == []


def wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened() and time.monotonic() < until:
        time.sleep(0.1)


def tar_of(entries: Iterable[Entry]) -> bytes:
    out = io.BytesIO()
    write_tar(entries, out.write)
    return out.getvalue()


def sleeping(argument: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", argument.encode()]:
            found.append(path.parent.name)
    return found
