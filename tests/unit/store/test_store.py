from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from packager.base.digests import Digest, digest_of
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.base.problems import Problem
from packager.store.garbage import Garbage
from packager.store.store import Store

HELLO = digest_of(b"hello")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def blob_file(store: Store, digest: Digest) -> Path:
    return store.root / "blobs" / "sha256" / digest.removeprefix("sha256:")


def corrupt(path: Path) -> None:
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_bytes_come_back_under_their_digest(store: Store) -> None:
    assert store.put(b"hello") == HELLO
    assert store.has(HELLO)
    assert store.read(HELLO, 5) == b"hello"
    assert store.path(HELLO) == blob_file(store, HELLO)
    assert stat.S_IMODE(store.path(HELLO).stat().st_mode) == 0o444


def test_nothing_is_made_by_only_looking(store: Store) -> None:
    assert not store.has(HELLO)
    assert store.result(HELLO) is None
    assert store.name("images", "x") is None
    assert store.names("images") == []
    assert store.check() == []
    assert not store.root.exists()


def test_a_blob_that_is_nowhere_is_reported(store: Store) -> None:
    with pytest.raises(WorldError) as caught:
        store.open(HELLO)
    assert str(caught.value) == (
        f"{HELLO}: the blob is not in the store\nhint: run the command that makes or fetches it"
    )


def test_files_are_copied(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"hello")
    assert store.put_file(tmp_path / "file") == (HELLO, 5)


def test_a_writer_shows_nothing_before_commit(store: Store) -> None:
    with store.writer() as out:
        out.write(b"hel")
        out.write(b"lo")
        assert not store.has(HELLO)
        assert out.commit() == (HELLO, 5)
        assert store.has(HELLO)
    assert list((store.root / "tmp").iterdir()) == []


def test_a_writer_that_is_left_drops_what_it_got(store: Store) -> None:
    def interrupted() -> None:
        with store.writer() as out:
            out.write(b"hello")
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert not store.has(HELLO)
    assert list((store.root / "tmp").iterdir()) == []


def test_other_bytes_than_expected_are_refused(store: Store) -> None:
    other = digest_of(b"jello")
    with store.writer(HELLO, 5) as out:
        out.write(b"jello")
        with pytest.raises(IntegrityError) as digest:
            out.commit()
    assert str(digest.value) == f"expected the digest {HELLO}, found {other}"
    with store.writer(HELLO, 5) as out:
        out.write(b"hell")
        with pytest.raises(IntegrityError) as short:
            out.commit()
    assert str(short.value) == f"{HELLO}: expected 5 bytes, found 4"
    with store.writer(HELLO, 5) as out, pytest.raises(IntegrityError) as much:
        out.write(b"hello!")
    assert str(much.value) == f"{HELLO}: expected 5 bytes, found more"
    assert not store.has(HELLO)
    assert not store.has(other)


def test_a_broken_blob_is_set_aside_when_it_is_read(store: Store) -> None:
    store.put(b"hello")
    path = blob_file(store, HELLO)
    corrupt(path)
    with pytest.raises(IntegrityError) as caught:
        store.read(HELLO, 100)
    assert str(caught.value) == (
        f"{path}: expected the digest {HELLO}, found {digest_of(b'helln')}\n"
        "hint: the blob was set aside; run the command again to get it anew"
    )
    assert not store.has(HELLO)
    assert [aside.read_bytes() for aside in (store.root / "quarantine").iterdir()] == [b"helln"]
    store.put(b"hello")
    assert store.read(HELLO, 100) == b"hello"


def test_a_truncated_blob_is_noticed_and_put_makes_it_whole_again(store: Store) -> None:
    store.put(b"hello")
    blob_file(store, HELLO).chmod(0o644)
    os.truncate(blob_file(store, HELLO), 2)
    assert store.put(b"hello") == HELLO
    assert store.read(HELLO, 100) == b"hello"


def test_a_blob_over_the_limit_is_refused(store: Store) -> None:
    store.put(b"hello")
    with pytest.raises(IntegrityError) as caught:
        store.read(HELLO, 4)
    assert str(caught.value) == f"{HELLO}: expected at most 4 bytes, found more"


def test_check_names_every_broken_blob(store: Store) -> None:
    store.put(b"hello")
    good = store.put(b"good")
    corrupt(blob_file(store, HELLO))
    name = HELLO.removeprefix("sha256:")
    assert store.check() == [
        Problem(
            f"blobs/sha256/{name}",
            0,
            "",
            f"expected the digest {HELLO}, found {digest_of(b'helln')}",
            "the blob was set aside; run the command again to get it anew",
        )
    ]
    assert store.check() == []
    assert store.has(good)


def test_a_stray_file_among_the_blobs_is_a_problem(store: Store) -> None:
    store.put(b"hello")
    (store.root / "blobs/sha256/notes.txt").write_text("x")
    assert [str(problem) for problem in store.check()] == [
        "blobs/sha256/notes.txt: the name is not a digest (hint: move the file elsewhere)"
    ]


def test_inputs_give_what_the_store_lacks(store: Store, tmp_path: Path) -> None:
    disc = Store(tmp_path / "disc")
    disc.put(b"hello")
    reader = Store(store.root, inputs=[tmp_path / "empty", disc.root])
    assert reader.has(HELLO)
    assert reader.read(HELLO, 5) == b"hello"
    assert blob_file(store, HELLO).is_file()


def test_a_broken_input_is_refused_and_left_alone(store: Store, tmp_path: Path) -> None:
    disc = Store(tmp_path / "disc")
    disc.put(b"hello")
    corrupt(blob_file(disc, HELLO))
    reader = Store(store.root, inputs=[disc.root])
    with pytest.raises(IntegrityError) as caught:
        reader.path(HELLO)
    assert str(caught.value) == (f"{blob_file(disc, HELLO)}: expected the digest {HELLO}, found {digest_of(b'helln')}")
    assert blob_file(disc, HELLO).is_file()
    assert not store.has(HELLO)


def test_a_good_input_stands_in_for_a_broken_one(store: Store, tmp_path: Path) -> None:
    bad, good = Store(tmp_path / "bad"), Store(tmp_path / "good")
    bad.put(b"hello")
    good.put(b"hello")
    corrupt(blob_file(bad, HELLO))
    assert Store(store.root, inputs=[bad.root, good.root]).read(HELLO, 9) == b"hello"


def test_results_and_names_are_replaced_whole(store: Store) -> None:
    store.put_result(HELLO, b"one")
    store.put_result(HELLO, b"two")
    assert store.result(HELLO) == b"two"
    store.set_name("images", "b/../c", b"1")
    store.set_name("images", "a", b"2")
    assert store.names("images") == ["a", "b/../c"]
    assert store.name("images", "b/../c") == b"1"
    assert sorted(path.name for path in (store.root / "names/images").iterdir()) == ["a", "b%2F..%2Fc"]
    store.remove_name("images", "a")
    store.remove_name("images", "a")
    assert store.names("images") == ["b/../c"]


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_leaves_its_folder_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InputError) as caught:
        store.set_name("images", name, b"")
    assert str(caught.value) == f"store: expected a name, found {name!r}"


def test_a_tree_is_filled_once_and_others_wait(store: Store) -> None:
    calls: list[Path] = []

    def fill(place: Path) -> None:
        calls.append(place)
        (place / "a").write_text("half")
        time.sleep(0.05)
        (place / "a").write_text("whole")

    seen: list[str] = []
    threads = [
        threading.Thread(target=lambda: seen.append((store.tree("t", fill) / "a").read_text())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["whole"] * 4
    assert len(calls) == 1
    assert store.tree("t", fill) == store.root / "trees" / "t"


def test_a_tree_that_cannot_be_filled_leaves_nothing(store: Store) -> None:
    def fill(place: Path) -> None:
        (place / "locked").mkdir(mode=0o000)
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        store.tree("t", fill)
    assert list((store.root / "trees").iterdir()) == []
    assert list((store.root / "tmp").iterdir()) == []


def test_the_collection_keeps_what_is_named_and_takes_the_rest(store: Store) -> None:
    kept, lost = store.put(b"kept"), store.put(b"lost!")
    store.tree("kept", lambda place: (place / "x").mkdir())
    store.tree("lost", lambda place: (place / "x").mkdir(mode=0))
    (store.root / "tmp" / "abandoned").write_bytes(b"half")
    (store.root / "tmp" / "tree-abandoned").mkdir()
    found = store.collect_garbage(lambda: [kept, "kept"])
    assert found == Garbage(blobs=1, size_bytes=5, trees=1, temporaries=2)
    assert (store.has(kept), store.has(lost)) == (True, False)
    assert store.names("trees") == []
    assert [path.name for path in (store.root / "trees").iterdir()] == ["kept"]


def test_the_collection_refuses_while_a_lease_is_held(store: Store) -> None:
    with store.lease(), store.lease():
        digest = store.put(b"nothing names it yet")
        with pytest.raises(WorldError) as caught:
            store.collect_garbage(list)
    assert str(caught.value) == (
        f"{store.root}/locks/lease: another command is using the store\nhint: wait until it has ended, then try again"
    )
    assert caught.value.retryable
    assert store.has(digest)
    store.collect_garbage(list)
    assert not store.has(digest)


def test_the_collection_leaves_a_tree_alone_while_it_is_filled(store: Store) -> None:
    def fill(place: Path) -> None:
        (place / "x").write_text("x")
        assert store.collect_garbage(list).temporaries == 0

    assert (store.tree("t", fill) / "x").read_text() == "x"


def test_the_collection_leaves_the_temporary_file_of_a_live_writer(store: Store) -> None:
    with store.writer() as out:
        out.write(b"hello")
        assert store.collect_garbage(list).temporaries == 0
        out.commit()
    assert store.has(HELLO)


def test_a_lock_is_held_by_one_thread_at_a_time(store: Store) -> None:
    inside: list[int] = []

    def work(number: int) -> None:
        with store.lock("one"):
            inside.append(number)
            time.sleep(0.01)
            assert inside[-1] == number

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(inside) == list(range(5))


def test_importing_the_store_loads_nothing_slow() -> None:
    code = (
        "import sys, packager.store.store, packager.oci.record, packager.oci.layer;"
        "print([name for name in ('zstandard', 'pydantic', 'requests', 'yaml', 'ssl') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=Path(__file__).parents[3])
    assert done.stdout == b"[]\n"
