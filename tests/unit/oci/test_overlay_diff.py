"""The overlay's upper tree gives the same difference as a walk over both trees: made by hand, and by the kernel."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import struct
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.oci.tree import diff_trees

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CAPABILITY = struct.pack("<5I", 0x02000001, 0x2000, 0, 0, 0)
OPTIONS = "redirect_dir=off,metacopy=off,index=off,xino=off"

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may make whiteouts and mount overlays here"),
]


class Mounted:
    """An overlay over `lower`; `merged` is the view, `upper` what was written."""

    def __init__(self, base: Path) -> None:
        self.lower, self.upper, self.merged, self.work = (base / name for name in ("lower", "upper", "merged", "work"))
        for folder in (self.lower, self.upper, self.merged, self.work):
            folder.mkdir()

    def mount(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"lowerdir={self.lower},upperdir={self.upper},workdir={self.work},{OPTIONS}"
        if libc.mount(b"overlay", os.fsencode(self.merged), b"overlay", 0, options.encode()):
            pytest.skip(f"overlayfs cannot be mounted here: {os.strerror(ctypes.get_errno())}")

    def unmount(self) -> None:
        ctypes.CDLL(None).umount2(os.fsencode(self.merged), 2)

    def check(self) -> list[str]:
        """The differences by the upper tree, which must be those of a walk over both trees."""
        found = diff_trees(self.lower, self.merged, upper=self.upper)
        assert found == diff_trees(self.lower, self.merged)
        return [f"{entry.kind.value} {os.fsdecode(entry.path)}" for entry in found]


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Mounted]:
    mounted = Mounted(tmp_path)
    for name in ("a/keep", "a/gone", "a/sub/x", "a/sub/y", "b/one", "b/two"):
        (mounted.lower / name).parent.mkdir(parents=True, exist_ok=True)
        (mounted.lower / name).write_text(name)
    (mounted.lower / "link").symlink_to("a/keep")
    mounted.mount()
    yield mounted
    mounted.unmount()


def test_an_unchanged_copy_up_is_no_difference(overlay: Mounted) -> None:
    with (overlay.merged / "a/keep").open("r+b"):
        pass
    (overlay.merged / "b/one").chmod(0o600)
    (overlay.merged / "b/one").chmod(0o644)
    (overlay.merged / "b/two").touch()
    assert overlay.check() == []


def test_deletions_and_new_files(overlay: Mounted) -> None:
    (overlay.merged / "a/gone").unlink()
    (overlay.merged / "b/new").write_text("n")
    shutil.rmtree(overlay.merged / "a/sub")
    assert overlay.check() == ["dir a", "whiteout a/gone", "whiteout a/sub", "dir b", "file b/new"]


def test_a_directory_made_again_is_opaque_and_becomes_explicit_whiteouts(overlay: Mounted) -> None:
    shutil.rmtree(overlay.merged / "a")
    (overlay.merged / "a/sub").mkdir(parents=True)
    (overlay.merged / "a/sub/y").write_text("a/sub/y")
    (overlay.merged / "a/keep").write_text("other")
    assert "trusted.overlay.opaque" in os.listxattr(overlay.upper / "a")
    assert overlay.check() == ["dir a", "whiteout a/gone", "file a/keep", "dir a/sub", "whiteout a/sub/x"]


def test_type_changes_both_ways(overlay: Mounted) -> None:
    shutil.rmtree(overlay.merged / "a")
    (overlay.merged / "a").write_text("now a file")
    (overlay.merged / "b/one").unlink()
    (overlay.merged / "b/one/in").mkdir(parents=True)
    (overlay.merged / "link").unlink()
    (overlay.merged / "link").mkdir()
    assert overlay.check() == ["file a", "dir b", "dir b/one", "dir b/one/in", "dir link"]


def test_a_renamed_directory_is_a_copy_and_a_whiteout(overlay: Mounted) -> None:
    shutil.move(overlay.merged / "a/sub", overlay.merged / "moved")
    expected = ["dir a", "whiteout a/sub", "dir moved", "file moved/x", "file moved/y"]
    assert overlay.check() == expected


def test_metadata_hard_links_and_capabilities(overlay: Mounted) -> None:
    os.chown(overlay.merged / "b/one", 3, 4)
    os.link(overlay.merged / "b/two", overlay.merged / "b/also")
    os.setxattr(overlay.merged / "a/keep", "security.capability", CAPABILITY)
    (overlay.merged / "a/sub").chmod(0o1777)
    os.mkfifo(overlay.merged / "tmp-pipe")
    (overlay.merged / "tmp-pipe").unlink()
    assert overlay.check() == ["dir a", "file a/keep", "dir a/sub", "dir b", "file b/also", "file b/one"]


def test_a_file_that_was_made_and_deleted_again_leaves_nothing(overlay: Mounted) -> None:
    (overlay.merged / "b/x").write_text("")
    (overlay.merged / "b/x").unlink()
    assert overlay.check() == []


def test_the_users_form_of_the_opaque_mark_counts_too(tmp_path: Path) -> None:
    lower, upper, merged = (tmp_path / name for name in ("lower", "upper", "merged"))
    for tree, name in ((lower, "old"), (upper, "new"), (merged, "new")):
        (tree / "d").mkdir(parents=True)
        (tree / "d" / name).write_text(name)
    os.setxattr(upper / "d", "user.overlay.opaque", b"y")
    found = diff_trees(lower, merged, upper=upper)
    assert [(entry.kind.value, entry.path) for entry in found] == [
        ("dir", b"d"),
        ("whiteout", b"d/old"),
        ("file", b"d/new"),
    ]


def test_a_whiteout_of_something_that_was_never_there_is_nothing(tmp_path: Path) -> None:
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    lower.mkdir()
    upper.mkdir()
    os.mknod(upper / "x", stat.S_IFCHR, os.makedev(0, 0))
    assert diff_trees(lower, lower, upper=upper) == []


def test_an_overlay_with_redirects_is_refused(tmp_path: Path) -> None:
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    (lower / "d").mkdir(parents=True)
    (upper / "d").mkdir(parents=True)
    os.setxattr(upper / "d", "trusted.overlay.redirect", b"/e")
    with pytest.raises(InputError) as caught:
        diff_trees(lower, upper, upper=upper)
    assert str(caught.value) == (
        f"{upper}/d: the overlay left trusted.overlay.redirect, so its upper tree is not whole\n"
        "hint: mount it with redirect_dir=off,metacopy=off,index=off,xino=off"
    )
