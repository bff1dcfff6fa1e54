"""A docker daemon for tests: its own data, sockets and processes, all of which end with it; no bridge, no firewall."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, find_program, run, running
from packager.sandbox.namespaces import may_mount

if TYPE_CHECKING:
    from collections.abc import Iterator

ELSEWHERE = "WIDESWE_DOCKER"
"""Names a folder with a newer docker: usr/sbin/dockerd, usr/bin/containerd, as its packages unpack."""
_START_S = 60.0


@contextlib.contextmanager
def docker_daemon(*, newer: bool = False, containerd_store: bool = False) -> Iterator[str]:
    """Start a daemon and yield its address; skip where there is none."""
    folder = os.environ.get(ELSEWHERE, "") if newer else ""
    program = f"{folder}/usr/sbin/dockerd" if folder else find_program("dockerd")
    if not may_mount() or (newer and not folder) or program is None or not Path(program).exists():
        pytest.skip("needs root and dockerd" if not newer else f"needs root and a newer dockerd in {ELSEWHERE}")
    place = Path(tempfile.mkdtemp(prefix="wideswe-docker-", dir="/var/tmp"))
    address = f"unix://{place}/docker.sock"
    try:
        settings = place / "daemon.json"
        settings.write_text(json.dumps({"features": {"containerd-snapshotter": True}} if containerd_store else {}))
        argv = [program, "--config-file", str(settings), "--data-root", f"{place}/data", "--exec-root", f"{place}/exec"]
        argv += ["--pidfile", f"{place}/pid", "--host", address, "--bridge", "none", "--iptables=false"]
        env = {**os.environ, "PATH": f"{_programs(place, folder)}:/usr/sbin:/usr/bin:/sbin:/bin"}
        with (place / "log").open("wb") as log, running(argv, Surroundings(env=env), stdout=log, stderr=log) as child:
            _wait_for(place)
            try:
                yield address
            finally:
                child.send_signal(signal.SIGTERM)
                child.wait(_START_S)
    finally:
        _unmount_below(place)
        shutil.rmtree(place, ignore_errors=True)


def _programs(place: Path, folder: str) -> Path:
    """Return a folder of programs that are found first: the newer ones, but this system's runc, which fits its libc."""
    target = place / "bin"
    target.mkdir()
    for path in Path(folder, "usr/bin").iterdir() if folder else ():
        (target / path.name).symlink_to(path)
    runc = find_program("runc")
    if folder and runc is not None:
        (target / "runc").unlink(missing_ok=True)
        (target / "runc").symlink_to(runc)
    return target


def _wait_for(place: Path) -> None:
    until = time.monotonic() + _START_S
    while not (place / "docker.sock").exists():
        if time.monotonic() > until:
            pytest.fail((place / "log").read_text()[-2000:])
        time.sleep(0.1)
    while b"Daemon has completed initialization" not in (place / "log").read_bytes():
        if time.monotonic() > until:
            pytest.fail((place / "log").read_text()[-2000:])
        time.sleep(0.1)


def _unmount_below(place: Path) -> None:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    for target in sorted((line.split()[1] for line in lines if f" {place}/" in line), reverse=True):
        run(["umount", "-l", target])
