"""A build that is interrupted, run twice at once, collected around, out of space, or given a damaged store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.files import NO_SPACE_HINT
from packager.sandbox.namespaces import may_mount
from tests.support.killing import TASK, Built, Place, broken_blobs, ended, forget_small_layers, survivors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="mounts, and counts what is left"),
]

BUILD = ("build", "--task", TASK)
BASE_BYTES = 20 << 20
STOPPED = "stopped; the same command continues where this one was\n"


@pytest.fixture
def begun(built: Built, around: Path) -> Place:
    """Give a store that knows the base and nothing above it."""
    place = built.copied(around / "store")
    assert forget_small_layers(place.store, BASE_BYTES) > 10
    return place


def wait_for_a_step(place: Place) -> None:
    """Wait until a build works in a folder of its own."""
    until = time.monotonic() + 120
    while not list((place.store / "tmp").glob("scratch-*")):
        assert time.monotonic() < until
        time.sleep(0.005)


@pytest.mark.parametrize("delay_s", [0, 0.05, 1])
def test_an_interrupted_build_ends_with_130_and_the_same_command_continues(
    built: Built, begun: Place, delay_s: float
) -> None:
    """An interrupt while a stack was being mounted once left it mounted, and was reported as such."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # where pytest ignores it, children would, too
    child = begun.start(*BUILD)
    signal.signal(signal.SIGINT, before)
    wait_for_a_step(begun)
    time.sleep(delay_s)
    child.send_signal(signal.SIGINT)
    stopped = ended(child)
    assert (stopped.exit_code, stopped.stdout, stopped.stderr.lstrip()) == (130, "", STOPPED)
    assert survivors() == []
    assert begun.run(*BUILD).value()["manifest"] == built.manifest
    assert list((begun.store / "tmp").iterdir()) == []


def test_two_builds_of_one_task_at_once_print_the_same_digest(built: Built, begun: Place) -> None:
    children = [begun.start(*BUILD) for _ in range(2)]
    assert [ended(child).value()["manifest"] for child in children] == [built.manifest] * 2
    assert broken_blobs(begun.store) == []


def test_a_collection_leaves_a_running_build_alone_and_afterwards_the_image_still_evaluates(
    built: Built, begun: Place
) -> None:
    child = begun.start(*BUILD)
    wait_for_a_step(begun)
    os.kill(child.pid, signal.SIGSTOP)
    refused = begun.run("gc")
    os.kill(child.pid, signal.SIGCONT)
    said = f"error: {begun.store}/locks/lease: another command is using the store\n"
    assert (refused.exit_code, refused.stderr) == (6, f"{said}hint: wait until it has ended, then try again\n")
    assert ended(child).value()["manifest"] == built.manifest
    begun.run("sign", "--task", TASK, "--home", "registry.example.org/kill").value()
    collected = begun.run("gc").value()
    assert collected["blobs"] > 0
    assert collected["trees"] > 0
    assert {check["ok"] for check in begun.run("verify", TASK).value()} == {True}
    assert begun.run("evaluate", TASK, "--gold").exit_code == 0
    assert begun.run(*BUILD).value()["manifest"] == built.manifest


@pytest.fixture
def small_disk(begun: Place, around: Path) -> Iterator[Path]:
    """Give the begun store on a file system of its own that has no room."""
    disk = around / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", str(disk)], check=True)
    try:
        subprocess.run(["cp", "-a", str(begun.store), str(disk / "store")], check=True)
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def leave_room(disk: Path, room_bytes: int) -> None:
    size = shutil.disk_usage(disk).used + room_bytes
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def test_a_build_on_a_full_disk_says_so_and_completes_when_there_is_room(
    built: Built, begun: Place, small_disk: Path
) -> None:
    place = replace(begun, store=small_disk / "store")
    for room_bytes in (0, 1 << 20, 6 << 20, 20 << 20):
        leave_room(small_disk, room_bytes)
        full = place.run(*BUILD)
        assert full.exit_code == 6, (room_bytes, full.stderr)
        assert "o space left on device" in full.stderr or "the disk is full" in full.stderr
        assert full.stderr.endswith(f"\nhint: {NO_SPACE_HINT}\n")
        assert broken_blobs(place.store) == []
        assert list((place.store / "tmp").iterdir()) == []
    leave_room(small_disk, 1 << 30)
    assert place.run(*BUILD).value()["manifest"] == built.manifest


def small_results(store: Path) -> list[tuple[Path, Path, Path]]:
    """Return result, blob and tree of every small layer whose tree is there, in no order of theirs."""
    found = []
    for path in sorted((store / "results").iterdir()):
        layer = json.loads(path.read_bytes()) or {}
        if "diff_id" in layer and layer["size"] < BASE_BYTES:
            blob, tree = (layer[name].removeprefix("sha256:") for name in ("digest", "diff_id"))
            found.append((path, store / "blobs/sha256" / blob, store / "trees" / tree))
    return [row for row in found if row[2].is_dir()]


def test_results_whose_layers_are_gone_or_cut_off_or_that_are_no_results_are_made_again(
    built: Built, around: Path
) -> None:
    place = built.copied(around / "store")
    rows = small_results(place.store)
    assert len(rows) >= 3
    rows[0][1].unlink()
    cut = rows[1][1].read_bytes()[:-1]
    rows[1][1].unlink()
    rows[1][1].write_bytes(cut)
    rows[2][0].unlink()
    rows[2][0].write_bytes(b"{")
    shutil.rmtree(place.store / "trees")
    assert place.run(*BUILD).value()["manifest"] == built.manifest
    assert broken_blobs(place.store) == []
    assert {check["ok"] for check in place.run("verify", TASK).value()} == {True}


@pytest.mark.parametrize("finder", ["verify", "build"])
def test_a_corrupt_layer_is_set_aside_by_who_finds_it_and_a_build_makes_it_again_at_once(
    built: Built, around: Path, finder: str
) -> None:
    place = built.copied(around / "store")
    kept, blob, tree = small_results(place.store)[0]
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.unlink()
    blob.write_bytes(data)
    if finder == "build":  # which reads the layer only if it is not unpacked, and unpacks it only for work above it
        shutil.rmtree(tree)
        forget_small_layers(place.store, BASE_BYTES, but=kept)
        assert place.run(*BUILD).value()["manifest"] == built.manifest
    else:
        assert place.run("verify", TASK).exit_code == 1
    assert (place.store / "quarantine" / blob.name).read_bytes() == data
    assert place.run(*BUILD).value()["manifest"] == built.manifest
    assert broken_blobs(place.store) == []


def test_a_result_that_lies_about_its_layer_is_made_again(built: Built, around: Path) -> None:
    place = built.copied(around / "store")
    result, _, _ = small_results(place.store)[0]
    layer = json.loads(result.read_bytes())
    layer["diff_id"] = f"sha256:{'0' * 64}"
    result.unlink()
    result.write_text(json.dumps(layer, sort_keys=True, separators=(",", ":")))
    shutil.rmtree(place.store / "names")
    assert place.run(*BUILD).value()["manifest"] == built.manifest
