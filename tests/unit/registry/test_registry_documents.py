"""Manifests, indexes, tags and referrers from a registry that lies, loses or floods."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest

from packager.base.canonical import format_canonical
from packager.base.errors import InputError, IntegrityError, PackError, WorldError
from packager.oci.descriptor import Descriptor, describe, format_descriptor
from packager.oci.manifest import (
    EMPTY_BYTES,
    EMPTY_DESCRIPTOR,
    MEDIA_INDEX,
    MEDIA_MANIFEST,
    Index,
    Manifest,
    format_index,
    format_manifest,
)
from packager.oci.reference import Reference
from packager.registry.client import RegistryClient, signature_tag
from packager.registry.pull import pull_image
from packager.registry.push import push_image
from packager.registry.referrers import list_referrers
from packager.store.store import Store
from tests.support.images import BUNDLE_TYPE, make_full_image, make_image, make_referrer
from tests.support.registry import MemoryRegistry
from tests.support.registry_contract import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.digests import Digest

REPOSITORY = "suite/task"


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with MemoryRegistry() as registry:
        yield registry


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def client(registry: MemoryRegistry) -> RegistryClient:
    return RegistryClient(registry.host, environ={}, pacing=QUICK)


def reference(registry: MemoryRegistry, tag: str = "v1") -> Reference:
    return Reference(registry.host, REPOSITORY, tag)


def put_referrer(registry: MemoryRegistry, subject: Descriptor, number: int) -> Descriptor:
    data = b'{"n":%d}' % number
    registry.put_blob(REPOSITORY, data)
    registry.put_blob(REPOSITORY, EMPTY_BYTES)
    manifest = Manifest(EMPTY_DESCRIPTOR, (describe(BUNDLE_TYPE, data),), artifact_type=BUNDLE_TYPE, subject=subject)
    document = format_manifest(manifest)
    registry.put_manifest(REPOSITORY, document, MEDIA_MANIFEST)
    return describe(MEDIA_MANIFEST, document)


def put_fallback(registry: MemoryRegistry, subject: Digest, *entries: Descriptor) -> None:
    data = format_index(Index(entries))
    registry.put_manifest(REPOSITORY, data, MEDIA_INDEX, signature_tag(subject))


# -- documents --


def test_a_manifest_that_is_not_what_its_digest_says_is_refused(
    registry: MemoryRegistry, client: RegistryClient
) -> None:
    data = format_manifest(Manifest(EMPTY_DESCRIPTOR, (), artifact_type="x"))
    digest = registry.put_manifest(REPOSITORY, data, MEDIA_MANIFEST)
    other = format_manifest(Manifest(EMPTY_DESCRIPTOR, (), artifact_type="y"))
    registry.manifests[REPOSITORY][digest] = (MEDIA_MANIFEST, other)
    found = describe("", other).digest
    with pytest.raises(IntegrityError) as caught:
        client.get_manifest(REPOSITORY, digest)
    expected = f"expected {digest}, found {found} ({len(other)} bytes)"
    assert str(caught.value) == f"{registry.host}/{REPOSITORY}: manifest {digest}: {expected}"


@pytest.mark.parametrize(
    ("served", "field", "text"),
    [
        (MEDIA_INDEX, MEDIA_MANIFEST, f".mediaType: expected {MEDIA_INDEX}, found {MEDIA_MANIFEST}"),
        (MEDIA_MANIFEST, MEDIA_INDEX, f".mediaType: expected {MEDIA_MANIFEST}, found {MEDIA_INDEX}"),
        ("application/json", MEDIA_MANIFEST, ": expected a manifest or an index, found 'application/json'"),
        (
            "application/vnd.docker.distribution.manifest.v2+json",
            MEDIA_MANIFEST,
            f": served as application/vnd.docker.distribution.manifest.v2+json, but its mediaType is {MEDIA_MANIFEST}",
        ),
    ],
)
def test_the_header_and_the_document_must_agree(
    registry: MemoryRegistry, client: RegistryClient, served: str, field: str, text: str
) -> None:
    value = {"schemaVersion": 2, "mediaType": field, "config": format_descriptor(EMPTY_DESCRIPTOR), "layers": []}
    data = format_canonical(value | {"artifactType": "x"})
    registry.put_manifest(REPOSITORY, data, served, "v1")
    with pytest.raises(PackError) as caught:
        client.get_manifest(REPOSITORY, "v1")
    assert str(caught.value) == f"{registry.host}/{REPOSITORY}: tag v1{text}"


def test_a_document_of_two_kinds_is_refused(registry: MemoryRegistry, client: RegistryClient) -> None:
    value = {"schemaVersion": 2, "config": format_descriptor(EMPTY_DESCRIPTOR), "layers": [], "manifests": []}
    registry.put_manifest(REPOSITORY, format_canonical(value), MEDIA_MANIFEST, "v1")
    with pytest.raises(InputError) as caught:
        client.get_manifest(REPOSITORY, "v1")
    expected = "expected a document of one kind, found the field manifests too"
    assert str(caught.value) == f"{registry.host}/{REPOSITORY}: tag v1: {expected}"


def test_a_manifest_without_end_is_not_read_to_it(registry: MemoryRegistry, client: RegistryClient) -> None:
    registry.put_manifest(REPOSITORY, b" " * (6 << 20), MEDIA_MANIFEST, "v1")
    with pytest.raises(WorldError) as caught:
        client.get_manifest(REPOSITORY, "v1")
    expected = f"expected an answer of at most {4 << 20} bytes, found more"
    assert str(caught.value) == f"{registry.host}/{REPOSITORY}: tag v1: {expected}"


@pytest.mark.parametrize("name", ["../../x", "v1?x=1", "", "sha256:abc", "a" * 129])
def test_a_name_cannot_leave_its_place_in_the_url(client: RegistryClient, name: str) -> None:
    with pytest.raises(InputError) as caught:
        client.get_manifest(REPOSITORY, name)
    assert str(caught.value) == f"reference: neither a tag nor a digest: {name[:120]!r}"


@pytest.mark.parametrize("name", ["../x", "a//b", "A", "a/", "a?b", ""])
def test_a_repository_cannot_leave_its_place_in_the_url(client: RegistryClient, name: str) -> None:
    with pytest.raises(InputError) as caught:
        client.list_tags(name)
    assert str(caught.value) == f"{client.host}: not the name of a repository: {name!r}"


# -- tags --


def test_tags_come_in_pages(registry: MemoryRegistry, client: RegistryClient) -> None:
    data = format_manifest(Manifest(EMPTY_DESCRIPTOR, (), artifact_type="x"))
    for tag in "abcde":
        registry.put_manifest(REPOSITORY, data, MEDIA_MANIFEST, tag)
    registry.options.page = 2
    assert client.list_tags(REPOSITORY) == list("abcde")
    assert len(registry.seen) == 3


@pytest.mark.parametrize(
    ("link", "text"),
    [
        ("<https://thief.example/v2/x>", "the next page is at another host"),
        ("</v2/suite/task/tags/list?n=1000>", "the list of pages does not end"),
    ],
)
def test_pages_do_not_lead_away_or_in_a_circle(
    registry: MemoryRegistry, client: RegistryClient, link: str, text: str
) -> None:
    data = format_manifest(Manifest(EMPTY_DESCRIPTOR, (), artifact_type="x"))
    registry.put_manifest(REPOSITORY, data, MEDIA_MANIFEST, "v1")
    registry.options.extra_headers = {"Link": f'{link}; rel="next"'}
    with pytest.raises(WorldError) as caught:
        client.list_tags(REPOSITORY)
    assert str(caught.value) == f"{registry.host}/{REPOSITORY}: tags: {text}"


# -- referrers --


def test_referrers_come_in_pages_and_from_both_lists_once(
    registry: MemoryRegistry, client: RegistryClient, store: Store
) -> None:
    record = make_image(store)
    push_image(store, record, reference(registry))
    entries = [put_referrer(registry, record.manifest, number) for number in range(5)]
    put_fallback(registry, record.manifest.digest, entries[0])
    registry.options.page = 2
    found = list_referrers(client, REPOSITORY, record.manifest.digest)
    assert [entry.digest for entry in found] == [entry.digest for entry in entries]


def test_an_endless_list_of_referrers_is_refused(
    registry: MemoryRegistry, client: RegistryClient, store: Store
) -> None:
    record = make_image(store)
    push_image(store, record, reference(registry))
    for number in range(65):
        put_referrer(registry, record.manifest, number)
    registry.options.page = 10
    with pytest.raises(WorldError) as caught:
        list_referrers(client, REPOSITORY, record.manifest.digest)
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: referrers of {record.manifest.digest}: expected at most 64 referrers, found 65"
        "\nhint: remove referrers that are no longer needed, or keep them in another repository"
    )


def test_a_referrer_of_something_else_is_refused(registry: MemoryRegistry, store: Store) -> None:
    record = make_image(store)
    other = make_image(store, seed=2)
    push_image(store, record, reference(registry))
    stray = put_referrer(registry, other.manifest, 1)
    put_fallback(registry, record.manifest.digest, stray)
    with pytest.raises(IntegrityError) as caught:
        pull_image(reference(registry), store)
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: referrer {stray.digest}: expected it to refer to {record.manifest.digest},"
        f" found that it refers to {other.manifest.digest}"
    )


def test_a_listed_referrer_that_is_gone_is_left_out(registry: MemoryRegistry, store: Store) -> None:
    record = make_image(store)
    push_image(store, record, reference(registry))
    gone = describe(MEDIA_MANIFEST, b"gone")
    put_fallback(registry, record.manifest.digest, gone)
    assert pull_image(reference(registry), store).referrers == ()


def test_wrong_artifact_types_in_the_list_do_not_matter(registry: MemoryRegistry, store: Store) -> None:
    record = make_image(store)
    push_image(store, record, reference(registry))
    entry = put_referrer(registry, record.manifest, 1)
    registry.options.referrers_api = False
    put_fallback(
        registry, record.manifest.digest, dataclasses.replace(entry, artifact_type=EMPTY_DESCRIPTOR.media_type)
    )
    (found,) = pull_image(reference(registry), store).referrers
    assert (found.digest, found.artifact_type) == (entry.digest, BUNDLE_TYPE)


def test_the_fallback_tag_keeps_what_others_wrote_there(registry: MemoryRegistry, store: Store, tmp_path: Path) -> None:
    record = make_image(store)
    registry.options.referrers_api = False
    push_image(store, record, reference(registry))
    theirs = put_referrer(registry, record.manifest, 1)
    put_fallback(registry, record.manifest.digest, theirs)
    ours = make_referrer(store, record.manifest, data=b"ours")
    push_image(store, dataclasses.replace(record, referrers=(ours,)), reference(registry))
    tag = registry.tags[REPOSITORY][signature_tag(record.manifest.digest)]
    entries = json.loads(registry.manifests[REPOSITORY][tag][1])["manifests"]
    assert [entry["digest"] for entry in entries] == [theirs.digest, ours.digest]
    assert entries[1]["artifactType"] == BUNDLE_TYPE
    assert entries[1]["annotations"] == {"about": "a test"}
    found = pull_image(reference(registry), Store(tmp_path / "other")).referrers
    assert {entry.digest for entry in found} == {theirs.digest, ours.digest}


def test_a_fallback_tag_that_is_no_list_is_not_overwritten(registry: MemoryRegistry, store: Store) -> None:
    record = make_image(store)
    registry.options.referrers_api = False
    push_image(store, record, reference(registry, signature_tag(record.manifest.digest)))
    ours = make_referrer(store, record.manifest)
    with pytest.raises(WorldError) as caught:
        push_image(store, dataclasses.replace(record, referrers=(ours,)), reference(registry))
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: tag {signature_tag(record.manifest.digest)}: expected an index, found"
        f" {MEDIA_MANIFEST}\nhint: the tag is reserved for the list of referrers; remove what was pushed there"
    )
    assert "v1" not in registry.tags[REPOSITORY]


@pytest.mark.report(6)
def test_a_huge_attachment_is_refused_before_it_is_fetched(
    registry: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    record = make_image(store)
    push_image(store, record, reference(registry))
    layer = dataclasses.replace(describe(BUNDLE_TYPE, b"x"), size=2 << 30)
    manifest = Manifest(EMPTY_DESCRIPTOR, (layer,), artifact_type=BUNDLE_TYPE, subject=record.manifest)
    registry.put_manifest(REPOSITORY, format_manifest(manifest), MEDIA_MANIFEST)
    registry.begin(None)
    with pytest.raises(InputError) as caught:
        pull_image(reference(registry), Store(tmp_path / "other"))
    where = f"{registry.host}/{REPOSITORY}: what refers to {record.manifest.digest}"
    assert str(caught.value) == f"{where}: expected at most {1 << 30} bytes, found {(2 << 30) + 2}"
    assert registry.requests("GET", "/blobs/") == []


# -- whole images --


def test_a_reference_with_tag_and_digest_means_the_digest(
    registry: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    first, second = make_image(store), make_image(store, seed=2)
    push_image(store, first, reference(registry))
    push_image(store, second, reference(registry))
    both = dataclasses.replace(reference(registry), digest=first.manifest.digest)
    assert pull_image(both, Store(tmp_path / "other")) == first


def test_a_tag_is_resolved_once_and_everything_else_goes_by_digest(
    registry: MemoryRegistry, store: Store, tmp_path: Path
) -> None:
    record = make_full_image(store)
    push_image(store, record, reference(registry))
    registry.begin(None)
    pull_image(reference(registry), Store(tmp_path / "other"))
    named = [path.rpartition("/")[2] for path in registry.requests("GET", "/manifests/")]
    assert [name for name in named if not name.startswith("sha256")] == ["v1"]


def test_an_image_needs_a_tag_or_a_digest(registry: MemoryRegistry, store: Store) -> None:
    with pytest.raises(InputError) as caught:
        pull_image(Reference(registry.host, REPOSITORY), store)
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: expected a tag or a digest\nhint: add :tag, or @sha256:… which cannot change"
    )


def test_a_push_under_another_digest_is_refused(registry: MemoryRegistry, store: Store) -> None:
    first, second = make_image(store), make_image(store, seed=2)
    wanted = dataclasses.replace(reference(registry), digest=second.manifest.digest)
    with pytest.raises(InputError) as caught:
        push_image(store, first, wanted)
    assert str(caught.value) == f"{wanted}: expected the image {second.manifest.digest}, found {first.manifest.digest}"
    assert registry.seen == []


def test_a_referrer_of_another_image_is_not_pushed(registry: MemoryRegistry, store: Store) -> None:
    first, second = make_image(store), make_image(store, seed=2)
    stray = make_referrer(store, second.manifest)
    with pytest.raises(InputError) as caught:
        push_image(store, dataclasses.replace(first, referrers=(stray,)), reference(registry))
    assert str(caught.value) == (
        f"referrer {stray.digest}: expected it to refer to {first.manifest.digest}, found that it refers to"
        f" {second.manifest.digest}"
    )
    assert registry.seen == []


def test_what_is_not_in_the_store_is_not_pushed_in_part(registry: MemoryRegistry, store: Store) -> None:
    record = make_full_image(store)
    store.path(record.referrers[0].digest).unlink()
    with pytest.raises(WorldError):
        push_image(store, record, reference(registry))
    assert registry.seen == []


def test_two_sizes_for_one_digest_are_refused(registry: MemoryRegistry, store: Store) -> None:
    layer = Descriptor("application/x", EMPTY_DESCRIPTOR.digest, 3)
    data = format_manifest(Manifest(EMPTY_DESCRIPTOR, (layer,), artifact_type="x"))
    registry.put_manifest(REPOSITORY, data, MEDIA_MANIFEST, "v1")
    with pytest.raises(InputError) as caught:
        pull_image(reference(registry), store)
    digest = describe("", data).digest
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: manifest {digest}: {EMPTY_DESCRIPTOR.digest} has two sizes: 2 and 3"
    )
