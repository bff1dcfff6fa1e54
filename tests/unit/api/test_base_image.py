"""Base images by digest: pulled once, held against their own config, and the first stage of a build."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.api.base_image import fetch_base, pull_base
from packager.base.digests import DiffId, Digest, digest_of
from packager.base.errors import InputError, IntegrityError
from packager.build.execute import Stage
from packager.build.image import image_blobs, image_stage
from packager.lock.model import Lock, LockedBase, LockedFiles, format_lock, parse_lock
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import Descriptor, describe
from packager.oci.layer import Layer
from packager.oci.manifest import (
    MEDIA_CONFIG,
    MEDIA_DOCKER_LAYER_GZIP,
    MEDIA_INDEX,
    MEDIA_LAYER_GZIP,
    MEDIA_MANIFEST,
    Index,
    Manifest,
    format_index,
    format_manifest,
)
from packager.store.store import Store
from tests.support.registry import MemoryRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TAR = bytes(10240)
BLOB = gzip.compress(TAR, mtime=0)
CONFIG = ImageConfig(
    "amd64", (DiffId(digest_of(TAR)),), env=("B=2=2", "A=1"), labels={"l": "1"}, workdir="/w", cmd=("sh",), user="0"
)


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with MemoryRegistry() as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def publish(registry: MemoryRegistry, config: ImageConfig = CONFIG, layers: tuple[bytes, ...] = (BLOB,)) -> Descriptor:
    """Publish an image at made/base and return its manifest's descriptor."""
    data = format_config(config)
    rows = tuple(describe(MEDIA_DOCKER_LAYER_GZIP, layer) for layer in layers)
    manifest = format_manifest(Manifest(describe(MEDIA_CONFIG, data), rows))
    for blob in (data, *layers):
        registry.put_blob("made/base", blob)
    registry.put_manifest("made/base", manifest, MEDIA_MANIFEST)
    return describe(MEDIA_MANIFEST, manifest)


def pull(registry: MemoryRegistry, store: Store, digest: str) -> Digest:
    return pull_base(f"{registry.host}/made/base@{digest}", store, platform="linux/amd64")


def test_an_image_becomes_the_first_stage(registry: MemoryRegistry, store: Store) -> None:
    found = pull(registry, store, publish(registry).digest)
    layer = Layer(DiffId(digest_of(TAR)), digest_of(BLOB), len(BLOB), len(TAR), MEDIA_LAYER_GZIP)
    stage = Stage((layer,), (("A", "1"), ("B", "2=2")), (("l", "1"),), "/w", ("sh",))
    assert image_stage(store, found) == stage
    assert image_stage(store, found) == stage
    assert registry.requests("GET", "referrers") == []


def test_of_an_index_the_platforms_own_image_is_taken(registry: MemoryRegistry, store: Store) -> None:
    ours, other = publish(registry), publish(registry, replace(CONFIG, architecture="arm64"))
    rows = (replace(other, platform="linux/arm64/v8"), replace(ours, platform="linux/amd64"))
    index = registry.put_manifest("made/base", format_index(Index(rows)), MEDIA_INDEX)
    assert pull(registry, store, index) == ours.digest
    image = f"{registry.host}/made/base@{index}"
    assert pull_base(image, store, platform="linux/arm64") == other.digest
    with pytest.raises(InputError) as caught:
        pull_base(image, store, platform="linux/arm")
    assert str(caught.value) == (
        f"{image}: expected one image for linux/arm, found 0\nhint: the index has: linux/amd64, linux/arm64/v8"
    )


def test_an_image_for_another_platform_is_refused(registry: MemoryRegistry, store: Store) -> None:
    digest = publish(registry, replace(CONFIG, architecture="arm64")).digest
    with pytest.raises(InputError) as caught:
        pull(registry, store, digest)
    assert str(caught.value) == (
        f"{registry.host}/made/base@{digest}: expected an image for linux/amd64, found one for linux/arm64"
    )


def lock_of(digest: Digest) -> Lock:
    return Lock(
        "t",
        "linux/amd64",
        digest_of(b"r"),
        digest_of(b"t"),
        LockedBase(image=digest, manifest=digest),
        LockedFiles(digest_of(b"p"), {}, {}),
    )


def test_what_a_lock_pins_is_fetched_whole_and_only_once(registry: MemoryRegistry, store: Store) -> None:
    row = publish(registry)
    image = f"{registry.host}/made/base@{row.digest}"
    lock = parse_lock(format_lock(lock_of(row.digest)))
    sizes = {
        row.digest: row.size,
        digest_of(BLOB): len(BLOB),
        digest_of(format_config(CONFIG)): len(format_config(CONFIG)),
    }
    assert fetch_base(image, lock, store) == sizes
    asked = len(registry.requests("GET"))
    assert fetch_base(image, lock, store) == sizes
    assert len(registry.requests("GET")) == asked
    store.path(digest_of(BLOB)).unlink()
    assert fetch_base(image, lock, store) == sizes
    assert store.has(digest_of(BLOB))
    assert fetch_base(None, lock, store) == {}


def refused(registry: MemoryRegistry, store: Store, config: ImageConfig, layers: tuple[bytes, ...] = (BLOB,)) -> str:
    found = pull(registry, store, publish(registry, config, layers).digest)
    with pytest.raises((InputError, IntegrityError)) as caught:
        image_stage(store, found)
    return str(caught.value).replace(found, "M")


def test_an_image_that_is_not_what_its_config_says_is_refused(registry: MemoryRegistry, store: Store) -> None:
    wrong = replace(CONFIG, diff_ids=(DiffId(digest_of(b"")),))
    assert refused(registry, store, wrong) == (
        f"{digest_of(BLOB)}: expected diff id {digest_of(b'')}, found {digest_of(TAR)}"
    )
    assert refused(registry, store, CONFIG, (BLOB, BLOB)) == (
        "base image M: expected 1 layers as in its config, found 2"
    )
    assert refused(registry, store, replace(CONFIG, user="nobody")) == (
        "base image M: expected an image that runs as root, found user 'nobody'\n"
        "hint: commands of a task run as root; choose an image without USER"
    )
    torn = replace(CONFIG, diff_ids=(DiffId(digest_of(b"x")),))
    assert refused(registry, store, torn, (BLOB[:-9],)).startswith(f"{digest_of(BLOB[:-9])}: not a gzip stream: ")


def test_an_image_consists_of_its_config_and_its_layers(registry: MemoryRegistry, store: Store) -> None:
    found = pull(registry, store, publish(registry).digest)
    assert [blob.digest for blob in image_blobs(store, found)] == [digest_of(format_config(CONFIG)), digest_of(BLOB)]
