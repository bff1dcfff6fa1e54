"""The real registry of the distribution project, started on loopback for as long as a test needs it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.processes import Surroundings, find_program, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_START_S = 20.0


def require_program(name: str) -> str:
    """Return a program's path, or skip the test because it is not installed."""
    path = find_program(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def docker_registry(
    folder: Path,
    *,
    htpasswd: Path | None = None,
    name: str = "docker-registry",
    tls: tuple[Path, Path] | None = None,
) -> Iterator[str]:
    """Run docker-registry with its files below `folder` and yield its host and port; `tls` is certificate and key.

    `name` is the program: Debian calls version 2.8 docker-registry, the project calls version 3 registry.
    """
    program = require_program(name)
    port = free_port()
    config: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    if htpasswd is not None:
        config["auth"] = {"htpasswd": {"realm": "a test, of ours", "path": str(htpasswd)}}
    if tls is not None:
        config["http"]["tls"] = {"certificate": str(tls[0]), "key": str(tls[1])}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yml"
    path.write_text(json.dumps(config))  # JSON is YAML
    with (
        (folder / "log").open("wb") as log,
        running([program, "serve", str(path)], Surroundings(cwd=folder), stdout=log, stderr=log),
    ):
        _wait_for(port, folder / "log")
        yield f"127.0.0.1:{port}"


def _wait_for(port: int, log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/v2/")
            connection.getresponse().read()
        except OSError:
            time.sleep(0.05)
        else:
            return
        finally:
            connection.close()
    raise AssertionError(f"docker-registry did not start: {log.read_text()[-2000:]}")
