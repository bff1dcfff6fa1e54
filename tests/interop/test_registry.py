"""The real registry keeps the contract that our tests rely on, and stock tools read what we push."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import run_ok
from packager.oci.reference import Reference
from packager.registry.pull import pull_image
from packager.registry.push import push_image
from packager.store.store import Store
from tests.support.docker_registry import docker_registry, require_program
from tests.support.images import make_full_image
from tests.support.registry_contract import RegistryContract

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
