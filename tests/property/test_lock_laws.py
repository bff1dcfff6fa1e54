from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from packager.base.digests import digest_of
from packager.lock.crosscheck import algorithm_of
from packager.lock.ecosystems.pip_index import project_and_version
from packager.lock.ecosystems.versions import order_of
from packager.lock.model import (
    AbsentFetch,
    Lock,
    LockedBase,
    LockedBlob,
    LockedFetch,
    LockedFiles,
    format_lock,
    parse_lock,
)
from packager.lock.sources import Source, format_sources, parse_sources

WORDS = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
KEYS = st.lists(WORDS, min_size=1, max_size=4).map("/".join)
BLOBS = st.builds(
    LockedBlob,
    st.sampled_from(["debian", "pypi", "npm", "goproxy", "web"]),
    KEYS,
    st.binary(max_size=4).map(digest_of),
    st.integers(0, 1 << 40),
)
FETCHES = st.builds(
    LockedFetch, WORDS, BLOBS, st.just("x/y"), WORDS.map("pkg:generic/{}".format), st.sampled_from(["lock", "recorded"])
)
ABSENT = st.builds(AbsentFetch, WORDS, st.sampled_from(["pypi", "npm"]), KEYS)


def lists_of(rows: st.SearchStrategy[object], *names: str) -> st.SearchStrategy[tuple[object, ...]]:
    def identity(row: object) -> tuple[object, ...]:
        return tuple(
            getattr(row.blob if name in {"alias", "key"} and isinstance(row, LockedFetch) else row, name)
            for name in names
        )

    return st.lists(rows, max_size=5, unique_by=identity).map(tuple)


LOCKS = st.builds(
    Lock,
    task=WORDS,
    platform=st.just("linux/amd64"),
    recipe=st.just(digest_of(b"r")),
    dockerfile=st.just(digest_of(b"t")),
    ids=st.dictionaries(WORDS, WORDS, max_size=3),
    base=st.builds(LockedBase, WORDS, lists_of(BLOBS, "alias", "key")),
    fetches=lists_of(FETCHES, "step", "alias", "key"),
    absent=lists_of(ABSENT, "step", "alias", "key"),
    files=st.just(LockedFiles(digest_of(b"p"), {}, {})),
)


@given(LOCKS)
def test_parsing_undoes_formatting(lock: Lock) -> None:
    assert parse_lock(format_lock(lock)) == lock
    assert format_lock(parse_lock(format_lock(lock))) == format_lock(lock)


@given(LOCKS)
def test_every_blob_of_a_lock_is_listed_once(lock: Lock) -> None:
    found = lock.blobs()
    assert list(found) == sorted(set(found))
    assert {fetch.blob for fetch in lock.fetches} <= set(found)


@given(st.lists(st.builds(Source, st.just("web"), KEYS, KEYS.map("https://h.example/{}".format))))
def test_sources_keep_their_set(sources: list[Source]) -> None:
    assert parse_sources(format_sources(sources)) == tuple(sorted(set(sources)))


@given(st.tuples(*[st.integers(0, 99)] * 3), st.tuples(*[st.integers(0, 99)] * 3))
def test_versions_sort_as_their_numbers(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    first, second = (".".join(map(str, numbers)) for numbers in (one, other))
    assert (order_of(first) < order_of(second)) == (one < other)
    assert order_of(f"{first}-rc.1") < order_of(first)


@given(WORDS.filter(lambda word: word[0].isalpha()), st.lists(st.integers(0, 99), min_size=1, max_size=3))
def test_wheels_and_sdists_of_one_release_have_one_name(project: str, numbers: list[int]) -> None:
    version = ".".join(map(str, numbers))
    assert project_and_version(f"{project}-{version}-py3-none-any.whl") == (project, version)
    assert project_and_version(f"{project}-{version}.tar.gz") == (project, version)


@given(st.sampled_from(["sha256", "sha512", "h1"]), st.sampled_from([":", "-"]), st.text("abc+/=", min_size=1))
def test_algorithms_are_read_from_either_spelling(name: str, mark: str, value: str) -> None:
    assert algorithm_of(f"{name}{mark}{value}") == name
