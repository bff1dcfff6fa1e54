"""Whatever fails, and whoever is killed: every visible blob hashes to its name, and the same work then succeeds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of, digest_of_file
from packager.base.errors import WorldError
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.store.store import Store
from tests.support.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.oci.entries import Entry

ROOT = Path(__file__).parents[2]
ENTRIES = [file_entry(b"big", os.urandom(64) * 50_000), *(file_entry(b"f%d" % n, b"x" * n) for n in range(50))]


def visible_blobs_are_whole(root: Path) -> None:
    folder = root / "blobs" / "sha256"
    for path in folder.iterdir() if folder.is_dir() else ():
        assert digest_of_file(path) == f"sha256:{path.name}"


def fill_tree(place: Path) -> None:
    (place / "a").write_bytes(b"a")


def fill_large_tree(place: Path) -> None:
    for name in range(200):
        (place / str(name)).touch()


def flow(store: Store) -> list[object]:
    """Some of everything that writes."""
    small = store.put(b"small")
    layer = write_layer(ENTRIES, store)
    plain = write_layer(ENTRIES, store, compression="none")
    store.put_result(small, layer.digest.encode())
    store.set_name("images", "x", plain.digest.encode())
    tree = store.tree("t", fill_tree)
    return [small, layer, plain, store.result(small), store.name("images", "x"), (tree / "a").read_bytes()]


def attempt(store: Store) -> str | None:
    """Run the flow and return why it failed."""
    try:
        flow(store)
    except WorldError as error:
        return error.reason
    return None


def test_a_fault_at_any_point_leaves_only_whole_blobs_and_the_next_run_gives_the_same(tmp_path: Path) -> None:
    expected = flow(Store(tmp_path / "expected"))
    for number in range(1, 200):
        root = tmp_path / str(number)
        disk = FaultyDisk(number)
        said = attempt(Store(root, disk=disk))
        assert said in (None, "the disk says: No space left on device")
        visible_blobs_are_whole(root)
        assert not list((root / "tmp").iterdir()), number
        assert flow(Store(root)) == expected
        visible_blobs_are_whole(root)
        if not disk.met_fault:
            break
    assert not disk.met_fault
    assert number > 15


_WRITER = """
import sys
from pathlib import Path
from packager.store.store import Store
store = Store(Path(sys.argv[1]))
print("ready", flush=True)
number = 0
while True:
    number += 1
    with store.writer() as out:
        for block in range(20):
            out.write(b"%d:%d" % (number % 7, block) * 10_000)
        out.commit()
    store.tree(f"t{number % 5}-{number}", lambda place: [(place / str(n)).write_bytes(b"x") for n in range(20)] and None)
"""


@pytest.mark.parametrize("delay_ms", [1, 5, 12, 30, 70])
def test_a_killed_writer_leaves_only_whole_blobs_and_its_scraps_are_swept(tmp_path: Path, delay_ms: int) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(delay_ms / 1000)
        child.send_signal(signal.SIGKILL)
    visible_blobs_are_whole(tmp_path)
    for tree in (tmp_path / "trees").glob("*"):
        assert len(list(tree.iterdir())) == 20
    store = Store(tmp_path)
    kept = sorted(f"sha256:{path.name}" for path in (tmp_path / "blobs/sha256").glob("*"))
    store.collect_garbage(lambda: kept)
    assert not list((tmp_path / "tmp").glob("*"))
    assert sorted(f"sha256:{path.name}" for path in (tmp_path / "blobs/sha256").glob("*")) == kept
    store.put(b"after")
    assert store.check() == []


_COLLECTOR = """
import sys
from pathlib import Path
from packager.store.store import Store
print("ready", flush=True)
Store(Path(sys.argv[1])).collect_garbage(lambda: [])
"""


@pytest.mark.parametrize("delay_ms", [0, 3, 6, 12, 25])
def test_a_killed_collection_leaves_each_tree_whole_or_gone(tmp_path: Path, delay_ms: int) -> None:
    """A half-deleted tree under its name would be taken for a layer and give other bytes under the same key."""
    store = Store(tmp_path)
    for number in range(20):
        store.tree(f"t{number}", fill_large_tree)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", _COLLECTOR, str(tmp_path)], stdout=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(delay_ms / 1000)
        child.send_signal(signal.SIGKILL)
    assert {len(list(tree.iterdir())) for tree in (tmp_path / "trees").iterdir()} <= {200}
    store.sweep()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_sweep_spares_downloads_to_be_continued_and_whatever_others_are_at_work_on(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(b"x")
    for name in ("pull-1", "scrap"):
        (tmp_path / "tmp" / name).touch()
    with store.lease():
        store.sweep()
        assert sorted(path.name for path in (tmp_path / "tmp").iterdir()) == ["pull-1", "scrap"]
    store.sweep()
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["pull-1"]


_RIVAL = """
import sys
from pathlib import Path
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.store.store import Store
store = Store(Path(sys.argv[1]))
for number in range(10):
    layer = write_layer([file_entry(b"f", b"%d" % number * 100_000)], store)
    store.set_name("images", "x", layer.digest.encode())
    assert store.read(layer.digest, 1 << 20)
    print(layer.digest)
"""


def test_rival_processes_write_the_same_blobs_at_once(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", _RIVAL, str(tmp_path)]
    rivals = [subprocess.Popen(argv, stdout=subprocess.PIPE, env=env) for _ in range(3)]
    said = [rival.communicate()[0] for rival in rivals]
    assert [rival.returncode for rival in rivals] == [0, 0, 0]
    assert said[0].count(b"sha256:") == 10
    assert said[0] == said[1] == said[2]
    visible_blobs_are_whole(tmp_path)
    assert Store(tmp_path).name("images", "x") == said[0].split()[-1]
    assert len(list((tmp_path / "blobs/sha256").iterdir())) == 10


def test_a_half_written_tree_of_entries_is_no_layer(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(OSError, match="while entries are listed"):
        write_layer(failing(), store)
    assert not (tmp_path / "blobs").exists()
    assert not list((tmp_path / "tmp").iterdir())
    assert store.put(b"x") == digest_of(b"x")


def failing() -> Iterator[Entry]:
    yield file_entry(b"a", b"x" * (3 << 20))
    raise OSError("while entries are listed")
