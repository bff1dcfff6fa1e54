"""Control groups where a root has none: in a chroot or a bare container /sys/fs/cgroup is often not mounted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from packager.sandbox import cgroups, kernel

_TOP = Path("/sys/fs/cgroup")
_COLUMNS = 4


def unified_and_single(table: str) -> tuple[bool, list[str]]:
    """Say from the text of /proc/cgroups whether version 2 has any controller of ours, and which version 1 has."""
    rows = [line.split() for line in table.splitlines() if not line.startswith("#")]
    ours = [row for row in rows if len(row) == _COLUMNS and row[0] in cgroups.CONTROLLERS and row[3] == "1"]
    single = [row[0] for row in ours if row[1] != "0"]
    return len(single) < len(cgroups.CONTROLLERS), single


def mount_missing_groups() -> None:
    """Mount control groups in this process's own mount namespace if none are; a machine that refuses goes without.

    To be called in a mount namespace of one's own: the machine outside sees nothing of it.
    """
    if cgroups.machine_parents() or not Path("/sys").is_dir():
        return
    with suppress(OSError):
        unified, single = unified_and_single(Path("/proc/cgroups").read_text())
        if not _TOP.is_dir():
            kernel.mount("sysfs", "/sys", "sysfs")
        kernel.mount("tmpfs", str(_TOP), "tmpfs", data="mode=755")
        for name in single:
            _mount(name, "cgroup", name)
        if unified:
            _mount("unified", "cgroup2", None)


def _mount(name: str, kind: str, data: str | None) -> None:
    place = _TOP / name
    place.mkdir()
    with suppress(OSError):
        kernel.mount(kind, str(place), kind, data=data)
