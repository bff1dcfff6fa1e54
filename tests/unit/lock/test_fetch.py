from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import IntegrityError, WorldError
from packager.base.progress import Event
from packager.lock.fetch import fetch_blobs
from packager.lock.model import LockedBlob
from packager.lock.sources import Source, format_sources, parse_sources
from packager.lock.upstream import Expected, Upstream
from packager.store.store import Store
from tests.support.fake_registry import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fake_registry import FakeRegistry

DATA = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(100_000))
KEY = "pool/main/x/x/x_1_amd64.deb"
PATH = f"/debian/{KEY}"


def locked(data: bytes = DATA, key: str = KEY) -> LockedBlob:
    return LockedBlob("debian", key, digest_of(data), len(data))


def upstream(registry: FakeRegistry, tmp_path: Path, pauses: list[float]) -> Upstream:
    return Upstream(registry.clients(tmp_path), pause=pauses.append)


def test_missing_blobs_are_fetched_and_present_ones_are_not_asked_for(
    registry: FakeRegistry, store: Store, tmp_path: Path
) -> None:
    registry.put(PATH, DATA)
    here = store.put(b"here")
    events: list[Event] = []
    blobs = [locked(), LockedBlob("debian", "pool/main/h/h/h_1_amd64.deb", here, 4)]
    assert fetch_blobs(blobs, store, registry.clients(tmp_path), events.append) == len(DATA)
    assert store.read(digest_of(DATA), len(DATA)) == DATA
    assert dict(registry.requests) == {PATH: 1}
    assert events == [
        Event("fetch", len(DATA), len(DATA), "bytes", "x_1_amd64.deb"),
        Event("fetch", len(DATA), len(DATA), "bytes", finished=True),
    ]
    assert fetch_blobs(blobs, store, registry.clients(tmp_path)) == 0
    assert dict(registry.requests) == {PATH: 1}


def test_of_many_who_want_a_blob_at_once_one_fetches_it(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    registry.put(PATH, DATA)
    with ThreadPoolExecutor(6) as pool:
        clients = registry.clients(tmp_path)
        running = [pool.submit(fetch_blobs, [locked()], Store(store.root), clients) for _ in range(6)]
        assert [future.exception() for future in running] == [None] * 6
    assert dict(registry.requests) == {PATH: 1}
    assert store.read(digest_of(DATA), len(DATA)) == DATA


def test_other_bytes_are_refused_with_both_digests_and_leave_nothing(
    registry: FakeRegistry, store: Store, tmp_path: Path
) -> None:
    registry.put(PATH, DATA)
    registry.faults[PATH] = Fault(["flip"])
    wrong = digest_of(bytes([DATA[0] ^ 1]) + DATA[1:])
    with pytest.raises(IntegrityError) as caught:
        fetch_blobs([locked()], store, registry.clients(tmp_path))
    assert str(caught.value) == f"debian {KEY}: expected the digest {digest_of(DATA)}, found {wrong}"
    assert not store.has(digest_of(DATA))
    assert not store.has(wrong)
    assert list((store.root / "tmp").iterdir()) == []


def test_more_bytes_than_locked_are_refused_before_they_are_all_read(
    registry: FakeRegistry, store: Store, tmp_path: Path
) -> None:
    registry.put(PATH, DATA)
    with pytest.raises(IntegrityError) as caught:
        fetch_blobs([locked(DATA[:1000])], store, registry.clients(tmp_path))
    assert str(caught.value) == f"debian {KEY}: expected 1000 bytes, found more"


@pytest.mark.parametrize("serves_ranges", [True, False])
def test_a_broken_transfer_goes_on_where_it_stopped(
    registry: FakeRegistry, store: Store, tmp_path: Path, serves_ranges: bool
) -> None:
    registry.put(PATH, DATA)
    registry.serves_ranges = serves_ranges
    registry.faults[PATH] = Fault(["cut:2000000", 503, "cut:700000"])
    pauses: list[float] = []
    found = upstream(registry, tmp_path, pauses).artifact(
        f"{registry.url}{PATH}", store, Expected("x", digest_of(DATA), len(DATA))
    )
    assert (found.digest, found.size) == (digest_of(DATA), len(DATA))
    assert registry.ranges[0] == registry.ranges[1] != "bytes=0-"
    assert len(registry.ranges) == 3
    assert pauses == [1.0, 1.0, 4.0]


def test_retries_end(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    registry.put(PATH, DATA)
    registry.faults[PATH] = Fault([503] * 9)
    pauses: list[float] = []
    with pytest.raises(WorldError) as caught:
        upstream(registry, tmp_path, pauses).artifact(f"{registry.url}{PATH}", store, Expected("x"))
    assert str(caught.value) == f"{registry.url}{PATH}: expected status 200, found 503"
    assert pauses == [1.0] * 4


def test_a_refusal_is_not_tried_again(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    registry.put(PATH, DATA)
    registry.faults[PATH] = Fault([401])
    with pytest.raises(WorldError) as caught:
        upstream(registry, tmp_path, []).artifact(f"{registry.url}{PATH}", store, Expected("x"))
    assert str(caught.value) == f"{registry.url}{PATH}: expected status 200, found 401"


def test_a_blob_that_is_gone_says_what_to_do(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    with pytest.raises(WorldError) as caught:
        fetch_blobs([locked()], store, registry.clients(tmp_path))
    assert str(caught.value) == (
        f"debian {KEY}: no address has it any more: {digest_of(DATA)}, {len(DATA)} bytes\n"
        "hint: take it from a store that has it, name an address in the sources file beside the lock, or lock again"
    )


def test_the_sources_file_helps_where_the_registry_cannot(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    registry.put("/elsewhere", DATA)
    sources = [Source("debian", KEY, f"{registry.url}/elsewhere")]
    assert fetch_blobs([locked()], store, registry.clients(tmp_path), sources=sources) == len(DATA)


def test_a_silent_address_is_named_without_its_password(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    port = registry.url.rpartition(":")[2]
    registry.faults["/x"] = Fault([403])
    url = f"http://me:secret@127.0.0.1:{port}/x"
    with pytest.raises(WorldError) as caught:
        upstream(registry, tmp_path, []).artifact(url, store, Expected("web x"))
    assert str(caught.value) == "web x: the registry refuses it with status 403"
    with pytest.raises(WorldError) as caught:
        upstream(registry, tmp_path, []).document("http://me:secret@127.0.0.1:1/x")
    assert (
        str(caught.value) == "http://127.0.0.1:1/x: no answer: ConnectionRefusedError: [Errno 111] Connection refused"
    )


def test_a_module_info_is_fetched_in_its_lasting_form(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    lasting = b'{"Time":"2020-01-02T03:04:05Z","Version":"v1.0.0"}'
    registry.put("/go/ex.org/m/@v/v1.0.0.info", b'{"Version":"v1.0.0","Time":"2020-01-02T03:04:05Z","Origin":{}}')
    blob = LockedBlob("goproxy", "ex.org/m/@v/v1.0.0.info", digest_of(lasting), len(lasting))
    fetch_blobs([blob], store, registry.clients(tmp_path))
    assert store.read(blob.digest, 100) == lasting


def test_python_files_are_found_through_the_index(registry: FakeRegistry, store: Store, tmp_path: Path) -> None:
    registry.add_file("some-thing", "some_thing-1.0-py3-none-any.whl", DATA)
    blob = LockedBlob("pypi", "some_thing-1.0-py3-none-any.whl", digest_of(DATA), len(DATA))
    assert fetch_blobs([blob], store, registry.clients(tmp_path)) == len(DATA)
    assert dict(registry.requests) == {"/simple/some-thing/": 1, "/files/some_thing-1.0-py3-none-any.whl": 1}


def test_the_sources_file_is_sorted_and_parsed_back() -> None:
    one, two = Source("npm", "a/-/a-1.tgz", "https://b.example/a"), Source("web", "12/x", "https://a.example/x")
    assert parse_sources(format_sources([two, one, two])) == (one, two)
