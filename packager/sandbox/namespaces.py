"""Gives this process mounts of its own: as root a mount namespace, as a plain user a user namespace around it."""

from __future__ import annotations

import errno
import os
import pwd
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import PackError, WorldError
from packager.base.processes import find_program, run_ok
from packager.sandbox import kernel
from packager.sandbox.cgroup_mounts import mount_missing_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ALL_IDS = 1 << 32
_NEEDED_IDS = 65_535
"""Ids 1 to 65535 inside: nobody (65534) and Debian's system users must exist."""

_state = {"prepared": False}


def is_prepared() -> bool:
    """Say whether what this process mounts is its own."""
    return bool(_state["prepared"])


def prepare_process() -> None:
    """Move this process into a mount namespace of its own; what it mounts ends with it, however it ends.

    A plain user becomes root of a new user namespace that holds his whole range of subordinate ids. To be called
    before the process starts a thread (the kernel and other threads' ids demand it); a second call does nothing.
    """
    if _state["prepared"]:
        return
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise WorldError(
            f"expected a process with one thread, found {threads}",
            where="prepare_process",
            hint="call packager.sandbox.namespaces.prepare_process() first thing, before threads start",
        )
    if not may_mount():
        _enter_user_namespace()
    try:
        kernel.unshare(kernel.CLONE_NEWNS)
        _cut_off()
    except OSError as error:
        raise WorldError(
            f"no mount namespace: {error.strerror}",
            where="native engine",
            hint="inside a container, run it with --privileged or with --cap-add SYS_ADMIN and no seccomp profile; "
            "on Ubuntu 24.04 see kernel.apparmor_restrict_unprivileged_userns",
        ) from error
    mount_missing_groups()
    _state["prepared"] = True


def enter_identity_namespace(count: int = _NEEDED_IDS + 1) -> None:
    """Become root of a new user namespace that has the first `count` ids as they are; only root of the machine may.

    What is done there is done as by a rootless user, on files that stay the same owners'.
    """
    _enter_mapped(lambda pid: _map_identically(pid, f"0 0 {count}"))


def _map_identically(pid: int, row: str) -> None:
    try:
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{name}").write_text(row)
    except OSError as error:
        raise WorldError(f"no identity map: {error.strerror}") from error


def reach_own_ids() -> None:
    """Let a plain user delete what his subordinate ids own: trees that he unpacked; where he has none, do nothing."""
    if os.geteuid() != 0:
        with suppress(WorldError):
            prepare_process()


def _cut_off() -> None:
    try:
        kernel.make_mounts_private()
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _make_chroot_a_root()


def _make_chroot_a_root() -> None:
    """Turn a chroot, whose root is no mount point, into the root of this process's own mount namespace.

    Only then can nothing that is mounted show outside, and only a true root can be exchanged for a sandbox's.
    """
    working = os.getcwd()  # noqa: PTH109 - a text is wanted
    here = os.open("/", os.O_PATH | os.O_DIRECTORY)
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    try:
        kernel.enter_namespace(own, kernel.CLONE_NEWNS)
        kernel.make_mounts_private()
        place = os.readlink(f"/proc/self/fd/{here}")  # noqa: PTH115 - where the chroot is, seen from the true root
        kernel.mount(place, place, None, kernel.MS_BIND | kernel.MS_REC)
        os.chdir(place)
        kernel.pivot_root(".", ".")
        kernel.unmount(".")
        os.chdir(working)
    except OSError:
        os.fchdir(here)
        os.chroot(".")
        os.chdir(working)
        raise
    finally:
        os.close(own)
        os.close(here)


def may_mount() -> bool:
    """Say whether this process holds CAP_SYS_ADMIN where it stands."""
    return os.geteuid() == 0 and bool(kernel.effective_capabilities() >> kernel.CAP_SYS_ADMIN & 1)


def in_first_user_namespace() -> bool:
    """Say whether ids are the machine's own; elsewhere overlayfs keeps its marks in user.* attributes."""
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", str(_ALL_IDS - 1)]


def parse_ranges(text: str, *, name: str, number: int) -> list[tuple[int, int]]:
    """Return the (first, count) ranges that a /etc/subuid gives to a user, by name or number; man 5 subuid."""
    found: list[tuple[int, int]] = []
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) == 3 and fields[0] in (name, str(number)) and fields[1].isdecimal() and fields[2].isdecimal():  # noqa: PLR2004
            found.append((int(fields[1]), int(fields[2])))
    return found


def map_arguments(own: int, ranges: Sequence[tuple[int, int]]) -> list[str]:
    """Return the arguments of newuidmap: oneself as 0, then every range after the other."""
    arguments = ["0", str(own), "1"]
    inside = 1
    for first, count in ranges:
        arguments += [str(inside), str(first), str(count)]
        inside += count
    return arguments


def subordinate_ranges(kind: str) -> list[tuple[int, int]]:
    """Return this user's ranges from /etc/subuid or /etc/subgid (`kind`), or say how to get them."""
    user = os.getuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = str(user)
    table = Path("/etc") / kind
    text = table.read_text() if table.exists() else ""
    found = parse_ranges(text, name=name, number=user)
    total = sum(count for _, count in found)
    if total < _NEEDED_IDS:
        raise WorldError(
            f"expected at least {_NEEDED_IDS} subordinate ids for {name}, found {total}",
            where=str(table),
            hint=f"as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {name}",
        )
    return found


def _enter_user_namespace() -> None:
    commands = []
    for program, kind, own in (("newuidmap", "subuid", os.getuid()), ("newgidmap", "subgid", os.getgid())):
        path = find_program(program)
        if path is None:
            raise WorldError(
                f"program not found: {program}", where="native engine as a plain user", hint="install uidmap"
            )
        commands.append([path, str(os.getpid()), *map_arguments(own, subordinate_ranges(kind))])
    _enter_mapped(lambda _: [run_ok(command) for command in commands])


def _enter_mapped(write_maps: Callable[[int], object]) -> None:
    """Move into a new user namespace and become its root; a child that stays outside maps the ids of this process."""
    ready, go = os.pipe()
    heard, say = os.pipe()
    this = os.getpid()
    helper = os.fork()
    if helper == 0:
        os.close(go)
        os._exit(_write_maps(ready, say, lambda: write_maps(this)))
    os.close(ready)
    os.close(say)
    try:
        kernel.unshare(kernel.CLONE_NEWUSER)
    except OSError as error:
        os.close(go)
        os.waitpid(helper, 0)
        raise WorldError(
            f"no user namespace: {error.strerror}",
            where="native engine as a plain user",
            hint="run as root, or allow it: sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone",
        ) from error
    os.write(go, b"1")
    os.close(go)
    with os.fdopen(heard, "rb") as stream:
        complaint = stream.read().decode(errors="replace")
    os.waitpid(helper, 0)
    if complaint:
        raise WorldError(
            f"ids not mapped: {complaint}",
            where="native engine as a plain user",
            hint="newuidmap and newgidmap must be setuid root",
        )
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _write_maps(ready: int, say: int, write_maps: Callable[[], object]) -> int:
    """Run in a child that stays outside, once the parent is inside: only from there may ids be mapped."""
    if not os.read(ready, 1):
        return 1
    try:
        write_maps()
    except PackError as error:
        with suppress(OSError):
            os.write(say, error.reason.encode())
        return 1
    return 0
