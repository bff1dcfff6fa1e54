"""Several platforms under one name: who makes the index, who takes what from it, and who may not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.errors import InputError, PackError, TrustError
from packager.oci.manifest import MEDIA_INDEX, Index, format_index, parse_index
from packager.oci.record import ImageRecord, format_record
from packager.sandbox.foreign import own_platform
from packager.trust.keyfiles import Password, write_key_pair
from packager.trust.signatures import signature_tag
from tests.support.platform_images import HOME, TASK, platform_image
from tests.support.registry import MemoryRegistry
from tests.support.sealed_images import KEY, OTHER_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.digests import Digest

REPOSITORY = f"wideswe/{TASK}"


@pytest.fixture
def registry() -> Iterator[MemoryRegistry]:
    with MemoryRegistry() as found:
        yield found


@pytest.fixture(scope="module")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    keys = tmp_path_factory.mktemp("keys")
    write_key_pair(keys / "release.key", keys / "release.pub", KEY, Password(""))
    return keys


@pytest.fixture
def author(key_files: Path, tmp_path: Path) -> api.Place:
    keys = Path(shutil.copytree(key_files, tmp_path / "keys"))
    return api.Place(tmp_path, tmp_path / "store", keys, password=Password(""))


@pytest.fixture
def lab(author: api.Place, tmp_path: Path) -> api.Place:
    return replace(author, store_root=tmp_path / "lab")


def push(place: api.Place, registry: MemoryRegistry, record: ImageRecord, *, version: str | None = None) -> Digest:
    """Make an image the task's and push it, by digest if no version is named."""
    place.store().set_name("images", TASK, format_record(record))
    api.push(place, TASK, namespace=f"{registry.host}/wideswe", version=version)
    return record.manifest.digest


def push_both(place: api.Place, registry: MemoryRegistry) -> list[Digest]:
    return [push(place, registry, platform_image(place.store(), name)) for name in ("arm64", "amd64")]


def join(place: api.Place, registry: MemoryRegistry, *digests: str, tag: str = "v1") -> api.Joined:
    return api.join_platforms(place, f"{registry.host}/{REPOSITORY}:{tag}", digests)


def refusal(place: api.Place, registry: MemoryRegistry, *digests: str, tag: str = "v1") -> str:
    with pytest.raises(PackError) as caught:
        join(place, registry, *digests, tag=tag)
    return str(caught.value).replace(registry.host, "HOST")


def test_a_lab_gets_the_image_of_its_platform_by_the_one_name(
    author: api.Place, lab: api.Place, registry: MemoryRegistry
) -> None:
    arm, amd = push_both(author, registry)
    assert registry.tags[REPOSITORY].keys() == {signature_tag(arm), signature_tag(amd)}
    made = join(author, registry, arm, f"{registry.host}/{REPOSITORY}@{amd}")
    assert made.platforms == {"linux/amd64": amd, "linux/arm64": arm}
    assert registry.tags[REPOSITORY]["v1"] == made.manifest
    for platform, digest in made.platforms.items():
        pulled = api.pull(lab, made.reference, platform=platform)
        assert (pulled.task, pulled.manifest) == (TASK, digest)
        assert all(check.ok for check in api.verify(lab, TASK))
    assert api.pull(lab, made.reference).manifest == made.platforms[own_platform()]
    assert api.pull(lab, made.reference, offline=True).manifest == made.platforms[own_platform()]
    with pytest.raises(InputError) as caught:
        api.pull(lab, made.reference, platform="linux/riscv64")
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: index {made.manifest}: expected one image for linux/riscv64, found 0\n"
        "hint: the index has: linux/amd64, linux/arm64"
    )


def test_the_index_is_signed_in_both_forms_and_the_same_every_time(author: api.Place, registry: MemoryRegistry) -> None:
    arm, amd = push_both(author, registry)
    made = join(author, registry, arm, amd)
    before = (dict(registry.manifests[REPOSITORY]), dict(registry.blobs[REPOSITORY]))
    assert join(author, registry, amd, arm, amd) == made
    assert (registry.manifests[REPOSITORY], registry.blobs[REPOSITORY]) == before
    kind, data = registry.manifests[REPOSITORY][made.manifest]
    children = parse_index(data).manifests
    assert kind == MEDIA_INDEX
    assert [(child.platform, child.digest) for child in children] == [("linux/amd64", amd), ("linux/arm64", arm)]
    assert signature_tag(made.manifest) in registry.tags[REPOSITORY]  # type: ignore[arg-type]
    about = [data for _, data in registry.manifests[REPOSITORY].values() if made.manifest.encode() in data]
    assert len(about) == 1, "the bundle, by its subject"
    registry.check()


def test_an_author_needs_no_layer_of_the_other_platform(
    author: api.Place, lab: api.Place, registry: MemoryRegistry
) -> None:
    arm, amd = push_both(author, registry)
    registry.begin(None)
    join(lab, registry, arm, amd)
    sizes = {len(registry.blobs[REPOSITORY][path.rpartition("/")[2]]) for path in registry.requests("GET", "/blobs/")}
    assert max(sizes) < 2000, "no layer was fetched"


def test_pushing_one_platform_again_does_not_take_the_name_from_the_others(
    author: api.Place, registry: MemoryRegistry
) -> None:
    arm, amd = push_both(author, registry)
    made = join(author, registry, arm, amd)
    push(author, registry, author.record(TASK), version="v1")
    assert registry.tags[REPOSITORY]["v1"] == made.manifest
    other = push(author, registry, platform_image(author.store(), "amd64", content=b"new"), version="v1")
    assert registry.tags[REPOSITORY]["v1"] == other, "another image takes the tag, as ever"


def test_a_mirror_copies_the_index_with_its_images_and_all_signatures(
    author: api.Place, lab: api.Place, registry: MemoryRegistry
) -> None:
    made = join(author, registry, *push_both(author, registry))
    with MemoryRegistry() as other:
        (copied,) = api.mirror(lab, [(made.reference, f"{other.host}/copy/{TASK}:v1")])
        assert copied.manifest == made.manifest
        for digest in (made.manifest, *made.platforms.values()):
            assert signature_tag(digest) in other.tags[f"copy/{TASK}"]  # type: ignore[arg-type]
        assert api.pull(lab, copied.reference, platform="linux/arm64").manifest == made.platforms["linux/arm64"]
        assert all(check.ok for check in api.verify(lab, TASK))


def test_what_does_not_go_together_is_refused(author: api.Place, registry: MemoryRegistry) -> None:
    store = author.store()
    arm, amd = push_both(author, registry)
    place = f"HOST/{REPOSITORY}"
    later = push(author, registry, platform_image(store, "riscv64", name=f"{HOME}/{TASK}:v2"))
    assert refusal(author, registry, amd, later) == (
        f"{place}:v1: expected images that are all signed as {TASK}:v1, found {HOME}/{TASK}:v2\n"
        f"hint: its digest is {later}"
    )
    assert refusal(author, registry, arm, tag="v2") == (
        f"{place}:v2: expected images that are all signed as {TASK}:v2, found {HOME}/{TASK}:v1\n"
        f"hint: its digest is {arm}"
    )
    strange = push(author, registry, platform_image(store, "s390x", name=f"{HOME}/other-001:v1"))
    assert refusal(author, registry, strange) == (
        f"{place}:v1: expected images that are all signed as {TASK}:v1, found {HOME}/other-001:v1\n"
        f"hint: its digest is {strange}"
    )
    twice = push(author, registry, platform_image(store, "amd64", content=b"another"))
    assert refusal(author, registry, amd, twice) == (
        f"{place}:v1: expected one image for each platform, found two for linux/amd64"
    )
    made = join(author, registry, arm, amd)
    assert refusal(author, registry, made.manifest) == (
        f"{place}: manifest {made.manifest}: expected the manifest of an image, found an index"
    )
    assert refusal(author, registry) == f"{place}:v1: expected images to put into the index, found none"
    with pytest.raises(InputError) as caught:
        api.join_platforms(author, f"{registry.host}/{REPOSITORY}", [arm])
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: expected a tag for the index\nhint: REGISTRY/NAMESPACE/TASK:VERSION"
    )


def test_what_our_key_has_not_signed_gets_no_name(author: api.Place, registry: MemoryRegistry) -> None:
    store = author.store()
    foreign = push(author, registry, platform_image(store, "arm64", key=OTHER_KEY))
    ours = KEY.public.fingerprint[:16]
    assert refusal(author, registry, foreign) == (
        f"HOST/{REPOSITORY}: manifest {foreign}: legacy signature: the signature was not made over these bytes by any "
        f"given key ({ours})\nhint: sign it with the release key and push it again"
    )
    record = platform_image(store, "amd64")
    digest = push(author, registry, record)
    for entry in record.referrers:
        del registry.manifests[REPOSITORY][entry.digest]
    with pytest.raises(TrustError) as caught:
        join(author, registry, digest)
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: manifest {digest}: bundle signature: expected 1 to 32 bundles, found 0\n"
        "hint: sign it with the release key and push it again"
    )
    assert "v1" not in registry.tags[REPOSITORY]


def test_an_index_that_lies_about_a_platform_is_found_out(
    author: api.Place, lab: api.Place, registry: MemoryRegistry
) -> None:
    arm, amd = push_both(author, registry)
    record = author.record(TASK)
    lie = format_index(Index((replace(record.manifest, platform="linux/arm64"),)))
    registry.put_manifest(REPOSITORY, lie, MEDIA_INDEX, "v1")
    with pytest.raises(InputError) as caught:
        api.pull(lab, f"{registry.host}/{REPOSITORY}:v1", platform="linux/arm64")
    assert str(caught.value) == (
        f"{registry.host}/{REPOSITORY}: expected an image for linux/arm64, found one for linux/amd64"
    )
    assert lab.store().names("images") == []
    wrong = replace(record.manifest, platform="linux/arm64", size=record.manifest.size + 1)
    index = registry.put_manifest(REPOSITORY, format_index(Index((wrong,))), MEDIA_INDEX, "v1")
    with pytest.raises(PackError) as other:
        api.pull(lab, f"{registry.host}/{REPOSITORY}:v1", platform="linux/arm64")
    assert str(other.value).startswith(
        f"{registry.host}/{REPOSITORY}: index {index}: expected {record.manifest.size + 1} bytes of an image's manifest"
    )
    assert arm != amd


def test_a_suite_lists_every_platform_and_is_mirrored_with_the_one_name(
    author: api.Place, lab: api.Place, registry: MemoryRegistry, tmp_path: Path
) -> None:
    api.keygen(author)
    digests: list[Digest] = []
    for architecture in ("arm64", "amd64"):
        digests.append(push(author, registry, platform_image(author.store(), architecture)))
        request = api.SuiteRequest(home=HOME, tasks=(TASK,))
        if architecture == "arm64":
            api.create_suite(author, "wideswe", request)
        else:
            api.update_suite(author, "wideswe", request)
    source = f"{registry.host}/wideswe"
    api.push_suite(author, "wideswe", namespace=source)
    keys = tmp_path / "lab-keys"
    keys.mkdir()
    policy = api.export_trust(author, api.ExportRequest("trust.yaml"), api.Trust(suite="wideswe"))
    (keys / "trust.yaml").write_text(policy.replace("validated: true", "validated: false"))
    there = replace(lab, keys=keys)
    with MemoryRegistry() as other:
        target = f"{other.host}/copy"
        with pytest.raises(PackError) as caught:
            api.mirror_suite(there, (source, target), "wideswe")
        assert str(caught.value).startswith(f"{source}/{TASK}: tag v1: ")
        made = join(author, registry, *digests)
        names = [copied.reference for copied in api.mirror_suite(there, (source, target), "wideswe")]
        assert names == [f"{target}/{what}" for what in (f"{TASK}:v1", "wideswe-suite:v2", "wideswe-suite:latest")]
        assert other.tags[f"copy/{TASK}"]["v1"] == made.manifest
        for platform in made.platforms:
            api.pull(there, f"{target}/{TASK}:v1", platform=platform)
            checks = api.verify(there, TASK)
            assert [(check.name, check.ok) for check in checks if check.name == "listed"] == [("listed", True)]
        few = api.join_platforms(author, f"{source}/{TASK}:v1", digests[:1])
        with pytest.raises(PackError) as wrong:
            api.mirror_suite(there, (source, target), "wideswe")
        assert str(wrong.value) == (
            f"{source}/{TASK}:v1: expected an index of exactly the images that the suite lists\n"
            f"hint: wideswe-pack index {source}/{TASK}:v1 {' '.join(sorted(digests))}"
        )
        assert few.manifest != made.manifest
