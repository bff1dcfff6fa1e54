"""Local engines and skopeo read our bundles, and hold after `load` the image that was verified, by id and diff ids."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from packager import api
from packager.base.digests import hex_of
from packager.base.errors import IntegrityError, TrustError, WorldError
from packager.base.processes import Surroundings, run, run_fed, run_ok
from packager.oci.config import parse_config
from packager.oci.manifest import parse_manifest
from packager.registry.bundle import BundleForm
from packager.registry.bundle_export import Export
from packager.store.store import Store
from packager.trust.keyfiles import Password, write_key_pair
from tests.support.docker_registry import require_program
from tests.support.engines import docker_daemon, podman_storage
from tests.support.images import layers_of
from tests.support.sealed_images import KEY, OTHER_KEY
from tests.support.suite_images import HOME, make_suite, task_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.oci.record import ImageRecord

pytestmark = pytest.mark.engine
COUNT = 2
NAMES = [f"{HOME}/{task_name(number)}:v1" for number in range(1, COUNT + 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a suite, its bundles, and the key that signed it."""
    folder = tmp_path_factory.mktemp("bundles")
    store = Store(folder / "store")
    suite = {f"{HOME}/{task}:v1": record for task, record in make_suite(store, COUNT).items()}
    Export(store, folder / "as-is.tar").run(suite)
    Export(store, folder / "gzip.tar", BundleForm(docker_layers="gzip")).run(suite)
    Export(store, folder / "none.tar", BundleForm(docker_layers="none")).run(suite)
    (folder / "keys").mkdir()
    write_key_pair(folder / "keys" / "release.key", folder / "keys" / "release.pub", KEY, Password(""))
    return folder


def place_in(folder: Path) -> api.Place:
    return api.Place(folder, folder / "store", folder / "keys")


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with docker_daemon(tmp_path_factory.mktemp("docker")) as around:
        yield around


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with podman_storage(tmp_path_factory.mktemp("podman")) as around:
        yield around


@pytest.fixture(params=["docker", "podman"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """An engine without images, found by the variables of this process."""
    name: str = request.param
    for variable, value in request.getfixturevalue(name).items():
        monkeypatch.setenv(variable, value)
    if images := run_ok([name, "images", "--quiet"]).split():
        run([name, "rmi", "--force", *(image.decode() for image in images)])
    return name


def records(folder: Path) -> dict[str, ImageRecord]:
    place = place_in(folder)
    return {f"{HOME}/{task}:v1": place.record(task) for task in place.store().names("images")}


def ids(folder: Path, record: ImageRecord) -> tuple[set[str], list[str]]:
    """The ids that an engine may give an image, and its diff ids."""
    store = Store(folder / "store")
    manifest = parse_manifest(store.read(record.manifest.digest, 1 << 20))
    config = parse_config(store.read(manifest.config.digest, 1 << 20))
    return {hex_of(manifest.config.digest), hex_of(record.manifest.digest)}, list(config.diff_ids)


def held(engine: str, name: str) -> tuple[str, list[str]]:
    (found,) = json.loads(run_ok([engine, "image", "inspect", name]))
    return found["Id"].removeprefix("sha256:"), found["RootFS"]["Layers"]


def is_old_docker(engine: str) -> bool:
    if engine != "docker":
        return False
    return int(run_ok(["docker", "version", "--format", "{{.Server.Version}}"]).split(b".")[0]) < 23


@pytest.mark.parametrize("form", ["as-is", "gzip", "none"])
def test_an_engine_loads_every_image_of_a_bundle(folder: Path, engine: str, form: str) -> None:
    done = run([engine, "load", "--input", str(folder / f"{form}.tar")])
    if form == "as-is" and is_old_docker(engine):
        assert done.exit_code != 0, "this is why --docker-layers exists"
        assert b"archive/tar: invalid tar header" in done.stderr
        return
    assert done.exit_code == 0, done.stderr.decode()
    for name, record in records(folder).items():
        image_id, diff_ids = held(engine, name)
        allowed, expected = ids(folder, record)
        assert image_id in allowed
        assert diff_ids == expected


def test_load_puts_the_verified_image_into_an_engine_and_proves_it(folder: Path, engine: str) -> None:
    place = place_in(folder)
    loaded = api.load(place, task_name(1), engine=engine)  # type: ignore[arg-type]
    image_id, diff_ids = held(engine, NAMES[0])
    assert (loaded.engine, loaded.name, loaded.image_id) == (engine, NAMES[0], f"sha256:{image_id}")
    assert loaded.proof in {f"the {what}'s digest and {len(diff_ids)} diff ids" for what in ("config", "manifest")}
    allowed, expected = ids(folder, place.record(task_name(1)))
    assert image_id in allowed
    assert diff_ids == expected


def test_what_is_not_verified_is_not_loaded(folder: Path, engine: str, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    write_key_pair(tmp_path / "keys" / "release.key", tmp_path / "keys" / "release.pub", OTHER_KEY, Password(""))
    place = api.Place(folder, folder / "store", tmp_path / "keys")
    with pytest.raises(TrustError) as caught:
        api.load(place, task_name(2), engine=engine)  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"{task_name(2)}: check 4, legacy signature: the signature was not made")
    assert run([engine, "image", "inspect", NAMES[1]]).exit_code != 0


def test_an_engine_that_holds_another_image_is_found_out(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """A program that says it loaded, and then shows something else."""
    (tmp_path / "podman").write_text(
        '#!/bin/sh\nif [ "$1" = load ]; then cat >/dev/null; exit 0; fi\n'
        'printf \'[{"Id":"sha256:%064d","RootFS":{"Layers":[]}}]\' 7\n'
    )
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    place = place_in(folder)
    record = place.record(task_name(1))
    config = layers_of(place.store(), record)[0]
    with pytest.raises(IntegrityError) as caught:
        api.load(place, task_name(1), engine="podman")
    assert str(caught.value) == (
        f"podman: {NAMES[0]}: expected the image id {config} or {record.manifest.digest}, found sha256:{7:064d}"
    )


def test_an_engine_that_fails_is_quoted(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "podman").write_text("#!/bin/sh\necho no space left >&2\nexit 125\n")
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(WorldError) as caught:
        api.load(place_in(folder), task_name(1), engine="podman")
    assert str(caught.value) == "podman load: exit code 125: no space left"
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(WorldError) as missing:
        api.load(place_in(folder), task_name(1), engine="podman")
    assert str(missing.value) == "program not found: podman\nhint: install podman"


def test_a_program_that_is_fed_and_reads_nothing_is_no_broken_pipe() -> None:
    assert run_fed(["sh", "-c", "echo done"], lambda write: [write(bytes(1 << 20)) for _ in range(8)]) == b"done\n"


@pytest.mark.parametrize("form", ["as-is", "gzip"])
def test_skopeo_copies_an_image_of_a_bundle_by_its_name(folder: Path, tmp_path: Path, form: str) -> None:
    skopeo = require_program("skopeo")
    around = Surroundings(env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, timeout_s=120)
    for name, record in records(folder).items():
        source = f"oci-archive:{folder / form}.tar:{name}"
        raw = run_ok([skopeo, "inspect", "--raw", source], around)
        assert raw == Store(folder / "store").read(record.manifest.digest, 1 << 20)
        target = tmp_path / hex_of(record.manifest.digest)[:8]
        run_ok([skopeo, "copy", "--insecure-policy", "--preserve-digests", source, f"dir:{target}"], around)
        assert (target / "manifest.json").read_bytes() == raw
        run_ok([skopeo, "inspect", f"docker-archive:{folder / form}.tar:{name}"], around)


def test_python_s_tarfile_reads_a_bundle(folder: Path) -> None:
    with tarfile.open(folder / "as-is.tar") as archive:
        assert {member.mtime for member in archive} == {315532800}
        assert archive.getnames()[-3:] == ["index.json", "manifest.json", "oci-layout"]
