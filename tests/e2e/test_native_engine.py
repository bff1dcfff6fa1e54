"""The native engine on this machine's kernel, with this machine's programs bound into small trees."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import WorldError
from packager.base.processes import Surroundings, running
from packager.sandbox import cgroups
from packager.sandbox.engine import Bind, Command, Limits, Streams
from packager.sandbox.namespaces import may_mount
from packager.sandbox.native import NativeEngine, NativeTree, prepare_process
from tests.support.fake_fetches import FakeFetches
from tests.support.host_tree import HOST_USR, PATH, make_host_layer, run_captured, shell
from tests.support.sleepers import sleeping

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="needs root here; rootless runs in tests/e2e/test_rootless_engine.py"),
]


@pytest.fixture(scope="module")
def engine() -> NativeEngine:
    prepare_process()
    return NativeEngine()


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    return make_host_layer(tmp_path / "layer")


@pytest.fixture
def tree(engine: NativeEngine, layer: Path, tmp_path: Path) -> Iterator[NativeTree]:
    with engine.open_tree([layer], scratch=tmp_path / "scratch") as opened:
        yield opened


def said(tree: NativeTree, script: str, **more: object) -> str:
    ended, out, err = run_captured(tree, shell(script, **more))
    assert (ended.exit_code, err) == (0, "")
    return out


def mounts_below(path: Path) -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(path) in line]


# ---- what a command sees


def test_a_command_sees_the_same_small_world_on_every_machine(tree: NativeTree) -> None:
    assert said(
        tree, "hostname; cat /etc/hostname; pwd; umask; id -u; id -G; cat /etc/resolv.conf; tty; echo $PPID"
    ) == ("build\nbuild\n/\n0022\n0\n0\nnot a tty\n1\n")
    assert said(tree, "cat /etc/hosts") == (
        "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\tbuild\n"
    )
    assert said(tree, "ls /dev | xargs") == "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero\n"
    assert said(tree, "env | sort") == f"LC_ALL=C.UTF-8\nPATH={PATH}\nPWD=/\n"
    assert said(tree, "ls /proc/self/fd | xargs; ulimit -n; ulimit -c") == "0 1 2 3\n16384\n0\n"
    assert said(tree, "grep -E 'Cap(Inh|Eff|Bnd|Amb)|NoNew' /proc/self/status | cut -f2 | xargs") == (
        "0000000000000000 00000000a00425fb 00000000a00425fb 0000000000000000 1\n"
    )
    assert said(tree, "cut -d: -f3 /proc/self/cgroup | sort -u") == "/\n"


FIRST = (("readlink", "exe"), ("readlink", "cwd"), ("ls", "root/"), ("cat", "maps"), ("readlink", "fd/*"))


def test_the_first_process_shows_nothing_of_this_machine(tree: NativeTree) -> None:
    assert said(tree, "tr -d '\\0' </proc/1/cmdline; cat /proc/1/environ 2>/dev/null || echo hidden") == "hidden\n"
    ended, _, _ = run_captured(tree, shell(" || ".join(f"{attempt} /proc/1/{name}" for attempt, name in FIRST)))
    assert ended.exit_code != 0


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t tmpfs none /tmp",
        "umount /proc",
        "mount -o remount,rw /proc/sys",
        "mknod /tmp/disk b 254 0",
        "echo x >/proc/sys/kernel/hostname",
        "echo b >/proc/sysrq-trigger",
        "hostname other",
        "nsenter -t 1 -m true",
        "unshare --user true",
        "setpriv --reuid 1000 --clear-groups unshare --user --map-root-user true",
        "kill -9 1 && sleep 0.1 && test ! -e /proc/1",
        "ls /sys/kernel",
        "echo x >>/etc/hosts",
        "echo x >>/usr/forbidden",
    ],
)
def test_root_inside_is_not_root_outside(tree: NativeTree, attempt: str) -> None:
    ended, _, _ = run_captured(tree, shell(attempt))
    assert ended.exit_code != 0
    assert said(tree, "hostname") == "build\n"


def test_loopback_is_up_and_there_is_nothing_else(tree: NativeTree) -> None:
    script = (
        "import socket,sys\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname()).close()\n"
        "sys.stdout.write(str([name for _, name in socket.if_nameindex()]) + '\\n')\n"
        "sys.stdout.write(socket.gethostbyname('localhost') + ' ' + socket.gethostbyname(socket.gethostname()) + '\\n')\n"
        "for attempt in (lambda: socket.create_connection(('192.0.2.1', 80), 5), lambda: socket.gethostbyname('a.invalid')):\n"
        "    try: attempt()\n"
        "    except OSError as error: sys.stdout.write(type(error).__name__ + '\\n')\n"
    )
    ended, out, err = run_captured(tree, Command(("/usr/bin/python3", "-c", script), binds=(HOST_USR,)))
    assert (ended.exit_code, err) == (0, "")
    assert out == "['lo']\n127.0.0.1 127.0.1.1\nOSError\ngaierror\n"
    assert ended.seconds < 30  # a name that cannot be resolved fails at once


def test_root_can_do_what_packages_need(tree: NativeTree) -> None:
    script = (
        "cd /tmp; touch a; chown 42:43 a; chmod 6755 a; ln a b; mkfifo c; stat -c '%u:%g %a %h' a; "
        "setpriv --reuid 42 --regid 43 --clear-groups id -u; chroot / id -u; install -d -o 5 -m 2775 d; stat -c '%u %a' d"
    )
    assert said(tree, script) == "42:43 6755 2\n42\n0\n5 2775\n"


def test_a_command_runs_as_the_user_that_it_names(tree: NativeTree) -> None:
    script = (
        "id -u; id -g; id -G; grep Cap /proc/self/status | cut -f2 | sort -u; echo out >/dev/stdout; "
        "echo mine >/tmp/mine; stat -c %u:%g /tmp/mine; test ! -w /etc; test ! -r /root; echo $?"
    )
    out = said(tree, script, uid=1000, gid=1000, cwd="/work")
    assert out.split("\n") == [
        *("1000", "1000", "1000", "0" * 16, "00000000a00425fb", "out", "1000:1000", "0", ""),
    ]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
def test_calls_that_reach_around_namespaces_are_refused(tree: NativeTree) -> None:
    script = (
        "import ctypes, os, sys, threading\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def attempt(*call):\n"
        "    result = libc.syscall(*map(ctypes.c_long, call))\n"
        "    sys.stdout.write(os.strerror(ctypes.get_errno()) + '; ' if result < 0 else f'{result}; ')\n"
        "user = 0x10000000\n"
        "attempt(250, 0, -3, 1, 0, 0)\n"  # keyctl: the session's keyring
        "attempt(435, 0, 0)\n"  # clone3
        "attempt(425, 1, 0)\n"  # io_uring_setup
        "attempt(321, 0, 0, 0)\n"  # bpf
        "attempt(272, user)\n"  # unshare
        "attempt(56, user | 17, 0, 0, 0, 0)\n"  # clone
        "attempt(272 | 0x40000000, user)\n"  # the same by x32 numbers
        "thread = threading.Thread(target=sys.stdout.write, args=('threads; ',))\n"
        "thread.start(); thread.join()\n"
        "sys.stdout.write(str(os.waitpid(os.fork() or os._exit(0), 0)[1]))\n"
    )
    ended, out, err = run_captured(tree, Command(("/usr/bin/python3", "-c", script), binds=(HOST_USR,)))
    refused = "Operation not permitted; "
    missing = "Function not implemented; "
    assert (ended.exit_code, err) == (0, "")
    assert out == f"{refused}{missing}{missing}{refused}{refused}{refused}{missing}threads; 0"


# ---- the tree


def test_what_was_written_is_in_the_upper_layer_and_nothing_of_ours_is(tree: NativeTree, layer: Path) -> None:
    said(tree, "echo new >/work/new; rm /etc/passwd; rm -r /root; mkdir /root; mv /etc/group /etc/group2")
    found = sorted(str(path.relative_to(tree.upper)) for path in tree.upper.rglob("*"))
    assert found == ["etc", "etc/group", "etc/group2", "etc/passwd", "root", "work", "work/new"]
    assert (tree.upper / "etc/passwd").is_char_device()
    assert (tree.upper / "etc/passwd").stat().st_rdev == 0
    assert os.getxattr(tree.upper / "root", "trusted.overlay.opaque") == b"y"
    assert (tree.root / "work/new").read_text() == "new\n"
    assert (tree.lower / "etc/passwd").exists()
    assert (layer / "etc/passwd").exists()
    assert (tree.root / "etc/hosts").read_text() == "from the layer\n"


def test_the_lower_view_cannot_be_written(tree: NativeTree) -> None:
    with pytest.raises(OSError, match="Read-only file system"):
        (tree.lower / "x").write_text("")


@pytest.mark.parametrize("count", [0, 1, 2, 70, 400])
def test_any_number_of_layers_stacks_up(engine: NativeEngine, layer: Path, tmp_path: Path, count: int) -> None:
    layers = [layer][:count]
    for number in range(1, count):
        path = tmp_path / f"a long name, with: punctuation\\ {number}"
        (path / "work").mkdir(parents=True)
        (path / "work/last").write_text(f"{number}\n")
        (path / f"work/only-{number}").write_text("")
        layers.append(path)
    with engine.open_tree(layers, scratch=tmp_path / "scratch with: a comma, too") as tree:
        names = sorted(path.name for path in (tree.root / "work").iterdir()) if count else []
        assert len(names) == (count if count > 1 else 0)
        assert sorted(os.listdir(tree.lower)) == sorted(os.listdir(tree.root))  # noqa: PTH208
        if count > 1:
            assert said(tree, "cat /work/last") == f"{count - 1}\n"
    assert list((tmp_path / "scratch with: a comma, too").iterdir()) == []


def test_equal_layers_may_come_twice(engine: NativeEngine, layer: Path, tmp_path: Path) -> None:
    between = tmp_path / "between"
    (between / "work").mkdir(parents=True)
    (between / "work/x").write_text("x\n")
    with engine.open_tree([layer, between, layer], scratch=tmp_path / "scratch") as tree:
        assert said(tree, "cat /work/x; id -un") == "x\nroot\n"


def test_a_tree_without_mount_points_gets_none(engine: NativeEngine, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    (bare / "usr").mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (bare / name).symlink_to(f"usr/{name}")
    with engine.open_tree([bare], scratch=tmp_path / "scratch") as tree:
        assert said(tree, "echo /*; hostname") == "/bin /lib /lib64 /usr\nbuild\n"
        assert list(tree.upper.iterdir()) == []


def test_links_in_the_tree_cannot_lead_a_mount_astray(engine: NativeEngine, layer: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    for name in ("dev", "proc", "etc/resolv.conf"):
        path = layer / name
        path.rmdir() if path.is_dir() else path.unlink()
        path.symlink_to(target)
    with engine.open_tree([layer], scratch=tmp_path / "scratch") as tree:
        run_captured(tree, shell("true"))
    assert list(target.iterdir()) == []


def test_programs_of_the_tree_never_run_as_the_launcher(engine: NativeEngine, layer: Path, tmp_path: Path) -> None:
    for place in (sys.base_prefix, sys.prefix, str(ROOT)):
        trap = layer / place.lstrip("/") / "lib/python3.11"
        trap.mkdir(parents=True, exist_ok=True)
        for name in ("warnings", "traceback", "encodings/latin_1"):
            (trap / f"{name}.py").parent.mkdir(exist_ok=True)
            (trap / f"{name}.py").write_text("open('/work/trapped', 'w').close()\n")
    with engine.open_tree([layer], scratch=tmp_path / "scratch") as tree:
        run_captured(tree, Command(("/no/such",), binds=(HOST_USR,)))
        run_captured(tree, Command(("no-such",), env={"PATH": ":/\udcff"}, binds=(HOST_USR,)))
        assert not (tree.root / "work/trapped").exists()


# ---- binds


def test_binds_are_read_only_unless_asked_and_the_room_needs_no_mount_point(tree: NativeTree, tmp_path: Path) -> None:
    readable, results = tmp_path / "readable", tmp_path / "results"
    readable.write_text("text\n")
    results.mkdir()
    binds = (
        Bind(readable, "/run/wideswe/in/file"),
        Bind(results, "/run/wideswe/out", writable=True),
        Bind(results, "/work"),
    )
    script = (
        "cat /run/wideswe/in/file; echo done >/run/wideswe/out/r; cat /work/r; "
        "for f in /run/wideswe/in/file /run/wideswe/new /work/new; do echo x 2>/dev/null >$f || echo refused; done"
    )
    assert said(tree, script, binds=binds) == "text\ndone\nrefused\nrefused\nrefused\n"
    assert (results / "r").read_text() == "done\n"
    assert sorted(str(path.relative_to(tree.upper)) for path in tree.upper.rglob("*")) == ["run", "run/wideswe"]


def test_a_bind_without_a_mount_point_says_which(tree: NativeTree, tmp_path: Path) -> None:
    with pytest.raises(WorldError) as caught:
        run_captured(tree, shell("true", binds=(Bind(tmp_path, "/not/there"),)))
    assert str(caught.value) == (
        f"native engine: sandbox not made: {tmp_path} cannot be bound: the tree has no directory /not/there\n"
        "hint: `doctor` says what is missing"
    )
    with pytest.raises(WorldError, match=r"open_tree .*/gone: No such file or directory"):
        run_captured(tree, shell("true", binds=(Bind(tmp_path / "gone", "/work"),)))


# ---- how a command ends


def test_exit_codes_are_a_shells(tree: NativeTree) -> None:
    assert run_captured(tree, shell("exit 3"))[0].exit_code == 3
    assert run_captured(tree, shell("kill -SEGV $$"))[0].exit_code == 139
    missing = run_captured(tree, Command(("no-such-program",), env={"PATH": PATH}, binds=(HOST_USR,)))
    assert (missing[0].exit_code, missing[2]) == (
        127,
        "wideswe-pack: cannot start no-such-program: No such file or directory\n",
    )
    unusable = run_captured(tree, Command(("/etc/passwd",), binds=(HOST_USR,)))
    assert (unusable[0].exit_code, unusable[2]) == (126, "wideswe-pack: cannot start /etc/passwd: Permission denied\n")
    nowhere = run_captured(tree, shell("true", cwd="/gone"))
    assert (nowhere[0].exit_code, nowhere[2]) == (127, "wideswe-pack: cannot enter /gone: No such file or directory\n")
    odd = run_captured(tree, Command(("/bin/true",), env={"A=B": "c"}, binds=(HOST_USR,)))
    assert odd[0].exit_code == 126


def test_the_deadline_ends_everything_that_was_started(tree: NativeTree) -> None:
    script = "trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM; sleep 7777' &) ; echo started; sleep 7777"
    ended, out, _ = run_captured(tree, shell(script, timeout_s=2.0))
    assert (ended.exit_code, ended.timed_out, ended.out_of_memory, out) == (137, True, False, "started\n")
    assert 2.0 <= ended.seconds < 30
    assert not sleeping("7777")


def test_what_a_command_leaves_running_ends_with_it(tree: NativeTree) -> None:
    ended, out, _ = run_captured(tree, shell("(setsid sleep 6666 &); sleep 0.1; echo over"))
    assert (ended.exit_code, out) == (0, "over\n")
    assert ended.seconds < 30
    assert not sleeping("6666")


def test_output_is_passed_on_whole_and_in_order(tree: NativeTree) -> None:
    ended, out, err = run_captured(tree, shell("seq 200000; seq 3 >&2"))
    assert ended.exit_code == 0
    assert out == "".join(f"{number}\n" for number in range(1, 200001))
    assert err == "1\n2\n3\n"
    assert tree.run(shell("seq 200000; seq 3 >&2"), Streams()).exit_code == 0


def test_a_sink_that_raises_ends_the_command(tree: NativeTree) -> None:
    def refuse(_block: bytes) -> None:
        raise WorldError("too much output")

    with pytest.raises(WorldError, match="too much output"):
        tree.run(shell("yes; sleep 5555"), Streams(refuse))
    assert not sleeping("5555")


# ---- limits


needs_groups = pytest.mark.skipif(
    cgroups.writable_controllers() != list(cgroups.CONTROLLERS), reason="no writable control groups in /sys/fs/cgroup"
)


@needs_groups
def test_memory_is_limited_and_its_end_is_told(tree: NativeTree) -> None:
    script = "import sys; x = bytearray(400 << 20); sys.stdout.write('survived')"
    command = Command(("/usr/bin/python3", "-c", script), binds=(HOST_USR,), limits=Limits(memory_bytes=100 << 20))
    ended, out, _ = run_captured(tree, command)
    assert (ended.exit_code, ended.out_of_memory, ended.timed_out, out) == (137, True, False, "")


@needs_groups
def test_processes_are_limited(tree: NativeTree) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1 & done; wait"
    ended, _, err = run_captured(tree, shell(script, limits=Limits(pids=8)))
    assert ended.exit_code != 0
    assert "Cannot fork" in err


def test_no_group_and_no_descriptor_is_left(tree: NativeTree) -> None:
    said(tree, "true")
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(3):
        said(tree, "true")
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    places = {place for places in cgroups.machine_parents().values() for place in places}
    assert [
        path for place in places for path in place.glob(f"wideswe-{os.getpid()}-*-{cgroups.pid_namespace()}-*")
    ] == []


def test_trees_and_commands_may_run_side_by_side(engine: NativeEngine, layer: Path, tmp_path: Path) -> None:
    def work(number: int) -> list[str]:
        with engine.open_tree([layer], scratch=tmp_path / "scratch") as tree:
            source = FakeFetches({}) if number % 2 else None
            scripts = (f"echo {number} >/work/mine; sleep 0.1", "cat /work/mine", "ls /work; exit 4")
            found = [run_captured(tree, shell(script), source) for script in scripts]
            return [out for _, out, _ in found] + [str(found[-1][0].exit_code)]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(work, range(12)))
    assert found == [["", f"{number}\n", "mine\n", "4"] for number in range(12)]
    assert mounts_below(tmp_path / "scratch") == []


# ---- cleaning up


def test_leaving_a_tree_unmounts_and_deletes(engine: NativeEngine, layer: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"

    def stop_half_way() -> None:
        with engine.open_tree([layer], scratch=scratch) as tree:
            said(tree, "mkdir -p /tmp/a/b; chmod 0 /tmp/a; chattr +a /tmp/a 2>/dev/null; true")
            assert mounts_below(scratch)
            raise WorldError("stop")

    with pytest.raises(WorldError, match="stop"):
        stop_half_way()
    assert mounts_below(scratch) == []
    assert list(scratch.iterdir()) == []


def test_scratch_on_an_overlay_is_refused_with_a_reason(tree: NativeTree, engine: NativeEngine, layer: Path) -> None:
    with pytest.raises(WorldError, match="hint: scratch must be on ext4, xfs, btrfs or tmpfs"):
        engine.open_tree([layer], scratch=tree.root / "work").__enter__()
    assert [path for path in (tree.root / "work").iterdir() if any(path.iterdir())] == []


KILLED = """
import os, sys
from pathlib import Path
from packager.sandbox.native import NativeEngine, prepare_process
from tests.support.fake_fetches import FakeFetches
from tests.support.host_tree import make_host_layer, shell
from packager.sandbox.engine import Streams
prepare_process()
place = Path(sys.argv[1])
with NativeEngine().open_tree([make_host_layer(place / "layer")], scratch=place / "scratch") as tree:
    tree.run(shell("(setsid sleep 4444 &); echo ready; sleep 4444"), Streams(lambda block: os.write(1, block)))
"""


def test_kill_9_leaves_no_process_no_mount_and_groups_that_the_next_start_sweeps(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    argv = (sys.executable, "-c", KILLED, str(tmp_path))
    with running(argv, Surroundings(cwd=ROOT), stdout=writing) as child, os.fdopen(reading, "rb") as out:
        os.close(writing)
        assert out.readline() == b"ready\n"
        until = time.monotonic() + 60
        while len(sleeping("4444")) != 2 and time.monotonic() < until:  # both are what they were started as
            time.sleep(0.01)
        assert len(sleeping("4444")) == 2
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        until = time.monotonic() + 60
        while sleeping("4444") and time.monotonic() < until:
            time.sleep(0.01)
    assert sleeping("4444") == []
    assert mounts_below(tmp_path) == []
    (left,) = (tmp_path / "scratch").iterdir()
    assert (left / "u").is_dir()  # scratch is its caller's to reclaim
    parents = cgroups.machine_parents()
    while [path for path in _groups_of(child.pid) if path.exists()] and time.monotonic() < until:
        cgroups.sweep(parents)
    assert _groups_of(child.pid) == []


def _groups_of(pid: int) -> list[Path]:
    places = {place for places in cgroups.machine_parents().values() for place in places}
    return [path for place in sorted(places) for path in place.glob(f"wideswe-{pid}-*-{cgroups.pid_namespace()}-*")]
