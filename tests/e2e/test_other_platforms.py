"""Another suite than bookworm and another architecture than this machine's: locked, laid out, built where it can run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import InputError, WorldError
from packager.lock.model import parse_lock
from packager.oci.config import parse_config
from packager.oci.layer import open_layer
from packager.oci.manifest import parse_manifest
from packager.oci.tar_reader import read_tar
from packager.sandbox.foreign import elf_head, own_platform, why_not
from packager.trust.keyfiles import Password
from tests.support.suites import Sample, Suite, make_suite

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from packager.api.place import Place

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.network]

FOREIGN = "linux/arm64" if own_platform() == "linux/amd64" else "linux/amd64"
ARCHITECTURE = FOREIGN.partition("/")[2]
PACKAGES = 60


def suite_on(folder: Path, debian: str, platform: str) -> Suite:
    """Make a task with nothing but a base, one small target, and keys."""
    base = {"debian": debian, "packages": []}
    sample = Sample("one", {"code": "1\n"}, {"code": "2\n"}, base=base, platforms=[platform])
    suite = make_suite(folder, sample, store=folder / "store")
    place = replace(suite.place, password=Password(""))
    api.keygen(place)
    return replace(suite, place=place)


def first_bytes(path: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return how files of a tar begin."""
    wanted = {name.encode() for name in names}
    with path.open("rb") as stream:
        found = {entry.path: reader.read()[:20] for entry, reader in read_tar(stream) if entry.path in wanted}
    return {name.decode(): data for name, data in found.items()}


def architecture_of(place: Place, task: str) -> str:
    manifest = parse_manifest(place.store().read(place.record(task).manifest.digest, LIMIT_BYTES))
    return parse_config(place.store().read(manifest.config.digest, LIMIT_BYTES)).architecture


def test_a_base_of_another_suite_is_locked_and_built(tmp_path: Path) -> None:
    suite = suite_on(tmp_path, "trixie", own_platform())
    assert api.lock(suite.place, suite.task).written
    assert suite.lock().base.suite == "trixie"
    api.build(suite.place, suite.task)
    base = suite.task_build().environment().layers[0]
    with open_layer(suite.place.store(), base) as stream:
        [release] = [reader.read() for entry, reader in read_tar(stream) if entry.path == b"usr/lib/os-release"]
    assert b"VERSION_CODENAME=trixie" in release


def test_a_base_of_another_architecture_is_locked_and_laid_out_and_built_only_where_it_runs(tmp_path: Path) -> None:
    suite = suite_on(tmp_path, "bookworm", FOREIGN)
    place, task = suite.place, suite.task
    with pytest.raises(InputError) as other:
        api.lock(place, task, platform=own_platform())
    assert str(other.value) == (
        f"{task}: expected one of the recipe's platforms, {FOREIGN}; found {own_platform()}\n"
        "hint: add it to `platforms` in the recipe"
    )
    assert api.lock(place, task, platform=FOREIGN).written
    lock = parse_lock(place.file(task, FOREIGN, "lock").read_bytes())
    assert lock.platform == FOREIGN
    assert len(lock.base.packages) > PACKAGES
    assert {blob.key.rpartition("_")[2] for blob in lock.base.packages} == {f"{ARCHITECTURE}.deb", "all.deb"}
    api.render(place, task, platform=FOREIGN, into=tmp_path / "context")
    head = elf_head(FOREIGN)
    assert head is not None
    shell = first_bytes(tmp_path / "context" / "inputs" / "bootstrap.tar", ["usr/bin/dash"])["usr/bin/dash"]
    assert (shell[:7], shell[18:]) == (head[:7], head[18:])
    why = why_not(FOREIGN)
    if not why:
        api.build(place, task, platform=FOREIGN)
        assert architecture_of(place, task) == ARCHITECTURE
        return
    with pytest.raises(WorldError) as refused:
        api.build(place, task, platform=FOREIGN)
    assert str(refused.value).splitlines()[0] == (
        f"this machine is {own_platform()} and cannot run commands of {FOREIGN}: {why}"
    )
