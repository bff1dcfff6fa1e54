"""podman pulls under the policy.json that we export, by tag and by digest, and loads the bundles that we write."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import hex_of
from packager.oci.manifest import parse_manifest
from packager.oci.record import ImageRecord
from packager.oci.reference import parse_reference
from packager.registry.bundle_export import Export
from packager.registry.client import RegistryClient
from packager.registry.joining import Joining
from packager.registry.push import push_image
from packager.store.store import Store
from packager.trust.export import format_engine_policy, format_registries
from tests.support.docker_registry import docker_registry
from tests.support.newer_programs import NewerPodman, newer_podman
from tests.support.platform_images import TASK, platform_image
from tests.support.sealed_images import KEY, OTHER_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.network]


@dataclass(frozen=True)
class Stage:
    """A registry with one image under several names, and podman with policies."""

    host: str
    store: Store
    record: ImageRecord
    podman: NewerPodman


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("policed")
    store = Store(folder / "store")
    with docker_registry(folder / "registry") as host:
        home, mirror = f"{host}/home", f"{host}/mirror"
        podman = newer_podman(folder / "podman", format_registries(home, [mirror]))
        record = platform_image(store, "amd64", name=f"{home}/{TASK}:v1")
        for name, pushed in (
            (f"{home}/{TASK}:v1", record),
            (f"{mirror}/{TASK}:v1", record),
            (f"{home}/moved:v1", record),
            (f"{home}/bare:v1", ImageRecord(record.manifest)),
        ):
            push_image(store, pushed, parse_reference(name))
        join(store, f"{home}/several/{TASK}:v1")
        write_policies(podman, home, mirror)
        yield Stage(host, store, record, podman)


def join(store: Store, name: str) -> None:
    """Publish an index of two platforms."""
    records = [platform_image(store, architecture, name=name) for architecture in ("amd64", "arm64")]
    reference = parse_reference(name)
    for record in records:
        push_image(store, record, replace(reference, tag=None))
    with contextlib.closing(RegistryClient(reference.registry)) as client:
        Joining(client, store, reference, KEY).run([record.manifest.digest for record in records])


def write_policies(podman: NewerPodman, home: str, mirror: str) -> None:
    policies = {
        "ours": format_engine_policy(home, [mirror], [KEY.public]),
        "two": format_engine_policy(home, [mirror], [OTHER_KEY.public, KEY.public]),
        "wrong": format_engine_policy(home, [mirror], [OTHER_KEY.public]),
        "elsewhere": format_engine_policy(f"{home}/other", [], [KEY.public]),
    }
    for name, text in policies.items():
        (podman.folder / f"{name}.json").write_text(text)


WRONG_KEY = "cryptographic signature verification failed"
PULLS = [
    ("ours", f"home/{TASK}:v1", ""),
    ("ours", f"home/{TASK}@DIGEST", ""),
    ("ours", f"mirror/{TASK}:v1", ""),
    ("ours", f"mirror/{TASK}@DIGEST", ""),
    ("two", f"home/{TASK}:v1", ""),
    ("ours", f"home/several/{TASK}:v1", ""),
    ("wrong", f"home/several/{TASK}:v1", WRONG_KEY),
    ("wrong", f"home/{TASK}:v1", WRONG_KEY),
    ("wrong", f"home/{TASK}@DIGEST", WRONG_KEY),
    ("wrong", f"mirror/{TASK}:v1", WRONG_KEY),
    ("ours", "home/moved:v1", "is not accepted"),
    ("ours", "home/bare:v1", "A signature was required, but no signature exists|is not accepted"),
    ("elsewhere", f"home/{TASK}:v1", "is rejected by policy"),
]


@pytest.mark.parametrize(("policy", "source", "refusal"), PULLS, ids=lambda value: str(value) or "accepted")
def test_podman_pulls_what_the_policy_accepts_and_nothing_else(
    stage: Stage, policy: str, source: str, refusal: str
) -> None:
    name = f"{stage.host}/{source.replace('DIGEST', stage.record.manifest.digest)}"
    stage.podman.call("rmi", "--all", "--force")
    done = stage.podman.call(
        "pull", "--quiet", "--tls-verify=false", "--signature-policy", f"{stage.podman.folder}/{policy}.json", name
    )
    said = done.stderr.decode()
    assert (done.exit_code == 0) is (not refusal), said
    assert not refusal or any(part in said for part in refusal.split("|")), said
    held = stage.podman.call("image", "inspect", name)
    assert (held.exit_code == 0) is (not refusal)
    if not refusal and "several" not in source:
        assert held_ids(held.stdout) == expected_ids(stage)


def expected_ids(stage: Stage) -> tuple[str, str]:
    manifest = parse_manifest(stage.store.read(stage.record.manifest.digest, 1 << 20))
    return hex_of(manifest.config.digest), stage.record.manifest.digest


def held_ids(inspected: bytes) -> tuple[str, str]:
    (found,) = json.loads(inspected)
    return found["Id"], found["Digest"]


@pytest.mark.parametrize("form", ["docker-archive", "oci-archive"])
def test_podman_5_loads_a_bundle(stage: Stage, form: str, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.tar"
    name = f"registry.example/wideswe/{TASK}:v1"
    Export(stage.store, bundle).run({name: stage.record})
    stage.podman.call("rmi", "--all", "--force")
    words = (
        ["load", "--input", str(bundle)] if form == "docker-archive" else ["pull", "-q", f"oci-archive:{bundle}:{name}"]
    )
    (stage.podman.folder / "any.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    done = stage.podman.call(*words, "--signature-policy", f"{stage.podman.folder}/any.json")
    assert done.exit_code == 0, done.stderr.decode()
    held, expected = held_ids(stage.podman.call("image", "inspect", name).stdout), expected_ids(stage)
    assert held[0] == expected[0]
    assert form == "docker-archive" or held[1] == expected[1], "docker's form knows no manifest"
