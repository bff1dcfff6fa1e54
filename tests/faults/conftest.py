"""The small task, built once without being disturbed, for all tests that disturb."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.killing import TASK, Built, Place, adopted_orphans

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _orphans() -> Iterator[None]:
    with adopted_orphans():
        yield


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Build; the inputs come from the network, or from WIDESWE_INPUTS."""
    folder = tmp_path_factory.mktemp("kill")
    place = Place(folder / "store", folder / "keys")
    fetched = place.run("fetch", "--task", TASK, "--into", str(folder / "inputs"))
    if fetched.exit_code == 6:
        pytest.skip(f"the locked inputs cannot be had: {fetched.stderr}")
    fetched.value()
    place.run("keygen").value()
    place = replace(place, inputs=folder / "inputs")
    build = place.run("build", "--task", TASK)
    manifest = build.value()["manifest"]
    place.run("sign", "--task", TASK, "--home", "registry.example.org/kill").value()
    yield Built(place, manifest, build)
    shutil.rmtree(folder)


@pytest.fixture
def around(built: Built, tmp_path: Path) -> Iterator[Path]:
    """Give a folder beside the built store (links do not cross file systems), and take it away again."""
    folder = built.place.store.parent / tmp_path.name
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)
