"""The native engine as a plain user and inside a chroot: what commands see and write is what root's see and write."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.processes import Finished, Surroundings, find_program, run
from packager.sandbox import kernel
from packager.sandbox.cgroups import writable_controllers
from packager.sandbox.namespaces import may_mount
from tests.support.plain_user import ROOT, SYSTEM_PYTHON, as_user, plain_user, reachable_folder
from tests.support.sandbox_walk import NET_RAW

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root to become other users")]


@pytest.fixture
def place() -> Iterator[Path]:
    with reachable_folder(Path("/var/tmp")) as path:
        yield path


@pytest.fixture
def code(place: Path) -> Path:
    """Copy this program, and what it needs from elsewhere, to where every user may read it."""
    if sys.version_info[:2] != _version_of(SYSTEM_PYTHON):
        pytest.skip("the system's Python is another version than this one")
    target = place / "code"
    for name in ("packager", "tests/support"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("cryptography", "cffi", "_cffi_backend*", "zstandard"):
        for path in sorted(found for part in sys.path for found in Path(part).glob(name)):
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, target / path.name)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def _version_of(python: Path) -> tuple[int, int] | None:
    if not python.exists():
        return None
    major, minor = run([str(python), "-c", "import sys; print(*sys.version_info[:2])"]).stdout.split()
    return int(major), int(minor)


def take_walk(code: Path, directory: Path, *before: str) -> dict[str, Any]:
    done = run_walk(code, directory, *before)
    assert done.exit_code == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def run_walk(code: Path, directory: Path, *before: str) -> Finished:
    argv = [*before, str(SYSTEM_PYTHON), "-m", "tests.support.sandbox_walk", str(directory)]
    env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(code)}
    return run(argv, Surroundings(env=env, cwd=Path("/"), timeout_s=120))


def made_for(user: pwd.struct_passwd, path: Path) -> Path:
    path.mkdir()
    os.chown(path, user.pw_uid, user.pw_gid)
    return path


def test_a_plain_users_sandbox_is_the_same_as_roots(place: Path, code: Path) -> None:
    (place / "root").mkdir()
    ours = take_walk(code, place / "root")
    with plain_user() as user:
        theirs = take_walk(code, made_for(user, place / "user"), *as_user(user))
    assert ours == theirs
    assert ours["upper"] == [
        "etc drwxr-xr-x 0:0 []",
        "etc/passwd c--------- 0:0 device 0 []",
        "root drwxr-xr-x 0:0 ['overlay.opaque']",
        "root/x -rw-r--r-- 0:0 links 1 []",
        "work drwxr-xr-x 0:0 []",
        "work/a -rwsr-s--- 42:43 links 2 []",
        "work/b -rwsr-s--- 42:43 links 2 []",
        "work/c lrwxrwxrwx 0:0 links 1 []",
        "work/d drwxrwsr-x 65534:0 []",
        "work/e prw-r--r-- 0:0 links 1 []",
    ]
    assert ours["granted"]["entries"] == [
        "b'etc' dir 755 0:0 None",
        "b'etc/passwd' whiteout 0 0:0 None",
        "b'work' dir 755 0:0 None",
        f"b'work/ping' file 6755 7:8 {bytes.fromhex(NET_RAW)!r}",
    ]
    assert (ours["fetch"], ours["deadline"], ours["greedy failed"], ours["left"]) == (["fetched\n", ""], True, True, [])


def test_a_user_without_ranges_is_told_how_to_get_them(place: Path, code: Path) -> None:
    user = pwd.getpwnam("nobody")
    done = run_walk(code, made_for(user, place / "user"), *as_user(user))
    assert done.exit_code == 1
    if find_program("newuidmap") is None:
        pytest.skip("no newuidmap")
    assert done.stderr.decode().endswith(
        "packager.base.errors.WorldError: /etc/subuid: expected at least 65535 subordinate ids for nobody, found 0\n"
        "hint: as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 nobody\n"
    )


IN_A_CHROOT = """
import os, sys
from pathlib import Path
from packager.sandbox import kernel
inside = Path(sys.argv[1])
kernel.unshare(kernel.CLONE_NEWNS)
kernel.make_mounts_private()
kernel.mount("/usr", str(inside / "usr"), None, kernel.MS_BIND | kernel.MS_REC)
kernel.mount("/dev", str(inside / "dev"), None, kernel.MS_BIND | kernel.MS_REC)
kernel.mount("proc", str(inside / "proc"), "proc")
for path in map(Path, sys.argv[2:]):
    (inside / path.relative_to("/")).mkdir(parents=True)
    kernel.mount(str(path), str(inside / path.relative_to("/")), None, kernel.MS_BIND)
os.chroot(inside)
os.chdir("/")
os.execve("/usr/bin/python3", ["python3", "-m", "tests.support.sandbox_walk", "/walk"], dict(os.environ))
"""


LIMITS = """
from packager.sandbox.cgroups import writable_controllers
from packager.sandbox.namespaces import prepare_process
prepare_process()
print(*writable_controllers())
"""


def run_in_a_chroot(inside: Path, code: Path, script: str) -> bytes:
    for name in ("usr", "dev", "proc", "sys", "tmp", "walk", "etc"):
        (inside / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (inside / name).symlink_to(f"usr/{name}")
    shutil.copy("/etc/ld.so.cache", inside / "etc/ld.so.cache")
    env = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(code)}
    argv = [str(SYSTEM_PYTHON), "-c", script, str(inside), str(code)]
    done = run(argv, Surroundings(env=env, cwd=Path("/"), timeout_s=120))
    assert done.exit_code == 0, done.stderr.decode()
    return done.stdout


def test_limits_hold_in_a_chroot_that_has_no_control_groups_mounted(place: Path, code: Path) -> None:
    outside = " ".join(writable_controllers())
    script = IN_A_CHROOT.replace('"-m", "tests.support.sandbox_walk", "/walk"', f'"-c", {LIMITS!r}')
    assert run_in_a_chroot(place / "inside", code, script).decode() == f"{outside}\n"
    assert str(place) not in Path("/proc/self/mounts").read_text()


def test_a_chroot_is_as_good_as_a_machine(place: Path, code: Path) -> None:
    (place / "root").mkdir()
    ours = take_walk(code, place / "root")
    inside = place / "inside"
    assert json.loads(run_in_a_chroot(inside, code, IN_A_CHROOT)) == ours
    mounted = Path("/proc/self/mounts").read_text()
    assert str(inside) not in mounted
    assert kernel.effective_capabilities()
