from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from packager.sandbox import cgroups
from packager.sandbox.cgroup_mounts import unified_and_single
from packager.sandbox.engine import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

V1 = """\
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V1_OWN = "3:cpu,cpuacct:/\n4:memory:/api/x\n5:pids:/docker/abc/own\n0::/\n"
V2 = "34 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
FILES_2 = ("cgroup.procs", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max", "memory.events")


@contextlib.contextmanager
def fake_version_2(root: Path, *, lacking: tuple[str, ...] = ()) -> Iterator[tuple[dict[str, list[Path]], Path]]:
    """Make a directory like a version 2 root, with a group `ours` in it as the kernel would fill it."""
    child = root / "ours"
    child.mkdir()
    for path in (root / "cgroup.controllers", child / "cgroup.controllers"):
        path.write_text("cpu memory pids\n")
    for name in FILES_2:
        if name not in lacking:
            (child / name).write_text("")
    yield {controller: [root] for controller in cgroups.CONTROLLERS}, child


def test_version_1_groups_go_below_the_own_one_and_before_version_2() -> None:
    assert cgroups.find_parents(V1, V1_OWN) == {
        "cpu": [Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup/unified")],
        "memory": [Path("/sys/fs/cgroup/memory/api/x"), Path("/sys/fs/cgroup/unified")],
        "pids": [Path("/sys/fs/cgroup/pids/own"), Path("/sys/fs/cgroup/unified")],
    }


def test_version_2_groups_go_below_the_root_before_the_own_ones_parents() -> None:
    root = Path("/sys/fs/cgroup")
    expected = [root, root / "user.slice", root / "user.slice/session-1.scope"]
    assert cgroups.find_parents(V2, "0::/user.slice/session-1.scope\n") == dict.fromkeys(cgroups.CONTROLLERS, expected)


def test_a_machine_without_groups_limits_nothing_and_does_not_fail() -> None:
    assert cgroups.find_parents("", "") == {}
    with cgroups.group(Limits(), {}, name="ours") as made:
        assert (made.members, made.ran_out_of_memory()) == ([], False)


def test_version_2_takes_all_limits_in_one_group(tmp_path: Path) -> None:
    with (
        fake_version_2(tmp_path) as (parents, child),
        cgroups.group(Limits(cpus=3, memory_bytes=4096, pids=7), parents, name="ours") as made,
    ):
        assert made.members == [str(child / "cgroup.procs")]
        assert {name: (child / name).read_text() for name in FILES_2} == {
            "cgroup.procs": "",
            "memory.max": "4096",
            "memory.swap.max": "0",
            "memory.oom.group": "1",
            "pids.max": "8",
            "cpu.max": "300000 100000",
            "memory.events": "",
        }
        assert not made.ran_out_of_memory()
        (child / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n")
        assert made.ran_out_of_memory()
        shutil.rmtree(child)  # the kernel's files vanish with their directory


def test_a_controller_that_is_not_handed_on_is_left_to_rlimits(tmp_path: Path) -> None:
    lacking = ("memory.max", "memory.swap.max", "cpu.max")
    with (
        fake_version_2(tmp_path, lacking=lacking) as (parents, child),
        cgroups.group(Limits(), parents, name="ours") as made,
    ):
        assert sorted(made.directories) == ["pids"]
        shutil.rmtree(child)


def test_no_limit_makes_no_group(tmp_path: Path) -> None:
    with cgroups.group(Limits(cpus=0, memory_bytes=0, pids=0), {"memory": [tmp_path]}, name="ours") as made:
        assert made.directories == {}
    assert list(tmp_path.iterdir()) == []


def test_only_groups_of_dead_owners_are_swept(tmp_path: Path) -> None:
    own, here = cgroups.start_time(os.getpid()), cgroups.pid_namespace()
    alive = tmp_path / f"wideswe-{os.getpid()}-{own}-{here}-0"
    reused = tmp_path / f"wideswe-{os.getpid()}-{(own or 0) + 1}-{here}-0"
    dead = tmp_path / f"wideswe-4194304-1-{here}-0"
    full = tmp_path / f"wideswe-4194304-2-{here}-0"
    elsewhere = tmp_path / f"wideswe-4194304-1-{here + 1}-0"
    forgotten = tmp_path / f"wideswe-4194304-2-{here + 1}-0"
    foreign = tmp_path / "user.slice"
    kept = (alive, full, elsewhere, foreign)
    for path in (*kept, reused, dead, full / "still-in-use", forgotten):
        path.mkdir(parents=True, exist_ok=True)
    os.utime(forgotten, (1, 1))
    gone = sorted([dead, reused, forgotten])
    assert cgroups.sweep({"memory": [tmp_path], "pids": [tmp_path, tmp_path / "missing"]}) == gone
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_a_processes_start_is_known_and_a_missing_one_is_none() -> None:
    assert cgroups.start_time(os.getpid()) == cgroups.start_time(os.getpid())
    assert cgroups.start_time(1 << 22) is None


def test_the_kernel_says_which_version_has_which_controller() -> None:
    head = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
    rows = "cpuset\t0\t1\t1\ncpu\t{}\t11\t1\nmemory\t{}\t124\t1\npids\t{}\t8\t1\nnet_cls\t5\t5\t1\n"
    assert unified_and_single(head + rows.format(1, 4, 8)) == (False, ["cpu", "memory", "pids"])
    assert unified_and_single(head + rows.format(0, 4, 0)) == (True, ["memory"])
    assert unified_and_single(head + rows.format(0, 0, 0)) == (True, [])
    assert unified_and_single(head + "memory\t4\t1\t0\n") == (True, [])
