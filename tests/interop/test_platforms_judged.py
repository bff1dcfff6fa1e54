"""Stock tools judge an index of two platforms that `index` made: the index, and each image in it, in both forms."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.oci.record import ImageRecord, format_record
from packager.oci.reference import parse_reference
from packager.registry.push import push_image
from packager.trust.export import format_engine_policy, format_registries
from packager.trust.keyfiles import Password, write_key_pair
from tests.support.docker_registry import docker_registry
from tests.support.platform_images import TASK, platform_image
from tests.support.sealed_images import KEY, OTHER_KEY
from tests.support.stock_tools import StockTools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.network]


@dataclass(frozen=True)
class Stage:
    """A registry with an index of two images, a mirror of it, and stock tools."""

    host: str
    made: api.Joined
    tools: StockTools

    def names(self) -> list[str]:
        """The index by tag and digest, and each image."""
        digests = [self.made.manifest, *self.made.platforms.values()]
        return [self.made.reference, *(f"{self.host}/home/{TASK}@{digest}" for digest in digests)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("platforms")
    author = api.Place(folder, folder / "store", folder / "keys", password=Password(""))
    author.keys.mkdir()
    write_key_pair(author.keys / "release.key", author.keys / "release.pub", KEY, Password(""))
    with docker_registry(folder / "registry") as host:
        home, mirror = f"{host}/home", f"{host}/mirror"
        records = [platform_image(author.store(), name, name=f"{home}/{TASK}:v1") for name in ("arm64", "amd64")]
        for record in records:
            author.store().set_name("images", TASK, format_record(record))
            api.push(author, TASK, namespace=home, version=None)
        made = api.join_platforms(author, f"{home}/{TASK}:v1", [record.manifest.digest for record in records])
        api.mirror(author, [(made.reference, f"{mirror}/{TASK}:v1")])
        push_image(author.store(), ImageRecord(records[0].manifest), parse_reference(f"{home}/bare:v1"))
        write_files(folder, home, mirror)
        yield Stage(host, made, StockTools(folder))


def write_files(folder: Path, home: str, mirror: str) -> None:
    for name, key in {"release": KEY, "other": OTHER_KEY}.items():
        (folder / f"{name}.pub").write_bytes(key.public.pem)
        (folder / f"{name}.json").write_text(format_engine_policy(home, [mirror], [key.public]))
    (folder / "registries.d").mkdir()
    (folder / "registries.d" / "ours.yaml").write_text(format_registries(home, [mirror]))


@pytest.mark.parametrize("suite", ["trixie", "sid"])
@pytest.mark.parametrize("number", range(4), ids=["tag", "index", "first image", "second image"])
def test_cosign_verifies_the_index_and_each_image(suite: str, number: int, stage: Stage) -> None:
    name = stage.names()[number]
    done = stage.tools.cosign(suite, "verify", "--key", "release.pub", name)
    assert done.exit_code == 0, done.stderr.decode()
    said = {row["critical"]["image"]["docker-manifest-digest"] for row in json.loads(done.stdout)}
    assert said == {stage.made.manifest if number < 2 else name.partition("@")[2]}
    assert stage.tools.cosign(suite, "verify", "--key", "other.pub", name).exit_code != 0


@pytest.mark.parametrize("place", ["home", "mirror"])
@pytest.mark.parametrize(
    "more", [[], ["--all", "--remove-signatures"], ["--override-arch", "arm64"]], ids=["own", "all", "other"]
)
def test_skopeo_takes_one_or_all_of_it_under_our_policy(place: str, more: list[str], stage: Stage) -> None:
    source = f"{stage.host}/{place}/{TASK}:v1"
    done = stage.tools.skopeo("release", source, *more)
    assert done.exit_code == 0, done.stderr.decode()
    refused = stage.tools.skopeo("other", source, *more)
    assert refused.exit_code != 0
    assert b"cryptographic signature verification failed" in refused.stderr


def test_crane_sees_the_index_and_what_it_names_for_each_platform(stage: Stage) -> None:
    done = stage.tools.crane("digest", "--insecure", stage.made.reference)
    assert done.stdout.decode().strip() == stage.made.manifest, done.stderr.decode()
    for platform, digest in stage.made.platforms.items():
        found = stage.tools.crane("digest", "--insecure", "--platform", platform, stage.made.reference)
        assert found.stdout.decode().strip() == digest
