"""A second process, a collection or a full disk at random moments of a build: nobody loses anything, one digest comes.

WIDESWE_MOMENTS says how many moments per test (50 when run by hand), WIDESWE_KILL_SEED which.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.files import NO_SPACE_HINT
from packager.base.processes import find_program
from packager.sandbox.namespaces import may_mount
from tests.support.killing import (
    TASK,
    Built,
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
BUILD = ("build", "--task", TASK)
IN_USE = "another command is using the store\nhint: wait until it has ended, then try again\n"


@pytest.fixture
def base(built: Built, around: Path) -> Place:
    """Give a store that knows the base and nothing above it."""
    place = built.copied(around / "base")
    assert forget_small_layers(place.store, BASE_BYTES) > 10
    return place


def begin(base: Place, around: Path) -> Place:
    """Give a fresh copy of the store."""
    place = replace(base, store=around / "store")
    shutil.rmtree(place.store, ignore_errors=True)
    copy_store(base.store, place.store)
    return place


def expect_nothing_left(place: Place) -> None:
    assert survivors() == []
    assert mounts_below(place.store) == []
    assert broken_blobs(place.store) == []
    assert list((place.store / "tmp").iterdir()) == []


def test_a_second_build_at_any_moment_takes_what_the_first_made(built: Built, base: Place, around: Path) -> None:
    usual_s = begin(base, around).run(*BUILD).seconds
    for part in moments("second build", MOMENTS, seed=SEED):
        place = begin(base, around)
        first = place.start(*BUILD)
        time.sleep(part * usual_s)
        second = place.start(*BUILD)
        assert [ended(child).value()["manifest"] for child in (first, second)] == [built.manifest] * 2
        expect_nothing_left(place)


def test_when_one_of_two_builds_is_killed_the_other_ends_as_usual(built: Built, base: Place, around: Path) -> None:
    usual_s = begin(base, around).run(*BUILD).seconds
    cut_off = 0
    for part in moments("one of two", MOMENTS, seed=SEED):
        place = begin(base, around)
        first, second = place.start(*BUILD), place.start(*BUILD)
        time.sleep(part * usual_s)
        os.killpg(first.pid, signal.SIGKILL)
        killed = ended(first)
        cut_off += killed.exit_code == -signal.SIGKILL
        assert ended(second).value()["manifest"] == built.manifest
        shutil.rmtree(place.store / "names")  # else there is nothing to do, and who does nothing clears nothing away
        assert place.run(*BUILD).value()["manifest"] == built.manifest
        assert groups_of(killed.pid) == []
        assert survivors() == []
        assert mounts_below(place.store) == []
        assert broken_blobs(place.store) == []
    say(f"one of two: {cut_off} of {MOMENTS} cut off; usual {usual_s:.1f} s")
    assert cut_off > 0


@pytest.mark.parametrize("words", [("gc",), ("gc", "--max-size", "1B"), ("store", "check")])
def test_a_collection_at_any_moment_takes_nothing_that_is_in_use(
    built: Built, base: Place, around: Path, words: tuple[str, ...]
) -> None:
    usual_s = begin(base, around).run(*BUILD).seconds
    refused = 0
    for part in moments(" ".join(words), MOMENTS, seed=SEED):
        place = begin(base, around)
        build = place.start(*BUILD)
        time.sleep(part * usual_s)
        other = place.run(*words)
        assert other.exit_code in (0, 1, 6), other.stderr
        assert other.exit_code != 6 or other.stderr == f"error: {place.store}/locks/lease: {IN_USE}"
        refused += other.exit_code == 6
        assert ended(build).value()["manifest"] == built.manifest
        assert place.run("store", "check").value()["problems"] == []
        assert place.run(*BUILD).value()["manifest"] == built.manifest
        expect_nothing_left(place)
    say(f"{' '.join(words)}: refused {refused} of {MOMENTS}; usual {usual_s:.1f} s")


@pytest.fixture
def disk(base: Place, around: Path) -> Iterator[Path]:
    """Give a copy of the store on a small loop device."""
    if find_program("mkfs.ext4") is None:
        pytest.skip("no mkfs.ext4")
    image, place = around / "disk.img", around / "disk"
    place.mkdir()
    image.touch()
    os.truncate(image, DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        subprocess.run(["cp", "-a", str(base.store), str(place / "base")], check=True)
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


def test_a_disk_that_fills_up_at_any_moment_is_said_and_leaves_nothing_half(
    built: Built, base: Place, disk: Path
) -> None:
    place = replace(base, store=disk / "store")
    copy_store(disk / "base", place.store)
    before = shutil.disk_usage(disk).used
    place.run(*BUILD).value()
    needed = shutil.disk_usage(disk).used - before
    full = 0
    for part in moments("full disk", MOMENTS, seed=SEED):
        shutil.rmtree(place.store)
        copy_store(disk / "base", place.store)
        set_room(disk, int(part * needed))
        ran = place.run(*BUILD)
        full += ran.exit_code == 6
        assert ran.exit_code in (0, 6), ran.stderr
        assert ran.exit_code == 0 or ran.stderr.endswith(f"\nhint: {NO_SPACE_HINT}\n")
        expect_nothing_left(place)
        (disk / "ballast").unlink()
        assert place.run(*BUILD).value()["manifest"] == built.manifest
        expect_nothing_left(place)
    say(f"full disk: {full} of {MOMENTS} ran out of space; a build needs {needed} bytes")
    assert full > 0
