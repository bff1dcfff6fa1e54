"""What every registry must do for us: one suite for the registry in this process and for the real one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError, WorldError
from packager.base.progress import silent
from packager.oci.descriptor import describe
from packager.oci.manifest import MEDIA_INDEX, MEDIA_MANIFEST, Index, format_index
from packager.oci.reference import Reference
from packager.registry.client import Document, RegistryClient, signature_tag
from packager.registry.http import Pacing
from packager.registry.parallel import Meter, Tally
from packager.registry.pull import pull_image
from packager.registry.push import Manner, Push, push_image
from packager.registry.referrers import list_referrers
from packager.registry.upload import Upload
from packager.store.store import Store
from tests.support.images import bytes_of, make_full_image, make_image, make_referrer, make_signature

if TYPE_CHECKING:
    from pathlib import Path

    from packager.oci.record import ImageRecord

QUICK = Pacing(attempts=3, first_wait_s=0.001, longest_wait_s=0.01, connect_s=5, read_s=5)


def as_sets(record: ImageRecord) -> tuple[object, ...]:
    """What a record names, in no order: a pulled one says more of a referrer than one that a test made."""
    referrers, grants = ({entry.digest for entry in entries} for entries in (record.referrers, record.grants))
    return record.manifest, record.signatures, referrers, grants


class RegistryContract:
    """Tests over the fixture `host`, which names a registry that takes anonymous pushes."""

    @pytest.fixture
    def client(self, host: str) -> RegistryClient:
        return RegistryClient(host, environ={}, pacing=QUICK)

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return Store(tmp_path / "store")

    def reference(self, host: str, tag: str | None = "v1") -> Reference:
        return Reference(host, "suite/task", tag)

    def test_what_is_pushed_is_what_is_pulled(self, host: str, store: Store, tmp_path: Path) -> None:
        record = make_full_image(store)
        pushed = push_image(store, record, self.reference(host))
        other = Store(tmp_path / "other")
        pulled = pull_image(self.reference(host), other)
        assert pushed == record.manifest.digest
        assert as_sets(pulled) == as_sets(record)
        assert not other.check()
        for descriptor in record.manifests():
            assert other.read(descriptor.digest, 1 << 20) == store.read(descriptor.digest, 1 << 20)

    def test_pull_by_digest_needs_no_tag(self, host: str, store: Store, tmp_path: Path) -> None:
        record = make_image(store)
        push_image(store, record, self.reference(host, tag=None))
        reference = dataclasses.replace(self.reference(host, tag=None), digest=record.manifest.digest)
        assert pull_image(reference, Store(tmp_path / "other")) == record

    def test_a_second_push_sends_no_blob_and_changes_nothing(self, host: str, store: Store, tmp_path: Path) -> None:
        record = make_full_image(store)
        for _ in range(2):
            push_image(store, record, self.reference(host))
        assert as_sets(pull_image(self.reference(host), Store(tmp_path / "other"))) == as_sets(record)

    def test_large_blobs_go_in_pieces(self, host: str, store: Store, tmp_path: Path, client: RegistryClient) -> None:
        record = make_image(store, sizes=(300_000, 10))
        Push(client, store, self.reference(host), manner=Manner(chunk_bytes=64_000)).run(record)
        other = Store(tmp_path / "other")
        assert pull_image(self.reference(host), other) == record
        assert not other.check()

    def test_an_empty_blob_comes_and_goes(self, host: str, store: Store, tmp_path: Path) -> None:
        record = make_image(store, sizes=(0, 1))
        push_image(store, record, self.reference(host))
        assert pull_image(self.reference(host), Store(tmp_path / "other")) == record

    def test_blobs_are_mounted_from_another_repository(self, host: str, store: Store, client: RegistryClient) -> None:
        record = make_image(store)
        push_image(store, record, self.reference(host))
        layer = describe("application/octet-stream", bytes_of(5000, 100))
        upload = Upload(
            client,
            "suite/second",
            layer,
            store.path(layer.digest).with_name("absent"),  # mounted: never read
            Meter(Tally(silent, "test", total=0)),
            "suite/task",
        )
        assert upload.start() is None

    def test_tags_are_listed_in_order(self, host: str, store: Store, client: RegistryClient) -> None:
        record = make_image(store)
        for tag in ("v2", "v10", "a"):
            push_image(store, record, self.reference(host, tag))
        assert client.list_tags("suite/task") == ["a", "v10", "v2"]

    def test_head_says_what_a_tag_is(self, host: str, store: Store, client: RegistryClient) -> None:
        record = make_image(store)
        push_image(store, record, self.reference(host))
        assert client.head_manifest("suite/task", "v1") == record.manifest
        assert client.head_manifest("suite/task", record.manifest.digest) == record.manifest
        assert client.head_manifest("suite/task", "v2") is None

    def test_a_missing_image_is_named(self, host: str, store: Store) -> None:
        with pytest.raises(WorldError) as caught:
            pull_image(Reference(host, "suite/none", "v1"), store)
        assert str(caught.value).startswith(f"{host}/suite/none: tag v1: expected status 200, found 404")
        assert "\nhint: check the name; registries also say so of repositories" in str(caught.value)

    def test_two_pushers_of_referrers_do_not_lose_each_other(self, host: str, store: Store, tmp_path: Path) -> None:
        record = make_image(store)
        subject = record.manifest
        first = dataclasses.replace(record, referrers=(make_referrer(store, subject, data=b"one"),))
        second = dataclasses.replace(record, referrers=(make_referrer(store, subject, data=b"two"),))
        push_image(store, first, self.reference(host))
        push_image(store, second, self.reference(host))
        pulled = pull_image(self.reference(host), Store(tmp_path / "other"))
        assert as_sets(pulled)[2] == {entry.digest for entry in (*first.referrers, *second.referrers)}

    def test_signatures_of_others_are_not_dropped(self, host: str, store: Store) -> None:
        record = make_image(store)
        ours = dataclasses.replace(record, signatures=(make_signature(store, record.manifest, b"ours"),))
        theirs = dataclasses.replace(record, signatures=(make_signature(store, record.manifest, b"theirs"),))
        push_image(store, theirs, self.reference(host))
        with pytest.raises(WorldError) as caught:
            push_image(store, ours, self.reference(host))
        tag = signature_tag(record.manifest.digest, ".sig")
        assert str(caught.value) == (
            f"{host}/suite/task: tag {tag}: holds signatures that are not in the store\n"
            "hint: pull the image with its signatures and sign it again, or remove the tag from the registry"
        )

    def test_a_manifest_is_stored_byte_for_byte(self, host: str, store: Store, client: RegistryClient) -> None:
        record = make_image(store)
        push_image(store, record, self.reference(host))
        data = store.read(record.manifest.digest, 1 << 20) + b"\n"
        document = Document(describe(MEDIA_MANIFEST, data), data)
        client.put_manifest("suite/task", "odd", document)
        assert client.get_manifest("suite/task", "odd") == document

    def test_an_index_without_our_platform_is_refused_by_name(
        self, host: str, store: Store, client: RegistryClient
    ) -> None:
        record = make_image(store)
        push_image(store, record, self.reference(host))
        child = dataclasses.replace(record.manifest, platform="linux/amd64")
        data = format_index(Index((child,)))
        document = Document(describe(MEDIA_INDEX, data), data)
        client.put_manifest("suite/task", "many", document)
        with pytest.raises(InputError) as caught:
            pull_image(self.reference(host, "many"), store, platform="linux/riscv64")
        assert str(caught.value) == (
            f"{host}/suite/task: index {document.descriptor.digest}: expected one image for linux/riscv64, found 0\n"
            "hint: the index has: linux/amd64"
        )

    def test_nothing_refers_to_an_image_that_nobody_signed(
        self, host: str, store: Store, client: RegistryClient
    ) -> None:
        record = make_image(store)
        push_image(store, record, self.reference(host))
        assert list_referrers(client, "suite/task", record.manifest.digest) == []
