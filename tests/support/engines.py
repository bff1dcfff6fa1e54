"""Local engines with everything they keep below one folder: a docker daemon of the test's own, and podman."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import WorldError
from packager.base.processes import Surroundings, find_program, run, running
from tests.support.docker_registry import require_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_START_S = 60.0


@contextlib.contextmanager
def docker_daemon(folder: Path) -> Iterator[Mapping[str, str]]:
    """Run a docker daemon without networks below `folder`; yield the variables by which its client finds it."""
    program, client = require_program("dockerd"), require_program("docker")
    if os.geteuid() != 0:
        pytest.skip("dockerd needs root")
    folder.mkdir(parents=True, exist_ok=True)
    socket = f"unix://{folder}/docker.sock"
    options = ["--data-root", str(folder / "data"), "--exec-root", str(folder / "exec"), "--host", socket]
    options += ["--pidfile", str(folder / "pid"), "--bridge", "none", "--iptables=false", "--storage-driver", "vfs"]
    around = {"DOCKER_HOST": socket, "DOCKER_CONFIG": str(folder / "config"), "PATH": os.environ["PATH"]}
    with (
        (folder / "log").open("wb") as log,
        running([program, *options], stdout=log, stderr=log) as daemon,
    ):
        until = time.monotonic() + _START_S
        while run([client, "version"], Surroundings(env=around)).exit_code != 0:
            if daemon.poll() is not None or time.monotonic() > until:
                pytest.skip(f"dockerd does not run here: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.2)
        try:
            yield around
        finally:
            daemon.terminate()
            daemon.wait(30)


@contextlib.contextmanager
def podman_storage(folder: Path) -> Iterator[Mapping[str, str]]:
    """Give podman a storage of its own; yield the variables by which it finds it."""
    program = require_program("podman")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'
    )
    around = {"CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"), "PATH": os.environ["PATH"], "HOME": str(folder)}
    done = run([program, "info"], Surroundings(env=around, timeout_s=60))
    if done.exit_code != 0:
        pytest.skip(f"podman does not run here: {done.stderr.decode(errors='replace')[-500:]}")
    try:
        yield around
    finally:
        with contextlib.suppress(WorldError):
            run([program, "system", "reset", "--force"], Surroundings(env=around, timeout_s=60))


def has_program(name: str) -> bool:
    return find_program(name) is not None
