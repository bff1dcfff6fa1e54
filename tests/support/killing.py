"""The real command line on a small task, to be killed or interrupted at any moment; and what must hold afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base.digests import digest_of_file
from packager.sandbox.cgroups import pid_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

REPOSITORY = Path(__file__).parents[2]
TASK = "hello-wide-001"
_SUBREAPER = 36  # man 2 prctl
_DYING_S = 10.0
_ATTEMPTS = 4


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str
    pid: int
    seconds: float

    def value(self) -> Any:
        """Return the JSON result of a command that must have succeeded."""
        assert self.exit_code == 0, self.stderr
        return json.loads(self.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Place:
    """A store with the folders around it, and commands that run on them."""

    store: Path
    keys: Path
    root: Path = REPOSITORY
    inputs: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    task: str = TASK

    def build(self) -> Ran:
        """Build the task to the end."""
        return self.run("build", "--task", self.task)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the command line in a process group of its own."""
        argv = [sys.executable, "-m", "packager", "--json", "--quiet", "--root", str(self.root)]
        argv += ["--inputs", str(self.inputs)] if self.inputs is not None else []
        env = {**os.environ, "WIDESWE_STORE": str(self.store), "WIDESWE_KEYS": str(self.keys), "WIDESWE_PASSWORD": ""}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*argv, *words], cwd=REPOSITORY, env=env | self.env, stdout=pipe, stderr=pipe, text=True, process_group=0
        )

    def run(self, *words: str) -> Ran:
        """Run the command line to its end."""
        started = time.monotonic()
        return ended(self.start(*words), started)

    def killed(self, after_s: float, *words: str) -> Ran:
        """Kill the command's process group after some seconds; it ends with -9, or as it does if that comes first."""
        started = time.monotonic()
        child = self.start(*words)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(after_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        return ended(child, started)


class Pace:
    """How long a command takes; a machine with less to do makes it shorter."""

    def __init__(self, usual: Ran) -> None:
        self.usual = usual
        self.cut_off = 0

    def kill(self, part: float, begin: Callable[[], Place], words: Callable[[], Sequence[str]]) -> tuple[Place, Ran]:
        """Kill a command at a part of its duration; one that is faster is begun again, with its own as the measure."""
        for _ in range(_ATTEMPTS):
            place = begin()
            killed = place.killed(part * self.usual.seconds, *words())
            if killed.exit_code == -signal.SIGKILL:
                self.cut_off += 1
                break
            assert killed.exit_code == 0, killed.stderr
            self.usual = killed
        return place, killed


@dataclass(frozen=True)
class Built:
    """A store in which everything was done once without being disturbed, and how long that took."""

    place: Place
    manifest: str
    run: Ran

    def empty(self, folder: Path) -> Place:
        """Return a place with an empty store."""
        return replace(self.place, store=folder)

    def copied(self, folder: Path) -> Place:
        """Return a place whose store has the same content."""
        copy_store(self.place.store, folder)
        return replace(self.place, store=folder)


def ended(child: subprocess.Popen[str], started: float = 0.0) -> Ran:
    stdout, stderr = child.communicate()
    return Ran(child.returncode, stdout, stderr, child.pid, time.monotonic() - started)


def moments(verb: str, count: int, *, seed: int) -> Iterator[float]:
    """Yield random moments as parts of a command's usual duration, one in each of `count` equal stretches of it.

    Each is said, so that a failure can be repeated.
    """
    dice = random.Random(f"{seed} {verb}")
    for number in range(count):
        part = (number + dice.random()) / count
        say(f"{verb}: moment {number + 1} of {count}, at {part:.4f} of its duration (WIDESWE_KILL_SEED={seed})")
        yield part


def say(text: str) -> None:
    """Write a line that pytest shows when the test fails."""
    sys.stdout.write(f"{text}\n")


def broken_blobs(store: Path) -> list[str]:
    """Return the names of visible blobs that do not hash to their names."""
    folder = store / "blobs" / "sha256"
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path.name for path in paths if digest_of_file(path) != f"sha256:{path.name}"]


@contextlib.contextmanager
def adopted_orphans() -> Iterator[None]:
    """Make this process the parent of whatever its children leave behind, so that nothing escapes `survivors`."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_SUBREAPER, 0, 0, 0, 0)


def survivors(known: Sequence[int] = ()) -> list[str]:
    """Return what still runs of a killed command after the kernel had time to end it, but for `known` children.

    As long as somebody died, his children may only now have become ours.
    """
    until = time.monotonic() + _DYING_S
    while found := [pid for pid in children() if pid not in known]:
        left = [pid for pid in found if not _reaped(pid)]
        if left and time.monotonic() > until:
            return [f"{pid} {Path(f'/proc/{pid}/cmdline').read_text()}" for pid in left]
        time.sleep(0.02 if left else 0)
    return []


def children(of: int = 0) -> list[int]:
    """Return the processes whose parent is this one, or another that is named.

    Where the tests are process 1 of a container, orphans of anything that ran before are among them: compare with before.
    """
    found, parent = [], of or os.getpid()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == parent:
            found.append(int(path.parent.name))
    return found


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def mounts_below(folder: Path) -> list[str]:
    """Return what is mounted below a folder."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {folder}/" in line]


def groups_of(pid: int) -> list[Path]:
    """Return the control groups that a process made and that are still there."""
    pattern = f"wideswe-{pid}-*-{pid_namespace()}-*"
    return [path for path in Path("/sys/fs/cgroup").rglob(pattern) if path.is_dir()]


def copy_store(source: Path, target: Path) -> None:
    """Make a store with the same content; blobs and trees never change, so links will do (locks would hold in both)."""
    subprocess.run(["cp", "-al", str(source), str(target)], check=True)
    shutil.rmtree(target / "locks", ignore_errors=True)  # a copy that nobody used has none
    shutil.rmtree(target / "git")
    shutil.copytree(source / "git", target / "git", symlinks=True)


def forget_small_layers(store: Path, below_bytes: int, *, but: Path | None = None) -> int:
    """Drop the image, small layers and all that was derived to get them; return how many results were dropped."""
    shutil.rmtree(store / "names")
    count = 0
    for path in sorted((store / "results").iterdir()):
        layer = json.loads(path.read_bytes()) or {}
        if layer.get("size", 0) >= below_bytes or path == but:
            continue
        path.unlink()
        count += 1
        if "diff_id" in layer:
            (store / "blobs/sha256" / layer["digest"].removeprefix("sha256:")).unlink(missing_ok=True)
            shutil.rmtree(store / "trees" / layer["diff_id"].removeprefix("sha256:"), ignore_errors=True)
    return count
