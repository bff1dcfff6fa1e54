from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.lock.crosscheck import algorithm_of, cross_check
from packager.lock.model import LockedBlob, LockedFetch
from tests.support.artifacts import integrity_of, make_tgz, make_wheel

if TYPE_CHECKING:
    from packager.store.store import Store

WHEEL = make_wheel("foo", "1.0")
TARBALL = make_tgz("@a/b", "1.0.0")


def fetch(store: Store, alias: str, key: str, data: bytes) -> LockedFetch:
    return LockedFetch("s", LockedBlob(alias, key, store.put(data), len(data)), "x/y", "pkg:x/y", "recorded")


def requirement(data: bytes) -> bytes:
    return f"foo==1.0 --hash={digest_of(data)}\n".encode()


def test_artifacts_that_lock_files_vouch_for_are_marked(store: Store) -> None:
    rows = (
        fetch(store, "pypi", "foo-1.0-py3-none-any.whl", WHEEL),
        fetch(store, "pypi", "setuptools-80-py3-none-any.whl", b"build"),
        fetch(store, "npm", "@a/b/-/b-1.0.0.tgz", TARBALL),
        fetch(store, "web", "ab/tool", b"tool"),
    )
    lock = f'{{"packages": {{"node_modules/@a/b": {{"version": "1.0.0", "integrity": "{integrity_of(TARBALL)}"}}}}}}'
    files = {"a/requirements.txt": requirement(WHEEL), "b/package-lock.json": lock.encode(), "README.md": b"foo==1.0"}
    found = cross_check(rows, files, store)
    assert [row.origin for row in found] == ["lock", "recorded", "lock", "recorded"]
    assert [row.blob for row in found] == [row.blob for row in rows]


def test_disagreements_are_all_reported_with_both_hashes(store: Store) -> None:
    rows = (
        fetch(store, "pypi", "foo-1.0-py3-none-any.whl", WHEEL),
        fetch(store, "goproxy", "ex.org/m/@v/v1.0.0.mod", b"module ex.org/m\n"),
    )
    files = {"requirements.txt": requirement(b"other"), "go.sum": b"ex.org/m v1.0.0/go.mod h1:AAAA=\n"}
    with pytest.raises(InputError) as caught:
        cross_check(rows, files, store)
    assert str(caught.value) == (
        "lock: what was fetched is not what the project's lock files promise\n"
        "go.sum:1: expected h1:AAAA=, found h1:ZttO7qnEg0/nTvltyzyuG2NILQkdFbwKoDhFv0c9fh0= in "
        "goproxy ex.org/m/@v/v1.0.0.mod\n"
        f"requirements.txt:1: expected {digest_of(b'other')}, found {digest_of(WHEEL)} in pypi foo-1.0-py3-none-any.whl\n"
        "hint: the registry serves other bytes than the project was locked with: find out which of them is right"
    )


def test_two_lock_files_must_both_agree(store: Store) -> None:
    rows = (fetch(store, "pypi", "foo-1.0-py3-none-any.whl", WHEEL),)
    files = {"a/requirements.txt": requirement(WHEEL), "b/requirements.txt": requirement(b"other")}
    with pytest.raises(InputError, match=r"b/requirements\.txt:1: expected"):
        cross_check(rows, files, store)


def test_the_algorithm_of_each_spelling() -> None:
    assert [algorithm_of(text) for text in ("sha256:ab", "sha512-a+/=", "h1:a+/=")] == ["sha256", "sha512", "h1"]
