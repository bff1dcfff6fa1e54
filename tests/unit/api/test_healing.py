"""Work is done again after a damaged blob was set aside, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.api.healing import with_healing
from packager.base.digests import digest_of, hex_of
from packager.base.errors import InputError, IntegrityError
from packager.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.progress import Event

HELLO = digest_of(b"hello")


def damaged(store: Store) -> None:
    store.put(b"hello")
    path = store.root / "blobs" / "sha256" / hex_of(HELLO)
    path.chmod(0o644)
    path.write_bytes(b"jello")


def test_a_damaged_blob_is_made_again_and_told(tmp_path: Path) -> None:
    store = Store(tmp_path)
    damaged(store)
    told: list[Event] = []

    def work() -> bytes:
        if not store.has(HELLO):
            store.put(b"hello")
        return store.read(HELLO, 9)

    assert with_healing(store, work, told.append) == b"hello"
    assert [event.message for event in told] == [
        f"damaged, made again: {hex_of(HELLO)} (expected the digest {HELLO}, found {digest_of(b'jello')})"
    ]


def test_the_same_blob_damaged_again_another_day_is_made_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for _ in range(2):
        damaged(store)
        store_again = lambda: store.read(HELLO, 9) if store.has(HELLO) else store.put(b"hello").encode()  # noqa: E731
        assert with_healing(store, store_again, lambda _: None) == HELLO.encode()


def test_another_failure_is_raised_at_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        raise InputError("no")

    with pytest.raises(InputError, match=r"^no$"):
        with_healing(Store(tmp_path), work, lambda _: None)
    assert calls == [1]


def test_a_disk_that_damages_everything_does_not_keep_it_going_for_ever(tmp_path: Path) -> None:
    store = Store(tmp_path)
    calls: list[int] = []

    def work() -> bytes:
        calls.append(1)
        damaged(store)
        return store.read(HELLO, 9)

    with pytest.raises(IntegrityError):
        with_healing(store, work, lambda _: None)
    assert len(calls) == 51
