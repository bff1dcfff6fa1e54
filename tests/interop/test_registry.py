"""The real registry keeps the contract that our tests rely on, and stock tools read what we push."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import run_ok
from packager.oci.reference import Reference
from packager.registry.client import RegistryClient
from packager.registry.mirror import Mirror
from packager.registry.pull import pull_image
from packager.registry.push import push_image
from packager.seal.grants import GRANT_TYPE
from packager.store.store import Store
from tests.support.docker_registry import docker_registry, require_program
from tests.support.images import BUNDLE_TYPE, make_full_image
from tests.support.registry_contract import RegistryContract, as_sets
from tests.support.suite_images import make_suite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.engine
BCRYPT_OF_SECRET = "$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a"


class TestDockerRegistry(RegistryContract):
    @pytest.fixture
    def host(self, tmp_path: Path) -> Iterator[str]:
        with docker_registry(tmp_path / "registry") as host:
            yield host


class TestDistribution3(RegistryContract):
    @pytest.fixture
    def host(self, tmp_path: Path) -> Iterator[str]:
        with docker_registry(tmp_path / "registry", name="registry") as host:
            yield host


def test_a_suite_is_mirrored_from_version_2_to_version_3_and_a_second_time_not_at_all(tmp_path: Path) -> None:
    require_program("registry")
    store = Store(tmp_path / "store")
    suite = make_suite(store, 3, size=20_000)
    with docker_registry(tmp_path / "old") as old, docker_registry(tmp_path / "new", name="registry") as new:
        for task, record in suite.items():
            push_image(store, record, Reference(old, f"suite/{task}", "v1"))
        clients = [RegistryClient(host, environ={}) for host in (old, new)]
        mirror = Mirror(clients[0], clients[1], Store(tmp_path / "transit"))
        moved = [
            [mirror.run(Reference(old, f"suite/{task}", "v1"), Reference(new, f"copy/{task}")).moved for task in suite]
            for _ in range(2)
        ]
        assert moved[0][0] > moved[0][1] > 0
        assert moved[1] == [0, 0, 0]
        for task, record in suite.items():
            pulled = pull_image(Reference(new, f"copy/{task}", "v1"), Store(tmp_path / task))
            assert as_sets(pulled) == as_sets(record)


def test_crane_sees_the_digest_and_the_bytes_that_we_pushed(tmp_path: Path) -> None:
    crane = require_program("crane")
    store = Store(tmp_path / "store")
    (record,) = make_suite(store, 1, size=20_000).values()
    with docker_registry(tmp_path / "registry") as host:
        push_image(store, record, Reference(host, "suite/task", "v1"))
        assert run_ok([crane, "digest", f"{host}/suite/task:v1"]).decode().strip() == record.manifest.digest
        assert run_ok([crane, "manifest", f"{host}/suite/task:v1"]).rstrip() == store.read(
            record.manifest.digest, 1 << 20
        )
        assert sorted(run_ok([crane, "ls", f"{host}/suite/task"]).decode().split()) == sorted(
            ["v1", *(signature.tag for signature in record.signatures), record.manifest.digest.replace(":", "-")]
        )
        run_ok([crane, "copy", f"{host}/suite/task:v1", f"{host}/copied/task:v2"])
        assert pull_image(Reference(host, "copied/task", "v2"), Store(tmp_path / "lab")).manifest == record.manifest


def test_oras_finds_what_refers_to_an_image(tmp_path: Path) -> None:
    oras = require_program("oras")
    store = Store(tmp_path / "store")
    (record,) = make_suite(store, 1, size=20_000).values()
    with docker_registry(tmp_path / "registry") as host:
        push_image(store, record, Reference(host, "suite/task", "v1"))
        said = run_ok([oras, "discover", "--plain-http", "--format", "json", f"{host}/suite/task:v1"])
        listed = json.loads(said)
        found = {entry["digest"]: entry["artifactType"] for entry in listed.get("referrers") or listed["manifests"]}
        kinds = {BUNDLE_TYPE: record.referrers, GRANT_TYPE: record.grants}
        assert found == {entry.digest: kind for kind, entries in kinds.items() for entry in entries}
        run_ok(
            [oras, "copy", "-r", "--from-plain-http", "--to-plain-http", f"{host}/suite/task:v1", f"{host}/by/oras:v1"]
        )
        pulled = pull_image(Reference(host, "by/oras", "v1"), Store(tmp_path / "lab"))
        assert as_sets(pulled)[2:] == as_sets(record)[2:], "oras copies referrers; it knows nothing of cosign's tags"


def test_skopeo_copies_what_we_push_and_we_pull_its_copy(tmp_path: Path) -> None:
    skopeo = require_program("skopeo")
    store = Store(tmp_path / "store")
    record = make_full_image(store)
    with docker_registry(tmp_path / "registry") as host:
        push_image(store, record, Reference(host, "suite/task", "v1"))
        raw = run_ok([skopeo, "inspect", "--raw", "--tls-verify=false", f"docker://{host}/suite/task:v1"])
        assert raw == store.read(record.manifest.digest, 1 << 20)
        run_ok(
            [
                skopeo,
                "copy",
                "--insecure-policy",
                "--preserve-digests",
                "--src-tls-verify=false",
                "--dest-tls-verify=false",
                f"docker://{host}/suite/task:v1",
                f"docker://{host}/copied:v2",
            ]
        )
        copied = pull_image(Reference(host, "copied", "v2"), Store(tmp_path / "other"))
    assert copied.manifest == record.manifest


def test_basic_authentication_comes_from_dockers_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "htpasswd").write_text(f"someone:{BCRYPT_OF_SECRET}\n")
    store = Store(tmp_path / "store")
    record = make_full_image(store)
    with docker_registry(tmp_path / "registry", htpasswd=tmp_path / "htpasswd") as host:
        config = {"auths": {host: {"auth": "c29tZW9uZTpzZWNyZXQ="}}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        push_image(store, record, Reference(host, "suite/task", "v1"))
        pulled = pull_image(Reference(host, "suite/task", "v1"), Store(tmp_path / "other"))
    assert pulled.manifest == record.manifest
