"""From registry to registry: what hangs on an image comes along, digests stay, and nothing moves twice."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import InputError, IntegrityError, WorldError
from packager.oci.descriptor import describe
from packager.oci.manifest import MEDIA_INDEX, Index, format_index
from packager.oci.reference import Reference
from packager.registry.client import Document, RegistryClient, signature_tag
from packager.registry.mirror import Mirror, Mirrored
from packager.registry.partial import partial_path
from packager.registry.pull import pull_image
from packager.registry.push import Manner, push_image
from packager.store.store import Store
from tests.support.images import layers_of, make_full_image, make_image, make_referrer, make_signature
from tests.support.registry import Fault, MemoryRegistry, Options
from tests.support.registry_contract import QUICK, as_sets
from tests.support.suite_images import make_suite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.progress import Event

REPOSITORY = "suite/task"


@pytest.fixture
def source() -> Iterator[MemoryRegistry]:
    with MemoryRegistry() as registry:
        yield registry


@pytest.fixture(params=[True, False], ids=["referrers API", "fallback tag"])
def target(request: pytest.FixtureRequest) -> Iterator[MemoryRegistry]:
    with MemoryRegistry(Options(referrers_api=request.param, says_subject=request.param)) as registry:
        yield registry


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "author")


def mirror_of(source: MemoryRegistry, target: MemoryRegistry, folder: Path, **more: Any) -> Mirror:
    clients = [RegistryClient(registry.host, environ={}, pacing=QUICK) for registry in (source, target)]
    return Mirror(clients[0], clients[1], Store(folder / "transit"), **more)


def at(registry: MemoryRegistry, tag: str | None = "v1", repository: str = REPOSITORY) -> Reference:
    return Reference(registry.host, repository, tag)


def leftovers(folder: Path) -> list[str]:
    """Files of the store that a copy went through, but for locks."""
    root = folder / "transit"
    return [name for where, _, names in os.walk(root) for name in names if not where.endswith("/locks")]


def test_an_image_is_copied_with_all_that_hangs_on_it(
    source: MemoryRegistry, target: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    record = make_full_image(store)
    attested = dataclasses.replace(make_signature(store, record.manifest, b"attested"))
    attested = dataclasses.replace(attested, tag=signature_tag(record.manifest.digest, ".att"))
    record = dataclasses.replace(record, signatures=(*record.signatures, attested))
    push_image(store, record, at(source))
    done = mirror_of(source, target, tmp_path).run(at(source), at(target, None, "elsewhere/copy"))
    assert (done.manifest, done.moved) == (record.manifest.digest, done.blobs)
    pulled = pull_image(at(target, "v1", "elsewhere/copy"), Store(tmp_path / "lab"))
    assert as_sets(pulled) == as_sets(record)
    target.check()
    assert leftovers(tmp_path) == []


def test_a_second_copy_moves_no_blob(
    source: MemoryRegistry, target: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    record = make_full_image(store)
    push_image(store, record, at(source))
    mirror = mirror_of(source, target, tmp_path)
    first = mirror.run(at(source), at(target))
    source.begin(None)
    target.begin(None)
    second = mirror.run(at(source), at(target))
    assert second == Mirrored(record.manifest.digest, first.blobs, 0, 0)
    assert source.requests("GET", "/blobs/") == []
    assert [seen.method for seen in target.seen if "/blobs/" in seen.path] == ["HEAD"] * first.blobs


def test_a_new_signature_moves_alone(
    source: MemoryRegistry, target: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    record = make_full_image(store)
    push_image(store, record, at(source))
    mirror = mirror_of(source, target, tmp_path)
    mirror.run(at(source), at(target))
    more = dataclasses.replace(
        record, referrers=(*record.referrers, make_referrer(store, record.manifest, data=b"new"))
    )
    push_image(store, more, at(source))
    assert mirror.run(at(source), at(target)).moved == 1
    assert as_sets(pull_image(at(target), Store(tmp_path / "lab"))) == as_sets(more)


def test_an_index_is_copied_with_its_images(
    source: MemoryRegistry, target: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    records = [make_full_image(store, sizes=(1000 * n, 2000)) for n in (1, 2)]
    for record in records:
        push_image(store, record, at(source, None))
    children = [dataclasses.replace(record.manifest, platform="linux/amd64") for record in records]
    data = format_index(Index(tuple(children)))
    document = Document(describe(MEDIA_INDEX, data), data)
    RegistryClient(source.host, environ={}, pacing=QUICK).put_manifest(REPOSITORY, "both", document)
    done = mirror_of(source, target, tmp_path).run(at(source, "both"), at(target, "other"))
    assert done.manifest == document.descriptor.digest
    assert target.tags[REPOSITORY]["other"] == document.descriptor.digest
    for record in records:
        reference = dataclasses.replace(at(target, None), digest=record.manifest.digest)
        assert as_sets(pull_image(reference, Store(tmp_path / record.manifest.digest[-8:]))) == as_sets(record)


def test_an_index_of_indexes_is_refused(source: MemoryRegistry, target: MemoryRegistry, tmp_path: Path) -> None:
    client = RegistryClient(source.host, environ={}, pacing=QUICK)
    inner = format_index(Index(()))
    client.put_manifest(REPOSITORY, "inner", Document(describe(MEDIA_INDEX, inner), inner))
    outer = format_index(Index((describe(MEDIA_INDEX, inner),)))
    client.put_manifest(REPOSITORY, "outer", Document(describe(MEDIA_INDEX, outer), outer))
    with pytest.raises(InputError) as caught:
        mirror_of(source, target, tmp_path).run(at(source, "outer"), at(target))
    place = f"{source.host}/{REPOSITORY}: manifest {describe('', outer).digest}"
    assert str(caught.value) == f"{place}: expected an index of images, found an index of indexes"
    assert target.seen == []


def test_layers_of_a_suite_move_once_and_are_mounted_from_then_on(
    source: MemoryRegistry, target: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    suite = make_suite(store, 3, size=5000)
    for task, record in suite.items():
        push_image(store, record, at(source, "v1", f"suite/{task}"))
    mirror = mirror_of(source, target, tmp_path)
    moved = [mirror.run(at(source, "v1", f"suite/{task}"), at(target, "v1", f"copy/{task}")).moved for task in suite]
    assert moved[1] == moved[2] == moved[0] - 3, "two shared layers, and the empty config of referrers"
    base = layers_of(store, suite["hello-wide-001"])[1]
    assert len(source.requests("GET", f"/blobs/{base}")) == 1


def test_what_the_store_has_is_not_fetched(source: MemoryRegistry, target: MemoryRegistry, store: Store) -> None:
    record = make_image(store)
    push_image(store, record, at(source))
    source.begin(None)
    clients = [RegistryClient(registry.host, environ={}, pacing=QUICK) for registry in (source, target)]
    assert Mirror(clients[0], clients[1], store).run(at(source), at(target)).moved == 3
    assert source.requests("GET", "/blobs/") == []
    assert not store.check()


def test_a_lost_copy_goes_on_where_it_was(
    source: MemoryRegistry, target: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    record = make_image(store, sizes=(50_000,))
    layer = layers_of(store, record)[1]
    push_image(store, record, at(source))
    mirror = mirror_of(source, target, tmp_path, manner=Manner(workers=1))
    hasty = RegistryClient(source.host, environ={}, pacing=dataclasses.replace(QUICK, attempts=1))
    source.begin(None)
    mirror.run(at(source), at(target, "first"))
    place = [seen.path for seen in source.seen].index(f"/v2/{REPOSITORY}/blobs/{layer}") + 1
    target.blobs.clear()
    source.begin(Fault("truncate", place))
    with pytest.raises(WorldError):
        dataclasses.replace(mirror, source=hasty).run(at(source), at(target))
    assert partial_path(mirror.store, layer).stat().st_size == 25_000
    source.begin(None)
    mirror.run(at(source), at(target))
    assert [seen.headers.get("Range") for seen in source.seen if layer in seen.path] == ["bytes=25000-"]
    assert not partial_path(mirror.store, layer).exists()


def test_wrong_bytes_never_arrive(source: MemoryRegistry, target: MemoryRegistry, store: Store, tmp_path: Path) -> None:
    record = make_image(store)
    push_image(store, record, at(source))
    layer = layers_of(store, record)[1]
    data = source.blobs[REPOSITORY][layer]
    source.blobs[REPOSITORY][layer] = data[:-1] + bytes([data[-1] ^ 1])
    found = describe("", source.blobs[REPOSITORY][layer]).digest
    with pytest.raises(IntegrityError) as caught:
        mirror_of(source, target, tmp_path).run(at(source), at(target))
    assert str(caught.value) == (
        f"{source.host}/{REPOSITORY}: blob {layer}: expected {layer}, found {found} ({len(data)} bytes)"
    )
    assert layer not in target.blobs.get(REPOSITORY, {})
    assert REPOSITORY not in target.manifests


def test_a_destination_with_a_digest_is_refused(
    source: MemoryRegistry, target: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    record = make_image(store)
    reference = dataclasses.replace(at(target), digest=record.manifest.digest)
    with pytest.raises(InputError) as caught:
        mirror_of(source, target, tmp_path).run(at(source), reference)
    assert str(caught.value) == (
        f"{reference}: expected no digest in the destination\nhint: the digest there is that of the source"
    )


def test_both_ways_count_in_one_bar(
    source: MemoryRegistry, target: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    record = make_image(store, sizes=(9 << 20, 1000))
    push_image(store, record, at(source))
    events: list[Event] = []
    mirror_of(source, target, tmp_path, progress=events.append).run(at(source), at(target))
    assert {event.task for event in events} == {f"mirror {target.host}/{REPOSITORY}"}
    assert events[-1].finished
    assert events[-1].done == events[-1].total > 18 << 20
