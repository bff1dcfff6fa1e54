"""A base image by digest from a registry: every engine that is here builds the same image over it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.sandbox.engines import find_lack
from packager.sandbox.namespaces import may_mount, prepare_process
from tests.support.docker_daemon import docker_daemon
from tests.support.registry import MemoryRegistry
from tests.support.tiny_base import TinyWorld, publish_tiny_base

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.suites import Suite

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root")]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    prepare_process()
    with MemoryRegistry() as registry:
        world = TinyWorld(tmp_path_factory.mktemp("base"), publish_tiny_base(registry))
        yield world.suite("based", "mkdir -p /opt/x", "ls /usr/bin >/opt/x/list", "rm /usr/bin/date")


@pytest.mark.parametrize("engine", ["podman", "docker", pytest.param("buildah", marks=pytest.mark.slow)])
def test_an_engine_builds_the_same_over_a_base_by_digest(
    suite: Suite, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if engine == "docker":
        daemon = docker_daemon()
        monkeypatch.setenv("DOCKER_HOST", daemon.__enter__())
        request.addfinalizer(lambda: daemon.__exit__(None, None, None))
    lack = find_lack(engine, tmp_path)
    if lack is not None:
        pytest.skip(lack.reason)
    native = api.build(suite.place, suite.task)
    inputs = (suite.place.store_root,)
    other = replace(suite.place, store_root=tmp_path / "store", inputs=inputs, engine=engine)
    assert api.build(other, suite.task) == native
