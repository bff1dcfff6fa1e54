"""Kill -9 at random moments of lock, build, push and pull: what is visible is whole, and the same command completes.

WIDESWE_KILLS says how many moments per verb, WIDESWE_KILL_SEED which.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.oci.manifest import parse_manifest
from packager.sandbox.namespaces import may_mount
from tests.support.docker_registry import docker_registry
from tests.support.killing import (
    REPOSITORY,
    TASK,
    Built,
    Pace,
    Place,
    Ran,
    broken_blobs,
    children,
    copy_store,
    forget_small_layers,
    groups_of,
    moments,
    mounts_below,
    say,
    survivors,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="counts what root's sandboxes leave"),
]

KILLS = int(os.environ.get("WIDESWE_KILLS", "2"))
SEED = int(os.environ.get("WIDESWE_KILL_SEED", "1"))
BASE_BYTES = 20 << 20
LOCK = f"lockfiles/{TASK}.linux-amd64.lock.json"
ACCEPT = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json"


def expect_nothing_half_done(place: Place, *, known: tuple[int, ...] = ()) -> None:
    assert survivors(known) == []
    assert mounts_below(place.store) == []
    assert broken_blobs(place.store) == []


def expect_clean_after(killed: Ran, place: Place) -> None:
    """Look after the next run: no group of the dead, no scraps but downloads, all blobs whole."""
    assert groups_of(killed.pid) == []
    assert [str(path.relative_to(place.store)) for path in (place.store / "tmp").rglob("*")] == []
    assert broken_blobs(place.store) == []


def test_a_killed_build_is_completed_by_the_same_command_with_the_same_digest(built: Built, around: Path) -> None:
    """Every fifth build begins with nothing; the others know the base, so that more moments fall into later steps."""
    words = ("build", "--task", TASK)
    base = built.copied(around / "base")
    assert forget_small_layers(base.store, BASE_BYTES) > 10
    place = replace(base, store=around / "store")

    def begin_with_nothing() -> Place:
        shutil.rmtree(place.store, ignore_errors=True)
        return place

    def begin_with_base() -> Place:
        copy_store(base.store, begin_with_nothing().store)
        return place

    whole, upper = Pace(built.run), Pace(begin_with_base().run(*words))
    assert upper.usual.value()["manifest"] == built.manifest
    for number, part in enumerate(moments("build", KILLS, seed=SEED)):
        pace, begin = (upper, begin_with_base) if number % 5 else (whole, begin_with_nothing)
        _, killed = pace.kill(part, begin, lambda: words)
        expect_nothing_half_done(place)
        assert place.run(*words).value()["manifest"] == built.manifest
        expect_clean_after(killed, place)
    for name, pace in (("whole", whole), ("upper half", upper)):
        say(f"build, {name}: {pace.cut_off} of {KILLS} cut off; usual {pace.usual.seconds:.1f} s")
    assert whole.cut_off + upper.cut_off > KILLS // 2


@pytest.mark.network
def test_a_killed_lock_leaves_no_half_lock_and_the_same_command_writes_the_same_bytes(
    built: Built, around: Path
) -> None:
    words = ("lock", "--task", TASK)
    root = around / "suite"
    for name in ("recipes", "images", "lockfiles"):
        shutil.copytree(REPOSITORY / name, root / name)

    def begin() -> Place:
        shutil.rmtree(around / "store", ignore_errors=True)
        (root / LOCK).unlink()
        return replace(built.copied(around / "store"), root=root)

    pace = Pace(begin().run(*words))
    pace.usual.value()
    expected = {path.name: path.read_bytes() for path in (root / "lockfiles").iterdir()}
    for part in moments("lock", KILLS, seed=SEED):
        place, killed = pace.kill(part, begin, lambda: words)
        expect_nothing_half_done(place)
        assert not (root / LOCK).exists() or (root / LOCK).read_bytes() == expected[LOCK.rpartition("/")[2]]
        place.run(*words).value()
        found = {path.name: path.read_bytes() for path in (root / "lockfiles").iterdir() if path.name[0] != "."}
        assert found == expected
        expect_clean_after(killed, place)
    say(f"lock: {pace.cut_off} of {KILLS} cut off; usual {pace.usual.seconds:.1f} s")
    assert pace.cut_off > KILLS // 2


def test_a_killed_push_shows_no_tag_or_a_whole_image_and_the_same_command_completes(built: Built, around: Path) -> None:
    with docker_registry(around / "registry") as host:
        server = tuple(children())
        place = built.copied(around / "store")
        namespaces: list[str] = []

        def words() -> tuple[str, ...]:
            namespaces.append(f"n{len(namespaces)}")
            return ("push", "--task", TASK, "--to", f"{host}/{namespaces[-1]}")

        pace = Pace(place.run(*words()))
        for part in moments("push", KILLS, seed=SEED):
            _, killed = pace.kill(part, lambda: place, words)
            expect_nothing_half_done(place, known=server)
            assert tagged(host, namespaces[-1]) in (None, built.manifest)
            again = place.run("push", "--task", TASK, "--to", f"{host}/{namespaces[-1]}")
            assert again.value()["manifest"] == built.manifest
            assert tagged(host, namespaces[-1]) == built.manifest
            expect_clean_after(killed, place)
    say(f"push: {pace.cut_off} of {KILLS} cut off; usual {pace.usual.seconds:.1f} s")
    assert pace.cut_off > KILLS // 2


def test_a_killed_pull_shows_no_record_before_all_is_there_and_the_same_command_completes(
    built: Built, around: Path
) -> None:
    with docker_registry(around / "registry") as host:
        server = tuple(children())
        built.place.run("push", "--task", TASK, "--to", f"{host}/kill").value()
        words = ("pull", f"{host}/kill/{TASK}:v1")
        place = built.empty(around / "store")

        def begin() -> Place:
            shutil.rmtree(place.store, ignore_errors=True)
            return place

        pace = Pace(begin().run(*words))
        for part in moments("pull", KILLS, seed=SEED):
            _, killed = pace.kill(part, begin, lambda: words)
            expect_nothing_half_done(place, known=server)
            if (place.store / "names/images" / TASK).exists():
                assert missing_blobs(place.store, built.manifest) == []
            assert place.run(*words).value()["manifest"] == built.manifest
            assert missing_blobs(place.store, built.manifest) == []
            expect_clean_after(killed, place)
        assert {check["ok"] for check in place.run("verify", TASK).value()} == {True}
    say(f"pull: {pace.cut_off} of {KILLS} cut off; usual {pace.usual.seconds:.1f} s")
    assert pace.cut_off > KILLS // 2


def tagged(host: str, namespace: str) -> str | None:
    """Return the digest that the registry's tag names, once everything below it was found there too."""
    home = f"http://{host}/v2/{namespace}/{TASK}"
    data = got(f"{home}/manifests/v1")
    if data is None:
        return None
    manifest, name = parse_manifest(data), digest_of(data).replace(":", "-")
    for blob in (manifest.config, *manifest.layers):
        with urllib.request.urlopen(urllib.request.Request(f"{home}/blobs/{blob.digest}", method="HEAD")) as response:
            assert response.headers["Content-Length"] == str(blob.size)
    referrers = got(f"{home}/manifests/{name}")  # this registry has no list of its own
    assert referrers is not None
    assert len(json.loads(referrers)["manifests"]) == 2  # the signature's bundle and the grant
    assert got(f"{home}/manifests/{name}.sig") is not None
    return digest_of(data)


def got(url: str) -> bytes | None:
    """Return what a registry has, or None."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host)
    try:
        connection.request("GET", f"/{path}", headers={"Accept": ACCEPT})
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    assert answer.status in (200, 404)
    return data if answer.status == 200 else None


def missing_blobs(store: Path, digest: str) -> list[str]:
    """Return the blobs of an image that a store lacks."""
    folder = store / "blobs" / "sha256"
    path = folder / digest.removeprefix("sha256:")
    if not path.is_file():
        return [digest]
    manifest = parse_manifest(path.read_bytes())
    names = [blob.digest.removeprefix("sha256:") for blob in (manifest.config, *manifest.layers)]
    return [name for name in names if not (folder / name).is_file()]
