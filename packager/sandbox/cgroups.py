"""Control groups, version 1, 2 or a mixture: a group for each command, swept when its owner died."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.sandbox.engine import Limits

_NAME = re.compile(r"wideswe-(\d+)-(\d+)-(\d+)-\d+")
_FORGOTTEN_S = 3600
_COUNTER = itertools.count()
_PERIOD_US = 100_000
_REMOVE_S = 2.0
CONTROLLERS = ("memory", "pids", "cpu")


@dataclass(frozen=True)
class Group:
    """The directories made for one command, by controller; a controller that is missing here limits nothing."""

    directories: Mapping[str, Path] = field(default_factory=dict)

    @property
    def members(self) -> list[str]:
        """The files to which a process writes its number to come under the limits."""
        return sorted({str(directory / "cgroup.procs") for directory in self.directories.values()})

    def ran_out_of_memory(self) -> bool:
        """Say whether the kernel killed a process of this group for want of memory."""
        memory = self.directories.get("memory")
        if memory is None:
            return False
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                words = (memory / name).read_text().split()
                counts = dict(zip(words[::2], words[1::2], strict=False))
                return int(counts.get("oom_kill", "0")) > 0
        return False


def find_parents(mountinfo: str, membership: str) -> dict[str, list[Path]]:
    """Return where groups may be made, best first, from the texts of /proc/self/mountinfo and /proc/self/cgroup.

    Version 1: below the group that this process is in. Version 2: below the root first, since a group with processes
    in it cannot hand controllers on, then below the own group's parents.
    """
    own = {name: path for line in membership.splitlines() for name, path in _memberships(line)}
    found: dict[str, list[Path]] = {}
    for line in mountinfo.splitlines():
        fields = line.split(" - ")
        if len(fields) != 2:  # noqa: PLR2004 - man 5 proc: a separator in each line
            continue
        root, mounted = fields[0].split()[3:5]
        kind, _, options = fields[1].split()[:3]
        if kind == "cgroup":
            for controller in set(options.split(",")) & set(CONTROLLERS):
                relative = os.path.relpath(own.get(controller, "/"), root)
                inside = "." if relative.startswith("..") else relative
                found.setdefault(controller, []).insert(0, Path(mounted, inside))
        elif kind == "cgroup2":
            nearer = [Path(mounted, parent.lstrip("/")) for parent in _ancestors(own.get("", "/"))]
            for controller in CONTROLLERS:
                found.setdefault(controller, []).extend(nearer)
    return found


def _memberships(line: str) -> list[tuple[str, str]]:
    _, controllers, path = line.split(":", 2)
    return [(name, path) for name in controllers.split(",")]


def _ancestors(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return ["/".join(parts[:count]) for count in range(len(parts) + 1)]


def machine_parents() -> dict[str, list[Path]]:
    """Return find_parents for this process; empty where /proc does not say."""
    try:
        return find_parents(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return {}


def writable_controllers() -> list[str]:
    """Return the controllers that this process can limit commands with."""
    parents = machine_parents()
    return [name for name in CONTROLLERS if any(os.access(place, os.W_OK) for place in parents.get(name, ()))]


def fresh_name() -> str:
    """Return a name for a group that says whose it is, so that it can be swept when its owner was killed."""
    return f"wideswe-{os.getpid()}-{start_time(os.getpid())}-{pid_namespace()}-{next(_COUNTER)}"


@contextlib.contextmanager
def group(limits: Limits, parents: Mapping[str, list[Path]], *, name: str) -> Iterator[Group]:
    """Make a group that holds `limits` as far as this machine lets us, and remove it afterwards."""
    wanted = {"memory": limits.memory_bytes, "pids": limits.pids, "cpu": limits.cpus}
    made: dict[str, Path] = {}
    try:
        for controller, amount in wanted.items():
            places = [place / name for place in parents.get(controller, ())] if amount else []
            places = [place for place in places if _fits(place, made)]
            place = next((place for place in places if _try_limit(place, controller, amount)), None)
            if place is not None:
                made[controller] = place
        yield Group(made)
    finally:
        for place in set(made.values()):
            _remove(place)


def _fits(place: Path, made: Mapping[str, Path]) -> bool:
    """Say whether a process can be in `place` and in the others: version 2 allows one group for all controllers."""
    return not _is_version_2(place.parent) or all(place == other or not _is_version_2(other) for other in made.values())


def _is_version_2(place: Path) -> bool:
    return (place / "cgroup.controllers").exists()


def _try_limit(place: Path, controller: str, amount: int) -> bool:
    fresh = not place.exists()
    try:
        place.mkdir(exist_ok=True)
        _set_limit(place, controller, amount)
    except OSError:
        if fresh:
            _remove(place)
        return False
    return True


def _set_limit(place: Path, controller: str, amount: int) -> None:
    if controller == "pids":
        _write(place / "pids.max", amount + 1)  # the sandbox's first process is ours
    elif controller == "memory" and (place / "memory.max").exists():
        _write(place / "memory.max", amount)
        with contextlib.suppress(OSError):
            _write(place / "memory.swap.max", 0)
            _write(place / "memory.oom.group", 1)
    elif controller == "memory":
        _write(place / "memory.limit_in_bytes", amount)
        with contextlib.suppress(OSError):
            _write(place / "memory.memsw.limit_in_bytes", amount)
    elif (place / "cpu.max").exists():
        _write(place / "cpu.max", f"{amount * _PERIOD_US} {_PERIOD_US}")
    else:
        _write(place / "cpu.cfs_period_us", _PERIOD_US)
        _write(place / "cpu.cfs_quota_us", amount * _PERIOD_US)


def _write(path: Path, value: int | str) -> None:
    """Write to a file that must be there already: a missing one means that the controller is not at hand."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, str(value).encode())
    finally:
        os.close(handle)


def _remove(place: Path) -> None:
    """Remove an emptied group; the kernel may need a moment to forget its last process."""
    until = time.monotonic() + _REMOVE_S
    while time.monotonic() < until:
        try:
            place.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.005)
        else:
            return


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])


def pid_namespace() -> int:
    """Return the number of this process's PID namespace: what a process id means depends on it."""
    return Path("/proc/self/ns/pid").stat().st_ino


def sweep(parents: Mapping[str, list[Path]]) -> list[Path]:
    """Remove the groups whose owner was killed before it could; return what was removed."""
    swept: list[Path] = []
    space = pid_namespace()
    for place in sorted({place for places in parents.values() for place in places}):
        try:
            inside = sorted(place.iterdir())
        except OSError:
            continue
        found = [(path, _NAME.fullmatch(path.name)) for path in inside]
        dead = [path for path, match in found if match and _is_dead(path, *map(int, match.groups()), here=space)]
        swept.extend(path for path in dead if _swept(path))
    return swept


def _is_dead(path: Path, pid: int, started: int, space: int, *, here: int) -> bool:
    """Say whether a group's owner is gone; one of another PID namespace counts as alive for an hour."""
    if space == here:
        return start_time(pid) != started
    try:
        return time.time() - path.stat().st_mtime > _FORGOTTEN_S
    except OSError:
        return False


def _swept(path: Path) -> bool:
    try:
        path.rmdir()
    except OSError:
        return False  # still dying; the next start tries again
    return True
