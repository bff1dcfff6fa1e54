"""Chooses an engine by its name: what each needs of this machine, said before any work starts, with another way out."""

from __future__ import annotations

import atexit
import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import UsageError, WorldError
from packager.base.files import free_bytes
from packager.base.processes import find_program
from packager.sandbox.namespaces import may_mount, prepare_process
from packager.store.scratch import scratch_folder

if TYPE_CHECKING:
    from pathlib import Path

    from packager.sandbox.buildah import BuildahEngine
    from packager.sandbox.dockerd import DockerEngine
    from packager.sandbox.engine import Engine
    from packager.sandbox.podman import PodmanEngine

NAMES = ("native", "docker", "buildah", "podman")
_ROOM_BYTES = 2 << 30
"""Engines keep layers a second time, unpacked and in the image's form."""
_DEFAULT_HOST = "unix:///var/run/docker.sock"
_WAY_OUT = (
    "build with the engine native, or render the context, build that with any engine, and compare with "
    "`wideswe-pack inspect --content-id`"
)


@dataclass(frozen=True)
class Lack:
    """Why an engine cannot work here, and what helps."""

    reason: str
    hint: str


def docker_host() -> str:
    """Return where the docker daemon listens, as docker's own client finds it."""
    return os.environ.get("DOCKER_HOST") or _DEFAULT_HOST


def find_lack(name: str, store_root: Path) -> Lack | None:
    """Return why an engine cannot work here, as far as can be seen without starting anything; None if it can."""
    looks = {"docker": _docker_lack, "buildah": _buildah_lack, "podman": _podman_lack}
    return looks[name]() or _disk_lack(store_root) if name in looks else None


def open_engine(name: str, store_root: Path) -> Engine:
    """Return an engine that is ready to work; one that cannot is refused with the reason and another way."""
    if name not in NAMES:
        raise UsageError(f"expected one of the engines {', '.join(NAMES)}, found {name!r}")
    if name == "native":
        from packager.sandbox.native import NativeEngine  # noqa: PLC0415 - the others do without it

        prepare_process()
        return NativeEngine()
    lack = find_lack(name, store_root)
    if lack is not None:
        raise WorldError(lack.reason, where=f"engine {name}", hint=f"{lack.hint}; or {_WAY_OUT}")
    prepare_process()
    try:
        return _open_foreign(name, store_root)
    except WorldError as error:
        raise WorldError(error.reason, where=error.where, hint=_WAY_OUT) from error


def _open_foreign(name: str, store_root: Path) -> Engine:
    """Open an engine that keeps things of its own, which go away when this process ends."""
    with contextlib.ExitStack() as held:
        home = held.enter_context(scratch_folder(store_root))
        engine = _foreign(name, home)
        held.callback(engine.close)
        atexit.register(held.pop_all().close)
        return engine


def _foreign(name: str, home: Path) -> DockerEngine | BuildahEngine | PodmanEngine:
    if name == "docker":
        from packager.sandbox.dockerd import DockerEngine  # noqa: PLC0415 - brings requests

        return DockerEngine(home, docker_host())
    if name == "buildah":
        from packager.sandbox.buildah import BuildahEngine  # noqa: PLC0415 - rarely needed

        return BuildahEngine(home)
    from packager.sandbox.podman import PodmanEngine  # noqa: PLC0415 - rarely needed

    return PodmanEngine(home)


def _docker_lack() -> Lack | None:
    host = docker_host()
    if not host.startswith("unix://"):
        return Lack(
            f"the daemon at {host} may be on another machine, and its containers' files cannot be reached from here",
            "unset DOCKER_HOST or name a socket of this machine (unix:///…)",
        )
    if os.geteuid() != 0:
        return Lack("a plain user cannot enter the containers of the daemon", "run as root")
    import socket  # noqa: PLC0415 - the native engine needs none

    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(host.removeprefix("unix://"))
    except OSError as error:
        return Lack(f"no daemon at {host}: {error.strerror}", "start dockerd, or name its socket in DOCKER_HOST")
    return None


def _buildah_lack() -> Lack | None:
    return _program_lack("buildah")


def _podman_lack() -> Lack | None:
    return _program_lack("podman")


def _program_lack(name: str) -> Lack | None:
    for program, package in ((name, name), ("runc", "runc"), ("unshare", "util-linux"), ("setpriv", "util-linux")):
        if find_program(program) is None:
            return Lack(f"no program {program}", f"install the package {package}")
    if not may_mount():
        return Lack("mounting is not allowed here: no root with CAP_SYS_ADMIN", "run as root")
    return None


def _disk_lack(store_root: Path) -> Lack | None:
    there = next(path for path in (store_root, *store_root.parents) if path.is_dir())
    free = free_bytes(there)
    if free >= _ROOM_BYTES:
        return None
    return Lack(
        f"the disk is nearly full: expected {_ROOM_BYTES >> 20} MiB free for {there}, found {free >> 20} MiB",
        "free some space, or choose another --store",
    )
