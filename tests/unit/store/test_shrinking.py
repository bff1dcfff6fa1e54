"""A cap on the store's size: what was not used for longest goes first, and what is kept stays whatever it needs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import WorldError
from packager.store.garbage import Garbage
from packager.store.shrinking import measure
from packager.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.base.digests import Digest

KILO = 1 << 10


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def blob(store: Store, letter: bytes) -> Digest:
    return store.put(letter * KILO)


def filled(letter: bytes) -> Callable[[Path], None]:
    def fill(place: Path) -> None:
        (place / "f").write_bytes(letter * KILO)

    return fill


def used(store: Store, name: str, second: int) -> None:
    """Set the time of a use; a thing is never older than its coming, so all are in the future."""
    store.use(name)  # type: ignore[arg-type]
    stamp = store.root / "used" / name.removeprefix("sha256:")
    os.utime(stamp, (4_000_000_000 + second, 4_000_000_000 + second))


def shrink(store: Store, kilos: float, *keep: str) -> Garbage:
    return store.shrink(lambda: keep, max_bytes=int(kilos * KILO))


def test_what_was_not_used_for_longest_goes_first_and_only_until_it_is_enough(store: Store) -> None:
    old, middle, new = (blob(store, letter) for letter in (b"o", b"m", b"n"))
    for second, digest in enumerate((old, middle, new)):
        used(store, digest, second)
    assert shrink(store, 3) == Garbage(left_bytes=3 * KILO)
    assert shrink(store, 2.5) == Garbage(blobs=1, size_bytes=KILO, left_bytes=2 * KILO)
    assert [store.has(digest) for digest in (old, middle, new)] == [False, True, True]
    assert sorted(path.name for path in (store.root / "used").iterdir()) == sorted(
        digest.removeprefix("sha256:") for digest in (middle, new)
    )


def test_reading_a_blob_or_stacking_a_tree_is_a_use_and_checking_is_none(store: Store) -> None:
    digests = [blob(store, letter) for letter in (b"a", b"b", b"c", b"d")]
    store.tree("t", filled(b"t"))
    store.tree("u", filled(b"u"))
    for second, name in enumerate((*digests, "t", "u")):
        used(store, name, second)
    before = {path.name: path.stat().st_mtime for path in (store.root / "used").iterdir()}
    store.read(digests[1], KILO)
    store.path(digests[2])
    store.tree("u", lambda _: None)
    assert store.check() == []
    after = {path.name: path.stat().st_mtime for path in (store.root / "used").iterdir()}
    names = [digests[1].removeprefix("sha256:"), digests[2].removeprefix("sha256:"), "u"]
    assert sorted(name for name in before if before[name] != after[name]) == sorted(names)


def test_what_is_kept_stays_although_it_is_oldest_and_more_than_allowed(store: Store) -> None:
    kept, lost = blob(store, b"k"), blob(store, b"l")
    store.tree("kept", filled(b"t"))
    used(store, lost, 9)
    assert shrink(store, 0, kept, "kept") == Garbage(blobs=1, size_bytes=KILO, left_bytes=2 * KILO)
    assert (store.has(kept), store.has(lost), (store.root / "trees/kept/f").is_file()) == (True, False, True)


def test_trees_repositories_and_what_was_set_aside_count_and_go_too(store: Store) -> None:
    store.quarantine(blob(store, b"q"))
    store.tree("t", filled(b"t"))
    for folder in ("git/url.git/objects", "git/packs/p1-x"):
        (store.root / folder).mkdir(parents=True)
        (store.root / folder / "pack").write_bytes(b"p" * KILO)
    (store.root / "tmp" / "pull-1").write_bytes(b"d" * KILO)
    (store.root / "tmp" / "scrap").write_bytes(b"s" * KILO)
    found = shrink(store, 0)
    assert found == Garbage(size_bytes=4 * KILO, trees=1, temporaries=1, others=3, left_bytes=KILO)
    assert sorted(str(path.relative_to(store.root)) for path in store.root.rglob("*") if path.is_file()) == [
        "locks/lease",
        "locks/tree:t",
        "tmp/pull-1",
    ]


def test_a_store_in_use_is_left_alone(store: Store) -> None:
    digest = blob(store, b"x")
    with store.lease(), pytest.raises(WorldError) as caught:
        shrink(store, 0)
    assert str(caught.value) == (
        f"{store.root}/locks/lease: another command is using the store\nhint: wait until it has ended, then try again"
    )
    assert store.has(digest)


def test_a_store_that_cannot_be_written_to_is_read_all_the_same(store: Store) -> None:
    digest = blob(store, b"x")
    (store.root / "used").write_text("not a folder")
    assert store.read(digest, KILO) == b"x" * KILO


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "d").write_bytes(b"x" * 5)
    assert measure(tmp_path) == 15
    assert measure(tmp_path / "none") == 0
