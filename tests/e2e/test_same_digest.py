"""One lock, one digest: root and a plain user, on two machines that share nothing but the locked inputs, no network."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, find_program, run, run_ok
from packager.oci.entries import dir_entry, file_entry
from packager.oci.record import parse_record
from packager.oci.tar_writer import write_tar
from packager.sandbox.namespaces import may_mount
from packager.store.store import Store
from tests.support.layer_difference import describe_tar, first_difference, image_difference
from tests.support.plain_user import (
    ROOT,
    SYSTEM_PYTHON,
    as_user,
    copy_dependencies,
    copy_suite,
    give,
    plain_user,
    reachable_folder,
)

if TYPE_CHECKING:
    import pwd
    from collections.abc import Iterator

    from packager.oci.entries import Entry

TASK = "hello-wide-001"


@dataclass(frozen=True)
class Machine:
    """Everything about a machine and its user that must not show in an image."""

    place: Path
    store: Path
    python: tuple[str, ...]
    path: str
    hostname: str
    umask: str
    locale: str
    zone: str
    hash_seed: str
    cpus: str
    loopback: str
    cwd: Path

    @property
    def suite(self) -> Path:
        """The copy of the suite."""
        return self.place / "suite"

    @property
    def keys(self) -> Path:
        """The copy of the keys."""
        return self.place / "keys"

    def run(self, inputs: Path, *words: str) -> str:
        """Run wideswe-pack here, in a network namespace of its own with nothing in it, and return its output."""
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
        env = {
            **quiet,
            "HOME": str(self.place),
            "LANG": self.locale,
            "LC_ALL": self.locale,
            "TZ": self.zone,
            "PYTHONHASHSEED": self.hash_seed,
            "PYTHONPATH": self.path,
        }
        script = f'hostname {self.hostname}; {self.loopback}; umask {self.umask}; exec "$@"'
        inside = ("taskset", "--cpu-list", self.cpus, *self.python, "-m", "packager", "--json", "--root", self.suite)
        places = ("--store", self.store, "--keys", self.keys, "--inputs", inputs)
        argv = ["unshare", "--net", "--uts", "sh", "-euc", script, "sh", *inside, *places, *words]
        done = run([str(word) for word in argv], Surroundings(env=env, cwd=self.cwd, timeout_s=1200))
        assert done.exit_code == 0, done.stderr.decode()[-3000:]
        return done.stdout.decode()


@pytest.fixture
def place() -> Iterator[Path]:
    with reachable_folder(Path("/var/tmp")) as path:
        yield path


@pytest.fixture
def memory() -> Iterator[Path]:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no file system in memory")
    with reachable_folder(Path("/dev/shm")) as path:
        yield path


def lay_out_inputs(place: Path) -> Path:
    """Fetch every locked input into a folder, and prepare the keys."""
    env = {**os.environ, "WIDESWE_PASSWORD": "", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "packager", "--root", str(ROOT), "--store", str(place / "fetched")]
    words += ["--keys", str(place / "keys")]
    run_ok([*words, "keygen"], Surroundings(env=env))
    run_ok([*words, "fetch", "--task", TASK, "--into", str(place / "inputs")], Surroundings(env=env))
    shutil.rmtree(place / "fetched")
    return place / "inputs"


def roots_machine(place: Path) -> Machine:
    copy_suite(place / "a/suite", mask=0o022)
    shutil.copytree(place / "keys", place / "a/keys")
    return Machine(
        place=place / "a",
        store=place / "a/store",
        python=(sys.executable,),
        path=str(place / "a/suite"),
        hostname="alpha",
        umask="022",
        locale="C",
        zone="Asia/Kathmandu",
        hash_seed="1",
        cpus=",".join(map(str, sorted(os.sched_getaffinity(0)))),
        loopback="ip link set lo up" if find_program("ip") else ":",
        cwd=place / "a/suite",
    )


def users_machine(place: Path, memory: Path, user: pwd.struct_passwd) -> Machine:
    """Give a machine whose recipe has no history left to read: what is locked must be enough."""
    home = memory / "a home"
    copy_suite(home / "suite", mask=0o077)
    for bundle in (home / "suite/recipes").rglob("*.bundle"):
        bundle.write_bytes(b"no bundle any more\n")
    shutil.copytree(place / "keys", home / "keys")
    copy_dependencies(place / "site")
    (memory / "store").mkdir()
    give(user, home, memory / "store")
    *_, last = sorted(os.sched_getaffinity(0))
    return Machine(
        place=home,
        store=memory / "store",
        python=(*as_user(user), str(SYSTEM_PYTHON)),
        path=f"{home / 'suite'}:{place / 'site'}",
        hostname="beta.example.org",
        umask="077",
        locale="de_DE.UTF-8",
        zone="America/St_Johns",
        hash_seed="random",
        cpus=str(last),
        loopback=":",
        cwd=Path("/"),
    )


@pytest.mark.engine
@pytest.mark.network
@pytest.mark.skipif(not may_mount(), reason="needs root to become another user")
def test_root_and_a_plain_user_build_the_same_image_elsewhere(place: Path, memory: Path) -> None:
    inputs = lay_out_inputs(place)
    with plain_user() as user:
        machines = (roots_machine(place), users_machine(place, memory, user))
        with ThreadPoolExecutor(2) as pool:
            built = list(pool.map(lambda machine: machine.run(inputs, "build", "--task", TASK), machines))
        stores = [Store(machine.store) for machine in machines]
        assert image_difference(stores[0], stores[1], TASK) == ""
        assert json.loads(built[0]) == json.loads(built[1])
        assert json.loads(built[0])["validated"] is True
        shown = [_unusual(store) for store in stores]
        assert shown[0] == shown[1]
        assert "file 4755 0:0 b'usr/bin/su'" in shown[0]
        assert "file 2755 0:42 b'usr/bin/chage'" in shown[0]
        assert "dir 1777 0:0 b'tmp'" in shown[0]
        _expect_that_he_can_judge(machines[1], inputs)
        _expect_that_he_can_clean_up(machines[1], inputs)


def _unusual(store: Store) -> list[str]:
    """Return what a plain user could easily get wrong: owners other than root, set-id and sticky bits, capabilities."""
    from packager.evaluate.judge import read_image  # noqa: PLC0415 - here alone

    image = read_image(store, parse_record(store.name("images", TASK) or b""))
    lines = [line for tar in image.tars(store) for line in describe_tar(tar)]
    short = [" ".join(line.split(" ")[:4]) for line in lines if line.startswith(("file ", "dir "))]
    return [line for line in short if line.split()[1][0] != "0" or line.split()[2] != "0:0"]


def _expect_that_he_can_judge(machine: Machine, inputs: Path) -> None:
    """Validation and audit read the answer from the locked inputs too: here no bundle can be read."""
    expected = f"lockfiles/{TASK}.linux-amd64.expected.json"
    (machine.suite / expected).unlink()
    machine.run(inputs, "validate", "--task", TASK)
    assert (machine.suite / expected).read_bytes() == (ROOT / expected).read_bytes()
    assert json.loads(machine.run(inputs, "audit", "--task", TASK))["findings"] == []


def _expect_that_he_can_clean_up(machine: Machine, inputs: Path) -> None:
    assert any((machine.store / "trees").iterdir())
    Store(machine.store).remove_name("images", TASK)
    machine.run(inputs, "gc")
    left = [path for name in ("blobs/sha256", "trees", "tmp") for path in (machine.store / name).iterdir()]
    assert left == []


def tar_of(*entries: Entry) -> io.BytesIO:
    out = io.BytesIO()
    write_tar(entries, out.write)
    out.seek(0)
    return out


def test_a_difference_is_shown_as_the_first_entry_that_differs() -> None:
    same = dir_entry(b"d")
    ours, theirs = (tar_of(same, file_entry(b"d/f", content)) for content in (b"one", b"two"))
    assert first_difference(ours, theirs) == (
        "file 0644 0:0 b'd/f' b'' 3 bytes 7692c3ad3540\nfile 0644 0:0 b'd/f' b'' 3 bytes 3fc4ccfe7458"
    )
    assert first_difference(tar_of(same), tar_of(same, file_entry(b"d/f", b""))) == (
        "the end\nfile 0644 0:0 b'd/f' b'' 0 bytes e3b0c44298fc"
    )
    assert first_difference(tar_of(same), tar_of(same)) is None
