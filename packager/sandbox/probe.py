"""What this machine can do for sandboxes, and what to do about the rest; nothing of it is changed to find out."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import PackError
from packager.base.files import free_bytes
from packager.base.processes import find_program
from packager.sandbox import cgroups, foreign
from packager.sandbox.engines import NAMES, docker_host, find_lack
from packager.sandbox.namespaces import may_mount, prepare_process, subordinate_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

_KERNEL = (5, 12)
_LOW_DISK_BYTES = 10 << 30
_USABLE = {"overlay": "overlay cannot hold the upper layer of another overlay"}


@dataclass(frozen=True)
class Capability:
    """One thing that a machine may be able to do: whether it can, what was seen, and how to get it."""

    name: str
    ok: bool
    detail: str
    hint: str = ""
    required: bool = True


def probe_machine(scratch: Path | None = None) -> list[Capability]:
    """Look at everything that the native engine needs or uses; `scratch` is where trees would be kept."""
    place = scratch or Path.cwd()
    looks: tuple[Callable[[], Capability], ...] = (_kernel, _mounts, _overlay, _control_groups, _foreign)
    return [*(look() for look in looks), *_engines(place), _file_system(place), _disk(place)]


def _kernel() -> Capability:
    release = platform.release()
    match = re.match(r"(\d+)\.(\d+)", release)
    new_enough = match is not None and (int(match[1]), int(match[2])) >= _KERNEL
    wanted = ".".join(map(str, _KERNEL))
    return Capability(
        "kernel", new_enough, f"Linux {release}", "" if new_enough else f"Linux {wanted} or newer is needed"
    )


def _mounts() -> Capability:
    if may_mount():
        return Capability("mounts", ok=True, detail="root with CAP_SYS_ADMIN: a private mount namespace")
    name = "mounts as a plain user"
    if os.geteuid() == 0:
        hint = "run the container with --privileged, or with --cap-add SYS_ADMIN and no seccomp profile"
        return Capability(name, ok=False, detail="root without CAP_SYS_ADMIN", hint=hint)
    for path, bad in _SWITCHES:
        value = path.read_text().strip() if path.exists() else None
        if value == bad:
            hint = f"as root: sysctl -w {str(path.relative_to('/proc/sys')).replace('/', '.')}={_GOOD[bad]}"
            return Capability(name, ok=False, detail=f"{path} is {value}", hint=hint)
    missing = [program for program in ("newuidmap", "newgidmap") if find_program(program) is None]
    if missing:
        return Capability(name, ok=False, detail=f"no {missing[0]}", hint="install the package uidmap")
    try:
        counts = [sum(count for _, count in subordinate_ranges(kind)) for kind in ("subuid", "subgid")]
    except PackError as error:
        return Capability(name, ok=False, detail=error.reason, hint=error.hint or "")
    return Capability(name, ok=True, detail=f"user namespaces with {min(counts)} subordinate ids")


_SWITCHES = (
    (Path("/proc/sys/user/max_user_namespaces"), "0"),
    (Path("/proc/sys/kernel/unprivileged_userns_clone"), "0"),
    (Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"), "1"),
)
_GOOD = {"0": "1", "1": "0"}


def _overlay() -> Capability:
    try:
        known = "overlay" in Path("/proc/filesystems").read_text().split()
    except OSError:
        known = False
    module = Path("/lib/modules", platform.release(), "kernel/fs/overlayfs")
    if known or module.is_dir():
        return Capability("overlayfs", ok=True, detail="built in" if known else "a module that the first mount loads")
    return Capability("overlayfs", ok=False, detail="unknown to this kernel", hint="as root: modprobe overlay")


def _control_groups() -> Capability:
    if may_mount():
        with suppress(PackError):
            prepare_process()  # which mounts what is missing, as every command of the engine does
    writable = cgroups.writable_controllers()
    if len(writable) == len(cgroups.CONTROLLERS):
        return Capability("limits", ok=True, detail="memory, processes and processors by control groups")
    lacking = ", ".join(name for name in cgroups.CONTROLLERS if name not in writable)
    hint = "memory is limited per process instead; for exact limits, run as root with /sys/fs/cgroup mounted"
    detail = f"no writable control group for {lacking}"
    return Capability("limits", ok=False, detail=detail, hint=hint, required=False)


def _engines(place: Path) -> list[Capability]:
    """Look at the other engines: none is needed, each gives the same images."""
    found = []
    for name in NAMES[1:]:
        lack = find_lack(name, place)
        detail = docker_host() if name == "docker" else find_program(name) or ""
        detail, hint = (detail, "") if lack is None else (lack.reason, f"not needed; {lack.hint}")
        found.append(Capability(f"engine {name}", ok=lack is None, detail=detail, hint=hint, required=False))
    return found


def _foreign() -> Capability:
    other = next(name for name in foreign.PLATFORMS.values() if name != foreign.own_platform())
    why = foreign.why_not(other)
    hint = "install qemu-user-static and binfmt-support (Debian); needed for tasks of that platform alone"
    return Capability(f"commands of {other}", not why, why or "through qemu-user", why and hint, required=False)


def _file_system(place: Path) -> Capability:
    kind = file_system_of(place, Path("/proc/self/mountinfo").read_text())
    problem = _USABLE.get(kind, "")
    hint = "choose a scratch directory on ext4, xfs, btrfs or tmpfs" if problem else ""
    return Capability("scratch", not problem, f"{place} is on {kind}" + (f": {problem}" if problem else ""), hint)


def file_system_of(place: Path, mountinfo: str) -> str:
    """Return the type of the file system that holds a path, from the text of /proc/self/mountinfo."""
    path, best = str(place.resolve()), ("", "unknown")
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mounted = before.split()[4].encode().decode("unicode_escape")
        inside = path == mounted or path.startswith(mounted.rstrip("/") + "/")
        if inside and len(mounted) >= len(best[0]):
            best = (mounted, after.split()[0])
    return best[1]


def _disk(place: Path) -> Capability:
    free = free_bytes(place)
    enough = free >= _LOW_DISK_BYTES
    hint = "" if enough else "an image and its trees take a few gigabytes each"
    return Capability("disk", enough, f"{free >> 20} MiB free for {place}", hint)
