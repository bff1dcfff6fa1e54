from __future__ import annotations

from typing import TYPE_CHECKING

from packager.sandbox.probe import file_system_of, probe_machine

if TYPE_CHECKING:
    from pathlib import Path

MOUNTS = """\
20 1 254:0 / / rw - ext4 /dev/vda rw
21 20 0:5 / {place} rw - tmpfs tmpfs rw
22 20 0:6 / {place}\\040x rw,shared:1 - overlay overlay rw
"""


def test_the_file_system_is_that_of_the_nearest_mount(tmp_path: Path) -> None:
    mounts = MOUNTS.format(place=tmp_path)
    (tmp_path / "a").mkdir()
    assert file_system_of(tmp_path / "a", mounts) == "tmpfs"
    assert file_system_of(tmp_path, mounts) == "tmpfs"
    assert file_system_of(tmp_path.parent, mounts) == "ext4"
    assert file_system_of(tmp_path.with_name(f"{tmp_path.name} x") / "b", mounts) == "overlay"


def test_every_capability_that_is_lacking_says_what_to_do(tmp_path: Path) -> None:
    found = probe_machine(tmp_path)
    assert {one.name.split()[0] for one in found} == {
        "kernel",
        "mounts",
        "overlayfs",
        "limits",
        "engine",
        "commands",
        "scratch",
        "disk",
    }
    assert all(one.detail and (one.ok or one.hint) for one in found)
