"""A second process, a collection or a full disk at random moments of a build: nobody loses anything, one digest comes.

WIDESWE_MOMENTS says how many moments per test (50 when run by hand), WIDESWE_KILL_SEED which. The build is that of the
shipped task above its base, or that of a tiny task from an empty store, which takes seconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.files import NO_SPACE_HINT
from packager.base.processes import find_program
from packager.sandbox.namespaces import may_mount
from tests.support.killing import (
    Built,
    Pace,
    Place,
    broken_blobs,
    copy_store,
    ended,
    forget_small_layers,
    groups_of,
    moments,
    mounts_below,
    say,
    survivors,
)
from tests.support.registry import MemoryRegistry
from tests.support.tiny_base import TinyWorld, publish_tiny_base

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="mounts, and counts what is left"),
]

MOMENTS = int(os.environ.get("WIDESWE_MOMENTS", "2"))
SEED = int(os.environ.get("WIDESWE_KILL_SEED", "1"))
BASE_BYTES = 20 << 20
DISK_BYTES = 2 << 30
IN_USE = "another command is using the store\nhint: wait until it has ended, then try again\n"


@dataclass(frozen=True)
class Work:
    """A build that is known to come to `manifest`: where it takes place, and the store that it begins with, if any."""

    place: Place
    manifest: str
    known: Path | None = None

    def begin(self) -> Place:
        """Give the place with the store as it was."""
        shutil.rmtree(self.place.store, ignore_errors=True)
        if self.known is not None:
            copy_store(self.known, self.place.store)
        return self.place

    def on(self, folder: Path) -> Work:
        """Return the same work on another file system."""
        known = None if self.known is None else folder / "base"
        if self.known is not None:
            subprocess.run(["cp", "-a", str(self.known), str(known)], check=True)
        return replace(self, place=replace(self.place, store=folder / "store"), known=known)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Work:
    """Give a task over a base of ten programs, whose step writes some megabytes."""
    folder = tmp_path_factory.mktemp("tiny")
    with MemoryRegistry() as registry:
        world = TinyWorld(folder, publish_tiny_base(registry))
        writes = [f"cat /usr/bin/* /usr/lib/*/* >/opt/x/{number}" for number in range(8)]
        suite = world.suite("tiny", "mkdir -p /opt/x", *writes, "sort /opt/x/* | head -c 100000 >/opt/x/sorted")
        place = Place(folder / "first", suite.place.keys, root=suite.place.root, task=suite.task)
        api.fetch(suite.place, suite.task, into=folder / "inputs")
    place = replace(place, inputs=folder / "inputs")
    return Work(place, place.build().value()["manifest"])


@pytest.fixture(params=["hello", "tiny"])
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    """Give the work of both tasks, in a folder of its own."""
    if request.param == "tiny":
        tiny: Work = request.getfixturevalue("tiny")
        yield replace(tiny, place=replace(tiny.place, store=tmp_path_factory.mktemp("work") / "store"))
        return
    built: Built = request.getfixturevalue("built")
    around: Path = request.getfixturevalue("around")
    base = built.copied(around / "base")
    assert forget_small_layers(base.store, BASE_BYTES) > 10
    yield Work(replace(base, store=around / "store"), built.manifest, base.store)


def expect_nothing_left(place: Place) -> None:
    assert survivors() == []
    assert mounts_below(place.store) == []
    assert broken_blobs(place.store) == []
    assert list((place.store / "tmp").iterdir()) == []


def test_a_second_build_at_any_moment_takes_what_the_first_made(work: Work) -> None:
    usual_s = work.begin().build().seconds
    for part in moments("second build", MOMENTS, seed=SEED):
        place = work.begin()
        first = place.start("build", "--task", place.task)
        time.sleep(part * usual_s)
        second = place.start("build", "--task", place.task)
        assert [ended(child).value()["manifest"] for child in (first, second)] == [work.manifest] * 2
        expect_nothing_left(place)


def test_when_one_of_two_builds_is_killed_the_other_ends_as_usual(work: Work) -> None:
    usual_s = work.begin().build().seconds
    cut_off = 0
    for part in moments("one of two", MOMENTS, seed=SEED):
        place = work.begin()
        first, second = place.start("build", "--task", place.task), place.start("build", "--task", place.task)
        time.sleep(part * usual_s)
        os.killpg(first.pid, signal.SIGKILL)
        killed = ended(first)
        cut_off += killed.exit_code == -signal.SIGKILL
        assert ended(second).value()["manifest"] == work.manifest
        shutil.rmtree(place.store / "names")  # else there is nothing to do, and who does nothing clears nothing away
        assert place.build().value()["manifest"] == work.manifest
        assert groups_of(killed.pid) == []
        assert survivors() == []
        assert mounts_below(place.store) == []
        assert broken_blobs(place.store) == []
    say(f"one of two: {cut_off} of {MOMENTS} cut off; usual {usual_s:.1f} s")
    assert cut_off > 0


def test_a_build_killed_at_any_moment_is_completed_by_the_same_command(tiny: Work) -> None:
    """`test_kill.py` does it to the shipped task, whose build takes longer."""
    pace = Pace(tiny.begin().build())
    for part in moments("tiny build", MOMENTS, seed=SEED):
        _, killed = pace.kill(part, tiny.begin, lambda: ("build", "--task", tiny.place.task))
        assert survivors() == []
        assert mounts_below(tiny.place.store) == []
        assert broken_blobs(tiny.place.store) == []
        assert tiny.place.build().value()["manifest"] == tiny.manifest
        assert groups_of(killed.pid) == []
        shutil.rmtree(tiny.place.store / "names", ignore_errors=True)
        assert tiny.place.build().value()["manifest"] == tiny.manifest
        expect_nothing_left(tiny.place)
    say(f"tiny build: {pace.cut_off} of {MOMENTS} cut off; usual {pace.usual.seconds:.1f} s")
    assert pace.cut_off > MOMENTS // 2


@pytest.mark.parametrize("words", [("gc",), ("gc", "--max-size", "1B"), ("store", "check")])
def test_a_collection_at_any_moment_takes_nothing_that_is_in_use(work: Work, words: tuple[str, ...]) -> None:
    usual_s = work.begin().build().seconds
    refused = 0
    for part in moments(" ".join(words), MOMENTS, seed=SEED):
        place = work.begin()
        build = place.start("build", "--task", place.task)
        time.sleep(part * usual_s)
        other = place.run(*words)
        assert other.exit_code in (0, 1, 6), other.stderr
        assert other.exit_code != 6 or other.stderr == f"error: {place.store}/locks/lease: {IN_USE}"
        refused += other.exit_code == 6
        assert ended(build).value()["manifest"] == work.manifest
        assert place.run("store", "check").value()["problems"] == []
        assert place.build().value()["manifest"] == work.manifest
        expect_nothing_left(place)
    say(f"{' '.join(words)}: refused {refused} of {MOMENTS}; usual {usual_s:.1f} s")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Give a small loop device."""
    if find_program("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")
    image, place = tmp_path / "disk.img", tmp_path / "disk"
    place.mkdir()
    image.touch()
    os.truncate(image, DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        image.unlink()


def set_room(disk: Path, room_bytes: int) -> None:
    """Fill the disk up, but for so many bytes."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    subprocess.run(["sync", "--file-system", str(disk)], check=True)  # what was deleted is free only now
    taken = shutil.disk_usage(disk).free - room_bytes
    with ballast.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, taken)


def test_a_disk_that_fills_up_at_any_moment_is_said_and_leaves_nothing_half(work: Work, disk: Path) -> None:
    work = work.on(disk)
    before = shutil.disk_usage(disk).used
    work.begin().build().value()
    needed = shutil.disk_usage(disk).used - before
    full = 0
    for part in moments("full disk", MOMENTS, seed=SEED):
        place = work.begin()
        set_room(disk, int(part * needed))
        ran = place.build()
        full += ran.exit_code == 6
        assert ran.exit_code in (0, 6), ran.stderr
        assert ran.exit_code == 0 or ran.stderr.endswith(f"\nhint: {NO_SPACE_HINT}\n")
        expect_nothing_left(place)
        (disk / "ballast").unlink()
        assert place.build().value()["manifest"] == work.manifest
        expect_nothing_left(place)
    say(f"full disk: {full} of {MOMENTS} ran out of space; a build needs {needed} bytes")
    assert full > 0
