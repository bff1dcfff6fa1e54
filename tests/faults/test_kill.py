"""Kill -9 at random moments of lock, build, push and pull: what is visible is whole, and the same command completes.

WIDESWE_KILLS says how many moments per verb, WIDESWE_KILL_SEED which. The inputs come from the network, or from
WIDESWE_INPUTS.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.oci.manifest import parse_manifest
from packager.sandbox.namespaces import may_mount
from tests.support.docker_registry import docker_registry
from tests.support.killing import (
    REPOSITORY,
    TASK,
    Place,
    Ran,
    adopt_orphans,
    broken_blobs,
    copy_store,
    forget_small_layers,
    groups_of,
    moments,
    mounts_below,
    survivors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="counts what root's sandboxes leave")]

KILLS = int(os.environ.get("WIDESWE_KILLS", "2"))
SEED = int(os.environ.get("WIDESWE_KILL_SEED", str(random.SystemRandom().randrange(10**6))))
BASE_BYTES = 20 << 20
LOCK = f"lockfiles/{TASK}.linux-amd64.lock.json"
ACCEPT = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class Built:
    """A store in which everything was done once without being disturbed, and how long that took."""

    place: Place
    manifest: str
    duration_s: float

    def empty(self, folder: Path) -> Place:
        """Return a place with an empty store."""
        return replace(self.place, store=folder)

    def copied(self, folder: Path) -> Place:
        """Return a place whose store has the same content."""
        copy_store(self.place.store, folder)
        return replace(self.place, store=folder)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    adopt_orphans()
    folder = tmp_path_factory.mktemp("kill")
    place = Place(folder / "store", folder / "keys")
    fetched = place.run("fetch", "--task", TASK, "--into", str(folder / "inputs"))
    if fetched.exit_code == 6:
        pytest.skip(f"the locked inputs cannot be had: {fetched.stderr}")
    fetched.value()
    place.run("keygen").value()
    place = replace(place, inputs=folder / "inputs")
    started = time.monotonic()
    manifest = place.run("build", "--task", TASK).value()["manifest"]
    duration_s = time.monotonic() - started
    place.run("sign", "--task", TASK, "--home", "registry.example.org/kill").value()
    yield Built(place, manifest, duration_s)
    shutil.rmtree(folder)


@pytest.fixture
def around(built: Built, tmp_path: Path) -> Iterator[Path]:
    """Give a folder beside the built store (links do not cross file systems), and take it away again."""
    folder = built.place.store.parent / tmp_path.name
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def expect_nothing_half_done(place: Place, *, known: tuple[int, ...] = ()) -> None:
    assert survivors(known) == []
    assert mounts_below(place.store) == []
    assert broken_blobs(place.store) == []


def expect_clean_after(killed: Ran, place: Place) -> None:
    """Look after the next run: no group of the dead, no scraps but downloads, all blobs whole."""
    assert groups_of(killed.pid) == []
    assert [path.name for path in (place.store / "tmp").glob("*")] == []
    assert broken_blobs(place.store) == []


def test_a_killed_build_is_completed_by_the_same_command_with_the_same_digest(built: Built, around: Path) -> None:
    """Every third build begins with nothing; the others know the base, so that more moments fall into later steps."""
    base = built.copied(around / "base")
    assert forget_small_layers(base.store, BASE_BYTES) > 10
    copy_store(base.store, around / "timed")
    started = time.monotonic()
    assert replace(base, store=around / "timed").run("build", "--task", TASK).value()["manifest"] == built.manifest
    warm_s = time.monotonic() - started
    shutil.rmtree(around / "timed")
    cut_off = 0
    for number, part in enumerate(moments(1.0, verb="build", count=KILLS, seed=SEED)):
        place = replace(base, store=around / "store")
        if number % 3 == 0:
            killed = place.killed(part * built.duration_s, "build", "--task", TASK)
        else:
            copy_store(base.store, place.store)
            killed = place.killed(part * warm_s, "build", "--task", TASK)
        cut_off += killed.exit_code == -9
        expect_nothing_half_done(place)
        assert place.run("build", "--task", TASK).value()["manifest"] == built.manifest
        expect_clean_after(killed, place)
        shutil.rmtree(place.store)
    print(
        f"build: {cut_off} of {KILLS} killed before their end; usual {built.duration_s:.1f} s, {warm_s:.1f} s on a base"
    )
    assert cut_off > 0


@pytest.mark.network
def test_a_killed_lock_leaves_no_half_lock_and_the_same_command_writes_the_same_bytes(
    built: Built, around: Path
) -> None:
    root = around / "suite"
    for name in ("recipes", "images", "lockfiles"):
        shutil.copytree(REPOSITORY / name, root / name)
    (root / LOCK).unlink()
    place = replace(built.copied(around / "first"), root=root)
    started = time.monotonic()
    place.run("lock", "--task", TASK).value()
    duration_s = time.monotonic() - started
    expected = {path.name: path.read_bytes() for path in (root / "lockfiles").iterdir()}
    cut_off = 0
    for moment in moments(duration_s, verb="lock", count=KILLS, seed=SEED):
        shutil.rmtree(place.store)
        (root / LOCK).unlink()
        place = replace(built.copied(around / "first"), root=root)
        killed = place.killed(moment, "lock", "--task", TASK)
        cut_off += killed.exit_code == -9
        expect_nothing_half_done(place)
        assert not (root / LOCK).exists() or (root / LOCK).read_bytes() == expected[Path(LOCK).name]
        place.run("lock", "--task", TASK).value()
        found = {path.name: path.read_bytes() for path in (root / "lockfiles").iterdir() if path.name[0] != "."}
        assert found == expected
        expect_clean_after(killed, place)
    print(f"lock: {cut_off} of {KILLS} killed before their end; usual {duration_s:.1f} s")
    assert cut_off > 0


def test_a_killed_push_shows_no_tag_or_a_whole_image_and_the_same_command_completes(built: Built, around: Path) -> None:
    with docker_registry(around / "registry") as host:
        server = tuple(int(line.split()[0]) for line in survivors_now())
        place = built.copied(around / "store")
        started = time.monotonic()
        place.run("push", "--task", TASK, "--to", f"{host}/first").value()
        duration_s = time.monotonic() - started
        cut_off = 0
        for number, moment in enumerate(moments(duration_s, verb="push", count=KILLS, seed=SEED)):
            words = ("push", "--task", TASK, "--to", f"{host}/n{number}")
            killed = place.killed(moment, *words)
            cut_off += killed.exit_code == -9
            expect_nothing_half_done(place, known=server)
            assert tagged(host, f"n{number}") in (None, built.manifest)
            assert place.run(*words).value()["manifest"] == built.manifest
            assert tagged(host, f"n{number}") == built.manifest
            expect_clean_after(killed, place)
    print(f"push: {cut_off} of {KILLS} killed before their end; usual {duration_s:.1f} s")
    assert cut_off > 0


def test_a_killed_pull_shows_no_record_before_all_is_there_and_the_same_command_completes(
    built: Built, around: Path
) -> None:
    with docker_registry(around / "registry") as host:
        server = tuple(int(line.split()[0]) for line in survivors_now())
        built.place.run("push", "--task", TASK, "--to", f"{host}/kill").value()
        words = ("pull", f"{host}/kill/{TASK}:v1")
        started = time.monotonic()
        built.empty(around / "first").run(*words).value()
        duration_s = time.monotonic() - started
        cut_off = 0
        for moment in moments(duration_s, verb="pull", count=KILLS, seed=SEED):
            place = built.empty(around / "store")
            shutil.rmtree(place.store, ignore_errors=True)
            killed = place.killed(moment, *words)
            cut_off += killed.exit_code == -9
            expect_nothing_half_done(place, known=server)
            if (place.store / "names/images" / TASK).exists():
                assert missing_blobs(place.store, built.manifest) == []
            assert place.run(*words).value()["manifest"] == built.manifest
            assert missing_blobs(place.store, built.manifest) == []
            expect_clean_after(killed, place)
        assert [check["ok"] for check in place.run("verify", TASK).value()] == [True] * 9
    print(f"pull: {cut_off} of {KILLS} killed before their end; usual {duration_s:.1f} s")
    assert cut_off > 0


def survivors_now() -> list[str]:
    """Return the children that run on purpose."""
    return [f"{pid}" for pid in _own_children()]


def _own_children() -> list[int]:
    return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def tagged(host: str, namespace: str) -> str | None:
    """Return the digest that the registry's tag names, once everything below it was found there too."""
    home = f"http://{host}/v2/{namespace}/{TASK}"
    request = urllib.request.Request(f"{home}/manifests/v1", headers={"Accept": ACCEPT})
    try:
        with urllib.request.urlopen(request) as response:
            data = response.read()
    except urllib.error.HTTPError as error:
        assert error.code == 404
        error.close()
        return None
    manifest = parse_manifest(data)
    for blob in (manifest.config, *manifest.layers):
        with urllib.request.urlopen(urllib.request.Request(f"{home}/blobs/{blob.digest}", method="HEAD")) as response:
            assert response.headers["Content-Length"] == str(blob.size)
    with urllib.request.urlopen(f"{home}/referrers/{digest_of(data)}") as response:
        assert len(json.loads(response.read())["manifests"]) == 2  # the signature's bundle and the grant
    return digest_of(data)


def missing_blobs(store: Path, digest: str) -> list[str]:
    """Return the blobs of an image that a store lacks."""
    folder = store / "blobs" / "sha256"
    path = folder / digest.removeprefix("sha256:")
    if not path.is_file():
        return [digest]
    manifest = parse_manifest(path.read_bytes())
    names = [blob.digest.removeprefix("sha256:") for blob in (manifest.config, *manifest.layers)]
    return [name for name in names if not (folder / name).is_file()]
