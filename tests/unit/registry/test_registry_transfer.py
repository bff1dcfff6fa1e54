"""Blobs on their way: what is resumed, what is begun anew, what is refused; nothing unverified gets a name."""

from __future__ import annotations

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import IntegrityError, PackError, WorldError
from packager.base.progress import Event, silent
from packager.oci.descriptor import Descriptor, describe
from packager.oci.reference import Reference
from packager.registry.client import RegistryClient
from packager.registry.download import Download
from packager.registry.http import Pacing
from packager.registry.parallel import Meter, Tally
from packager.registry.partial import partial_path
from packager.registry.pull import Pull, pull_image
from packager.registry.push import Push, push_image
from packager.registry.upload import Upload
from packager.store.store import Store
from tests.support.docker_registry import free_port
from tests.support.images import bytes_of, make_image
from tests.support.registry import Fault, MemoryRegistry
from tests.support.registry_contract import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = bytes_of(50_000)
BLOB = describe("application/octet-stream", DATA)
REPOSITORY = "suite/task"
ONCE = Pacing(attempts=1, read_s=5)


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with MemoryRegistry() as registry:
        registry.put_blob(REPOSITORY, DATA)
        yield registry


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def tally() -> Tally:
    return Tally(silent, "test", total=0)


def download(registry: MemoryRegistry, store: Store, blob: Descriptor = BLOB, pacing: Pacing = QUICK) -> None:
    client = RegistryClient(registry.host, environ={}, pacing=pacing)
    Download(client, store, REPOSITORY, blob, Meter(tally())).run()


def upload(registry: MemoryRegistry, path: Path, blob: Descriptor = BLOB, **options: Any) -> None:
    client = RegistryClient(registry.host, environ={}, pacing=options.pop("pacing", QUICK))
    Upload(client, options.pop("repository", REPOSITORY), blob, path, Meter(tally()), **options).run()


def ranges(registry: MemoryRegistry) -> list[str | None]:
    return [seen.headers.get("Range") for seen in registry.seen if seen.method == "GET"]


# -- down --


def test_a_cut_download_goes_on_where_it_was(registry: MemoryRegistry, store: Store) -> None:
    registry.begin(Fault("truncate", 1))
    download(registry, store)
    assert ranges(registry) == [None, "bytes=25000-"]
    assert store.read(BLOB.digest, 1 << 20) == DATA


def test_the_next_run_goes_on_with_what_is_kept(registry: MemoryRegistry, store: Store) -> None:
    registry.begin(Fault("truncate", 1))
    with pytest.raises(WorldError) as caught:
        download(registry, store, pacing=ONCE)
    assert str(caught.value).startswith(f"{registry.host}/{REPOSITORY}: blob {BLOB.digest}: no answer, or only a part")
    assert caught.value.retryable
    assert not store.has(BLOB.digest)
    assert partial_path(store, BLOB.digest).stat().st_size == 25_000
    download(registry, store)
    assert ranges(registry) == [None, "bytes=25000-"]
    assert not partial_path(store, BLOB.digest).exists()
    assert not store.check()


def test_a_wrong_partial_is_dropped_once(registry: MemoryRegistry, store: Store) -> None:
    path = partial_path(store, BLOB.digest)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 20_000)
    download(registry, store)
    assert ranges(registry) == ["bytes=20000-", None]
    assert store.read(BLOB.digest, 1 << 20) == DATA


@pytest.mark.parametrize("size", [50_000, 50_001])
def test_a_partial_that_is_too_long_or_whole_but_wrong_is_dropped(
    registry: MemoryRegistry, store: Store, size: int
) -> None:
    path = partial_path(store, BLOB.digest)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * size)
    download(registry, store)
    assert ranges(registry) == [None]
    assert store.read(BLOB.digest, 1 << 20) == DATA


def test_a_partial_that_is_whole_needs_no_request(registry: MemoryRegistry, store: Store) -> None:
    path = partial_path(store, BLOB.digest)
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    download(registry, store)
    assert registry.seen == []
    assert store.path(BLOB.digest).stat().st_mode & 0o777 == 0o444


def test_a_registry_without_ranges_sends_all_again(registry: MemoryRegistry, store: Store) -> None:
    registry.options.ignores_range = True
    registry.begin(Fault("truncate", 1))
    download(registry, store)
    assert ranges(registry) == [None, "bytes=25000-"]
    assert store.read(BLOB.digest, 1 << 20) == DATA


def test_wrong_bytes_never_get_a_name(registry: MemoryRegistry, store: Store) -> None:
    swapped = DATA[:-1] + bytes([DATA[-1] ^ 1])
    registry.blobs[REPOSITORY][BLOB.digest] = swapped
    for _ in range(2):
        with pytest.raises(IntegrityError) as caught:
            download(registry, store)
        found = describe("", swapped).digest
        assert str(caught.value) == (
            f"{registry.host}/{REPOSITORY}: blob {BLOB.digest}: expected {BLOB.digest}, found {found} (50000 bytes)"
        )
        assert not store.has(BLOB.digest)


@pytest.mark.parametrize("size", [10, 49_999, 50_001])
def test_another_size_is_refused_before_anything_is_read(registry: MemoryRegistry, store: Store, size: int) -> None:
    blob = dataclasses.replace(BLOB, size=size)
    with pytest.raises(IntegrityError) as caught:
        download(registry, store, blob)
    expected = f"expected {size} bytes, found an offer of 50000"
    assert str(caught.value) == f"{registry.host}/{REPOSITORY}: blob {BLOB.digest}: {expected}"
    assert not store.has(BLOB.digest)


def test_a_stalled_download_ends_and_goes_on(registry: MemoryRegistry, store: Store) -> None:
    registry.options.stall_s = 1.5
    registry.begin(Fault("stall", 1))
    download(registry, store, pacing=Pacing(attempts=2, first_wait_s=0.001, read_s=0.3))
    assert ranges(registry) == [None, "bytes=25000-"]
    assert store.read(BLOB.digest, 1 << 20) == DATA


def test_a_trickle_counts_as_a_stall(registry: MemoryRegistry, store: Store) -> None:
    clock = iter(range(0, 10_000, 100))
    pacing = Pacing(attempts=1, read_s=60, slowest_bytes_per_s=1000, now=lambda: float(next(clock)))
    with pytest.raises(WorldError) as caught:
        download(registry, store, pacing=pacing)
    place = f"{registry.host}/{REPOSITORY}: blob {BLOB.digest}"
    assert str(caught.value).startswith(f"{place}: stalled: ")
    assert str(caught.value).endswith(" bytes in 100 s, expected 1000 a second")
    assert caught.value.retryable


def test_a_busy_registry_is_given_the_time_it_asks_for(registry: MemoryRegistry, store: Store) -> None:
    waits: list[float] = []
    pacing = Pacing(attempts=4, first_wait_s=1, longest_wait_s=20, sleep=waits.append, jitter=lambda: 1.0)
    registry.options.extra_headers = {"Retry-After": "7"}
    registry.begin(Fault("500", 1))
    download(registry, store, pacing=pacing)
    registry.options.extra_headers = {
        "Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT",
        "Date": "Sun, 06 Nov 1994 08:00:00 GMT",
    }
    registry.begin(Fault("500", 1))
    download(registry, Store(store.root / "other"), pacing=pacing)
    assert waits == [7.0, 20.0]


def test_one_fault_stops_all_transfers(registry: MemoryRegistry, store: Store, tmp_path: Path) -> None:
    source = Store(tmp_path / "source")
    record = make_image(source, sizes=(1000, 2000, 3000))
    reference = Reference(registry.host, REPOSITORY, "v1")
    push_image(source, record, reference)
    registry.blobs[REPOSITORY].pop(describe("", bytes_of(3000, 102)).digest)
    client = RegistryClient(registry.host, environ={}, pacing=ONCE)
    with pytest.raises(PackError) as caught:
        Pull(client, store, reference).run()
    assert "expected status 200, found 404 (BLOB_UNKNOWN: blob unknown)" in str(caught.value)
    assert not store.has(record.manifest.digest)


def test_progress_adds_up(registry: MemoryRegistry, store: Store, tmp_path: Path) -> None:
    source = Store(tmp_path / "source")
    record = make_image(source, sizes=(9 << 20, 1000))
    events: list[Event] = []
    reference = Reference(registry.host, REPOSITORY, "v1")
    push_image(source, record, reference, progress=events.append)
    pull_image(reference, store, progress=events.append)
    for verb in ("push", "pull"):
        own = [event for event in events if event.task == f"{verb} {reference.name}"]
        assert len(own) >= 3
        assert [event.done for event in own] == sorted(event.done for event in own)
        assert own[-1].done == own[-1].total > 9 << 20
        assert own[-1].finished


def test_what_the_store_has_is_not_fetched(registry: MemoryRegistry, store: Store) -> None:
    store.put(DATA)
    download(registry, store)
    assert registry.seen == []


def test_two_pulls_at_once_fetch_each_blob_once(registry: MemoryRegistry, store: Store, tmp_path: Path) -> None:
    source = Store(tmp_path / "source")
    record = make_image(source, sizes=(200_000, 300_000))
    reference = Reference(registry.host, REPOSITORY, "v1")
    push_image(source, record, reference)
    registry.begin(None)
    with ThreadPoolExecutor(2) as pool:
        found = [future.result() for future in [pool.submit(pull_image, reference, store) for _ in range(2)]]
    assert found == [record, record]
    assert len(registry.requests("GET", "/blobs/")) == 3
    assert not store.check()
    assert not list((store.root / "tmp").iterdir())


def test_a_registry_that_is_not_there_is_named(store: Store) -> None:
    host = f"127.0.0.1:{free_port()}"
    with pytest.raises(WorldError) as caught:
        Pull(RegistryClient(host, environ={}, pacing=ONCE), store, Reference(host, REPOSITORY, "v1")).run()
    assert str(caught.value) == (
        f"{host}/{REPOSITORY}: tag v1: GET http://{host}/v2/{REPOSITORY}/manifests/v1: no answer, or only a part of it:"
        " [Errno 111] Connection refused\nhint: check the host's name and the network, then try again"
    )
    assert caught.value.retryable


# -- up --


@pytest.fixture
def path(store: Store) -> Path:
    store.put(DATA)
    return store.path(BLOB.digest)


def test_a_lost_piece_is_sent_again_from_where_the_registry_is(registry: MemoryRegistry, path: Path) -> None:
    registry.begin(Fault("truncate", 4))  # HEAD, POST, PATCH, and now the second PATCH
    upload(registry, path, repository="new", chunk_bytes=20_000)
    sent = [seen.headers["Content-Range"] for seen in registry.seen if seen.method == "PATCH"]
    assert sent == ["0-19999", "20000-39999", "30000-49999"]
    assert len(registry.requests("POST")) == 1
    assert registry.blobs["new"] == {BLOB.digest: DATA}


def test_416_is_answered_by_asking_where_to_go_on(registry: MemoryRegistry, path: Path) -> None:
    registry.begin(Fault("416", 4))
    upload(registry, path, repository="new", chunk_bytes=20_000)
    assert len(registry.requests("GET", "/blobs/uploads/")) == 1
    assert registry.blobs["new"] == {BLOB.digest: DATA}


def test_a_session_that_is_gone_is_begun_anew(registry: MemoryRegistry, path: Path) -> None:
    registry.begin(Fault("404", 4))
    upload(registry, path, repository="new", chunk_bytes=20_000)
    assert len(registry.requests("POST")) == 2
    assert registry.blobs["new"] == {BLOB.digest: DATA}


def test_a_session_elsewhere_gets_no_credentials_and_keeps_its_query(
    registry: MemoryRegistry, path: Path, tmp_path: Path
) -> None:
    config = {"auths": {registry.host: {"username": "a", "password": "b"}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    registry.options.authentication, registry.options.users = "basic", {"a": "b"}
    with MemoryRegistry() as elsewhere:
        registry.options.upload_host = elsewhere.host
        elsewhere.uploads = registry.uploads
        client = RegistryClient(registry.host, environ={"DOCKER_CONFIG": str(tmp_path)}, pacing=QUICK)
        Upload(client, "new", BLOB, path, Meter(tally())).run()
        assert [seen.method for seen in elsewhere.seen] == ["PUT"]
        assert elsewhere.seen[0].path.endswith(f"?state=a%3Db&digest={BLOB.digest}")
        assert "Authorization" not in elsewhere.seen[0].headers


def test_a_blob_of_another_size_under_the_digest_is_refused(registry: MemoryRegistry, path: Path) -> None:
    registry.blobs[REPOSITORY][BLOB.digest] = DATA + b"x"
    with pytest.raises(IntegrityError) as caught:
        upload(registry, path)
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: blob {BLOB.digest}: the registry holds 50001 bytes, expected 50000"
    )


def test_a_blob_that_is_broken_in_the_store_is_told_from_one_broken_on_its_way(
    registry: MemoryRegistry, path: Path
) -> None:
    path.chmod(0o644)
    path.write_bytes(b"y" + DATA[1:])
    with pytest.raises(IntegrityError) as caught:
        upload(registry, path, repository="new")
    found = describe("", b"y" + DATA[1:]).digest
    assert str(caught.value) == (f"{registry.host}/new: blob {BLOB.digest}: the store holds {found} under that name")
    path.write_bytes(DATA[1:])
    with pytest.raises(IntegrityError) as caught:
        upload(registry, path, repository="new")
    assert str(caught.value) == (
        f"{registry.host}/new: blob {BLOB.digest}: the store holds 49999 bytes, expected 50000"
    )


def test_a_mount_that_is_not_possible_becomes_an_upload(registry: MemoryRegistry, path: Path) -> None:
    upload(registry, path, repository="new", mount_from="suite/none")
    assert registry.requests("POST") == [f"/v2/new/blobs/uploads/?mount={BLOB.digest}&from=suite/none"]
    assert registry.blobs["new"] == {BLOB.digest: DATA}


def test_posts_are_not_repeated_by_the_http_layer(registry: MemoryRegistry, path: Path) -> None:
    registry.begin(Fault("500", 2))
    with pytest.raises(WorldError) as caught:
        upload(registry, path, repository="new", pacing=ONCE)
    assert str(caught.value) == (
        f"{registry.host}/new: blob {BLOB.digest}: expected status 202, found 500 (UNKNOWN: unknown)\n"
        "hint: the registry is in trouble; try again later"
    )
    assert caught.value.retryable
    assert len(registry.requests("POST")) == 1


def test_no_tag_before_everything_else(registry: MemoryRegistry, store: Store) -> None:
    record = make_image(store)
    client = RegistryClient(registry.host, environ={}, pacing=QUICK)
    registry.begin(None)
    Push(client, store, Reference(registry.host, REPOSITORY, "v1")).run(record)
    methods = [(seen.method, seen.path.rpartition("/")[2]) for seen in registry.seen if seen.method == "PUT"]
    assert methods[-2:] == [("PUT", record.manifest.digest), ("PUT", "v1")]
