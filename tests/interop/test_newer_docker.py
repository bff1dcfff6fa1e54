"""docker 28 of Debian sid pulls what we push, by tag and by digest, runs it, and loads our bundles as they are."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.processes import Surroundings, run
from packager.oci.config import parse_config
from packager.oci.entries import file_entry
from packager.oci.manifest import parse_manifest
from packager.oci.record import format_record
from packager.oci.reference import parse_reference
from packager.oci.tar_writer import write_tar
from packager.registry.push import push_image
from packager.seal.identities import create_evaluator_key
from packager.trust.keyfiles import Password
from tests.support.debian_tools import obtain_root
from tests.support.docker_daemon import ELSEWHERE, docker_daemon
from tests.support.docker_registry import docker_registry
from tests.support.hostile_images import HOME, TASK, HostileLayer, signed_image
from tests.support.sealed_images import KEY
from tests.support.tiny_base import tiny_entries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.processes import Finished
    from packager.oci.record import ImageRecord

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.slow]


@dataclass(frozen=True)
class Stage:
    """A daemon, a registry with one image, and who made it."""

    address: str
    host: str
    author: api.Place
    record: ImageRecord
    program: str

    def docker(self, *words: str) -> Finished:
        around = {"DOCKER_HOST": self.address, "PATH": "/usr/bin:/bin", "HOME": str(self.author.root)}
        return run([self.program, *words], Surroundings(around, timeout_s=120))

    def ids(self) -> tuple[set[str], list[str]]:
        store = self.author.store()
        manifest = parse_manifest(store.read(self.record.manifest.digest, 1 << 20))
        config = parse_config(store.read(manifest.config.digest, 1 << 20))
        return {manifest.config.digest, self.record.manifest.digest}, list(config.diff_ids)


@pytest.fixture(scope="module", params=["graphdriver", "containerd"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("docker28")
    found = obtain_root("docker.io", "sid", "containerd", "docker-cli")
    author = api.Place(folder, folder / "store", folder / "keys", password=Password(""))
    author.keys.mkdir()
    (author.keys / "release.pub").write_bytes(KEY.public.pem)
    tar = io.BytesIO()
    write_tar([*tiny_entries(["sh", "cat"]), file_entry(b"opt/greeting", b"hello\n")], tar.write)
    record = signed_image(author.store(), [create_evaluator_key()[1]], HostileLayer(tar.getvalue()))
    author.store().set_name("images", TASK, format_record(record))
    with pytest.MonkeyPatch.context() as patch, docker_registry(folder / "registry") as host:
        patch.setenv(ELSEWHERE, str(found))
        push_image(author.store(), record, parse_reference(f"{host}/home/{TASK}:v1"))
        with docker_daemon(newer=True, containerd_store=request.param == "containerd") as address:
            yield Stage(address, host, author, record, str(found / "usr" / "bin" / "docker"))


def check_held(stage: Stage, name: str) -> None:
    done = stage.docker("image", "inspect", name)
    assert done.exit_code == 0, done.stderr.decode()
    (found,) = json.loads(done.stdout)
    ids, diff_ids = stage.ids()
    assert found["Id"] in ids
    assert found["RootFS"]["Layers"] == diff_ids


@pytest.mark.parametrize("by", ["tag", "digest"])
def test_docker_pulls_and_runs_what_we_push(by: str, stage: Stage) -> None:
    name = f"{stage.host}/home/{TASK}" + (":v1" if by == "tag" else f"@{stage.record.manifest.digest}")
    done = stage.docker("pull", "--quiet", name)
    assert done.exit_code == 0, done.stderr.decode()
    check_held(stage, name)
    digests = stage.docker("image", "inspect", "--format", "{{json .RepoDigests}}", name).stdout.decode()
    assert f"{stage.host}/home/{TASK}@{stage.record.manifest.digest}" in digests
    ran = stage.docker("run", "--rm", "--network", "none", name, "/bin/cat", "/opt/greeting")
    assert (ran.exit_code, ran.stdout) == (0, b"hello\n"), ran.stderr.decode()
    stage.docker("rmi", "--force", name)


def test_docker_loads_a_bundle_as_it_is(stage: Stage, tmp_path: Path) -> None:
    api.export_bundle(stage.author, api.Cargo((TASK,)), tmp_path / "bundle.tar")
    done = stage.docker("load", "--input", str(tmp_path / "bundle.tar"))
    assert done.exit_code == 0, done.stderr.decode()
    check_held(stage, f"{HOME}/{TASK}:v1")


def test_load_proves_what_the_daemon_holds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", stage.address)
    monkeypatch.setenv("PATH", f"{stage.program.rpartition('/')[0]}:/usr/bin:/bin")
    loaded = api.load(stage.author, TASK, engine="docker")
    assert loaded.image_id in stage.ids()[0]
    check_held(stage, loaded.name)
