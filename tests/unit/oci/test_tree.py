from __future__ import annotations

import os
import socket
import stat
import struct
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.oci.dropped import NOTHING_DROPPED
from packager.oci.entries import Entry, Kind, entry_sort_key
from packager.oci.tree import diff_trees, scan_tree, scan_unpacked

if TYPE_CHECKING:
    from pathlib import Path

CAPABILITY = struct.pack("<5I", 0x02000001, 0x2000, 0, 0, 0)

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may set owners and make devices")


@pytest.fixture
def lower(tmp_path: Path) -> Path:
    return grow(tmp_path / "lower", {"a/keep": b"1", "a/gone": b"2", "a/same": b"3", "b/c/deep": b"4", "l": "a/keep"})


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    return grow(tmp_path / "merged", {"a/keep": b"1", "a/gone": b"2", "a/same": b"3", "b/c/deep": b"4", "l": "a/keep"})


def grow(root: Path, files: dict[str, bytes | str]) -> Path:
    """Make a tree: bytes are files, texts are symbolic links."""
    root.mkdir()
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.symlink_to(content)
    return root


def said(entries: list[Entry]) -> list[str]:
    return [f"{entry.kind.value} {os.fsdecode(entry.path)}" for entry in entries]


def test_equal_trees_have_no_difference_whatever_their_times(lower: Path, merged: Path) -> None:
    os.utime(merged / "a/keep", (1, 1))
    assert diff_trees(lower, merged) == []


def test_a_first_layer_holds_everything_in_component_order(merged: Path) -> None:
    (merged / "a-b").write_bytes(b"")
    entries = diff_trees(None, merged)
    assert said(entries) == [
        "dir a",
        "file a/gone",
        "file a/keep",
        "file a/same",
        "file a-b",
        "dir b",
        "dir b/c",
        "file b/c/deep",
        "symlink l",
    ]
    assert entries == sorted(entries, key=lambda entry: entry_sort_key(entry.path))


def test_changes_come_with_all_their_ancestors_and_the_ancestors_own_metadata(lower: Path, merged: Path) -> None:
    for tree in (lower, merged):
        (tree / "b").chmod(0o1777)
        (tree / "b/c").chmod(0o2750)
    (merged / "b/c/deep").write_bytes(b"5")
    entries = diff_trees(lower, merged)
    assert said(entries) == ["dir b", "dir b/c", "file b/c/deep"]
    assert [entry.mode for entry in entries] == [0o1777, 0o2750, 0o644]


def test_a_deletion_is_one_whiteout_for_the_whole_directory(lower: Path, merged: Path) -> None:
    (merged / "b/c/deep").unlink()
    (merged / "b/c").rmdir()
    (merged / "a/gone").unlink()
    assert said(diff_trees(lower, merged)) == ["dir a", "whiteout a/gone", "dir b", "whiteout b/c"]


@pytest.mark.parametrize("kind", ["file", "link", "dir"])
def test_a_type_change_is_an_entry_without_a_whiteout(lower: Path, merged: Path, kind: str) -> None:
    (merged / "b/c/deep").unlink()
    (merged / "b/c").rmdir()
    (merged / "l").unlink()
    if kind == "file":
        (merged / "b/c").write_bytes(b"now a file")
        (merged / "l").write_bytes(b"now a file")
        assert said(diff_trees(lower, merged)) == ["dir b", "file b/c", "file l"]
    elif kind == "link":
        (merged / "b/c").symlink_to("x")
        (merged / "l").symlink_to("other")
        assert said(diff_trees(lower, merged)) == ["dir b", "symlink b/c", "symlink l"]
    else:
        (merged / "l/in").mkdir(parents=True)
        (merged / "l/in/x").write_bytes(b"")
        expected = ["dir b", "whiteout b/c", "dir l", "dir l/in", "file l/in/x"]
        assert said(diff_trees(lower, merged)) == expected


def test_a_directory_that_is_deleted_and_made_again_hides_nothing_but_what_is_gone(lower: Path, merged: Path) -> None:
    for name in ("gone", "keep", "same"):
        (merged / "a" / name).unlink()
    (merged / "a").rmdir()
    (merged / "a").mkdir()
    (merged / "a/same").write_bytes(b"3")
    (merged / "a/new").write_bytes(b"9")
    assert said(diff_trees(lower, merged)) == ["dir a", "whiteout a/gone", "whiteout a/keep", "file a/new"]


@pytest.mark.parametrize(("change", "mode"), [("mode", 0o755), ("setuid", 0o4644)], ids=["mode", "setuid"])
def test_a_change_of_mode_alone_counts(lower: Path, merged: Path, change: str, mode: int) -> None:
    (merged / "a/keep").chmod(mode)
    assert said(diff_trees(lower, merged)) == ["dir a", "file a/keep"], change


@root_only
def test_a_change_of_owner_or_capability_alone_counts(lower: Path, merged: Path) -> None:
    os.chown(merged / "a/keep", 5, 0)
    os.chown(merged / "l", 0, 6, follow_symlinks=False)
    os.setxattr(merged / "a/same", "security.capability", CAPABILITY)
    entries = diff_trees(lower, merged)
    assert said(entries) == ["dir a", "file a/keep", "file a/same", "symlink l"]
    assert [entry.capability for entry in entries] == [None, None, CAPABILITY, None]


def test_same_size_other_bytes_counts(lower: Path, merged: Path) -> None:
    (merged / "a/keep").write_bytes(b"9")
    assert said(diff_trees(lower, merged)) == ["dir a", "file a/keep"]


def test_hard_links_group_only_what_the_layer_holds(lower: Path, merged: Path) -> None:
    os.link(merged / "a/keep", merged / "z")
    assert said(diff_trees(lower, merged)) == ["file z"]
    os.link(merged / "z", merged / "y")
    entries = diff_trees(lower, merged)
    assert said(entries) == ["file y", "hardlink z"]
    assert entries[1].link == b"y"


def test_a_hard_link_of_the_lower_layer_that_broke_is_one_file(tmp_path: Path) -> None:
    lower = grow(tmp_path / "lower", {"one": b"1"})
    os.link(lower / "one", lower / "two")
    merged = grow(tmp_path / "merged", {"one": b"1", "two": b"12"})
    assert said(diff_trees(lower, merged)) == ["file two"]


def test_machine_state_is_dropped_on_both_sides(lower: Path, merged: Path) -> None:
    for tree in (lower, merged):
        for folder in ("etc", "var/log/apt", "tmp", "var/cache/apt", "var/lib/dpkg"):
            (tree / folder).mkdir(parents=True)
    (lower / "etc/hosts").write_text("before")
    (lower / "var/log/apt/old").write_text("before")
    for name in (
        "etc/resolv.conf",
        "etc/shadow-",
        "var/log/dpkg.log",
        "tmp/x",
        "var/lib/dpkg/status-old",
        ".dockerenv",
    ):
        (merged / name).write_text("after")
    (merged / "var/log/apt").rmdir()
    assert diff_trees(lower, merged) == []
    assert b"tmp/x" in {entry.path for entry in scan_tree(merged, NOTHING_DROPPED)}
    assert b"tmp" in {entry.path for entry in scan_tree(merged)}


def test_sockets_are_left_out(lower: Path, merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(merged)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("door")
        assert diff_trees(lower, merged) == []


def test_a_pipe_is_refused_by_name(lower: Path, merged: Path) -> None:
    os.mkfifo(merged / "a/pipe")
    with pytest.raises(InputError) as caught:
        diff_trees(lower, merged)
    assert str(caught.value) == (
        "a/pipe: expected files, directories and links, found a named pipe\n"
        "hint: remove it in the step that makes it; devices and pipes have no place in a task's image"
    )


@root_only
def test_a_device_is_refused_by_name(lower: Path, merged: Path) -> None:
    os.mknod(merged / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with pytest.raises(InputError, match=r"^null: expected files, directories and links, found a character device"):
        diff_trees(lower, merged)


@pytest.mark.parametrize("name", [".wh.x", ".wh.", ".wh..wh..opq"])
def test_a_name_that_means_a_deletion_is_refused(lower: Path, merged: Path, name: str) -> None:
    (merged / "a" / name).write_bytes(b"")
    with pytest.raises(InputError) as caught:
        diff_trees(lower, merged)
    assert str(caught.value) == (
        f"a/{name}: a name that starts with .wh. means a deletion in a layer and cannot be stored\n"
        "hint: remove the file in the step that makes it, or give it another name"
    )


def test_names_that_are_not_text_survive(lower: Path, merged: Path) -> None:
    (merged / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    (entry,) = diff_trees(lower, merged)
    assert (entry.path, entry.kind) == (b"caf\xe9", Kind.FILE)


@root_only
def test_an_unpacked_layer_is_read_with_its_deletions(tmp_path: Path, lower: Path) -> None:
    upper = grow(tmp_path / "upper", {"a/new": b"", "b/c/kept": b"", "other/x": b""})
    os.mknod(upper / "a/gone", stat.S_IFCHR, 0)
    for name in ("b", "other"):
        os.setxattr(upper / name, "user.overlay.opaque", b"y")
    below = grow(tmp_path / "below", {"b/too": b"", "other": "a"})
    assert said(scan_unpacked(upper, [below, lower])) == [
        *("dir a", "whiteout a/gone", "file a/new", "dir b", "whiteout b/too", "dir b/c", "file b/c/kept"),
        *("dir other", "file other/x"),
    ]
