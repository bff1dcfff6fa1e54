"""What the docker engine asks of the daemon: images loaded and removed, containers started, commands run in them."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import requests
from docker import APIClient
from docker.errors import APIError, DockerException, NotFound
from docker.types import LogConfig, Ulimit
from docker.utils.socket import STDOUT, frames_iter

from packager.base.errors import WorldError
from packager.sandbox.cgroups import pid_namespace, start_time
from packager.sandbox.entering import open_root
from packager.sandbox.guest import HOSTNAME, OPEN_FILES, capability_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.sandbox.engine import Limits, Streams
    from packager.sandbox.guest import Guest

_frames: Any = frames_iter  # the stubs lack hints
_OWNER = "dev.wideswe.owner"
_OWNERS = re.compile(r"(\d+)-(\d+)-(\d+)")
_TIMEOUT_S = 600
_OUR_PROCESSES = 4
_MAIN = """\
exec 3<&0
trap 'exit 0' TERM
while :; do
    (read -r line <&3 || kill -TERM 1) &
    wait
done
"""
"""Process 1: reaps what has no parent any more, and ends when whoever holds its input is gone."""


@contextlib.contextmanager
def trouble(what: str) -> Iterator[None]:
    """Turn what the daemon or the way to it complains about into a WorldError."""
    try:
        yield
    except APIError as error:
        raise WorldError(f"cannot {what}: {error.explanation or error}", where="docker engine") from error
    except (DockerException, requests.RequestException, OSError) as error:
        raise WorldError(f"cannot {what}: {error}", where="docker engine", retryable=True) from error


@dataclass(frozen=True)
class Wanted:
    """What cannot change while a container lives: limits, and binds as (here, inside, writable)."""

    limits: Limits
    binds: tuple[tuple[str, str, bool], ...] = ()


class Containers:
    """A daemon, and everything there that is ours; what killed commands left is removed at the start."""

    def __init__(self, host: str) -> None:
        with trouble(f"reach the daemon at {host}"):
            self.client = APIClient(base_url=host, version="auto", timeout=_TIMEOUT_S)
        space = pid_namespace()
        self.owner = f"{space}-{os.getpid()}-{start_time(os.getpid())}"
        self.labels = {_OWNER: self.owner}
        with trouble("remove what a killed command left"):
            self._sweep(space)

    def close(self) -> None:
        """Let go of the daemon."""
        self.client.close()

    def load(self, archive: Path, *, final: bool) -> bool:
        """Load an image; unless it is the final attempt, a daemon that misses a layer says so by False."""
        try:
            with archive.open("rb") as stream:
                said = "".join(map(str, _untyped(self.client).load_image(stream)))
        except APIError:
            if not final:
                return False
            raise
        return "error" not in said.lower() or final

    def remove_image(self, name: str) -> None:
        """Remove an image, if it is there."""
        with contextlib.suppress(DockerException, requests.RequestException):
            self.client.remove_image(name, force=True)

    def start(self, image: str, wanted: Wanted) -> Container:
        """Start a container in which nothing runs yet."""
        with trouble("start a container"):
            made = self.client.create_container(
                image,
                ["/bin/sh", "-c", _MAIN],
                hostname=HOSTNAME,
                user="0:0",
                working_dir="/",
                stdin_open=True,
                labels=self.labels,
                network_disabled=False,
                host_config=self._host_config(wanted),
            )
            container = Container(self.client, str(made["Id"]), wanted)
            try:
                container.begin()
            except BaseException:
                container.remove()
                raise
            return container

    def _host_config(self, wanted: Wanted) -> dict[str, Any]:
        limits, memory = wanted.limits, wanted.limits.memory_bytes or None
        return self.client.create_host_config(
            network_mode="none",
            binds=[f"{here}:{inside}:{'rw' if writable else 'ro'}" for here, inside, writable in wanted.binds],
            tmpfs={"/sys": "ro,size=4k"},
            cap_drop=["ALL"],
            cap_add=capability_names(),
            security_opt=["no-new-privileges"],
            ulimits=[Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES), Ulimit(name="core", soft=0, hard=0)],
            mem_limit=memory,
            memswap_limit=memory,
            shm_size=memory // 2 if memory else None,
            nano_cpus=limits.cpus * 10**9 or None,
            pids_limit=limits.pids + _OUR_PROCESSES if limits.pids else None,
            sysctls={"net.ipv6.conf.all.disable_ipv6": "0"},
            log_config=LogConfig(type="none"),
            cgroupns="private",
            auto_remove=True,
        )

    def _sweep(self, space: int) -> None:
        mark = {"label": _OWNER}
        for row in self.client.containers(all=True, filters=mark):
            if _is_dead(row["Labels"][_OWNER], space):
                _remove_container(self.client, row["Id"])
        for row in self.client.images(filters=mark):
            if _is_dead(row["Labels"][_OWNER], space):
                self.remove_image(row["Id"])


def _untyped(client: APIClient) -> Any:  # noqa: ANN401 - the stubs lack a hint
    return client


def _is_dead(owner: str, space: int) -> bool:
    """Say whether an owner was a process of this process namespace and is no more."""
    match = _OWNERS.fullmatch(owner)
    return match is not None and int(match[1]) == space and start_time(int(match[2])) != int(match[3])


def _remove_container(client: APIClient, name: str) -> None:
    with contextlib.suppress(DockerException, requests.RequestException):
        client.remove_container(name, force=True, v=True)


class Container:
    """A container whose process 1 waits; it ends when this object lets go of its input."""

    def __init__(self, client: APIClient, name: str, wanted: Wanted) -> None:
        self._client = client
        self._name = name
        self.wanted = wanted
        self._input: socket.SocketIO | None = None
        self._pid = 0
        self._root = -1

    def begin(self) -> None:
        """Start it and find its first process among this machine's."""
        self._input = self._client.attach_socket(self._name, params={"stdin": 1, "stream": 1})
        self._client.start(self._name)
        self._pid = int(self._inspect()["Pid"])
        try:
            ours = _MAIN.encode() in Path(f"/proc/{self._pid}/cmdline").read_bytes()
        except OSError:
            ours = False
        if not ours:
            raise WorldError(
                "the daemon's processes are not this machine's",
                where="docker engine",
                hint="it must run on this machine, and in the same process namespace; use the native engine",
            )

    @property
    def root(self) -> Path:
        """The container's file system, without what is mounted over it."""
        if self._root < 0:
            self._root = open_root(self._pid)
        return Path(f"/proc/self/fd/{self._root}")

    @property
    def network(self) -> Path:
        """The file by which the container's network is entered."""
        return Path(f"/proc/{self._pid}/ns/net")

    def execute(self, guest: Guest, user: tuple[int, int], streams: Streams) -> int | None:
        """Run a command to its end; return its exit code, None if the container did not outlive it."""
        made = self._client.exec_create(
            self._name,
            list(guest.argv),
            environment=[f"{name}={value}" for name, value in guest.env.items()],
            user=f"{user[0]}:{user[1]}",
        )
        stream: Any = self._client.exec_start(made["Id"], socket=True)
        try:
            for number, block in _frames(stream, tty=False):
                sink = streams.stdout if number == STDOUT else streams.stderr
                if sink is not None:
                    sink(block)
        finally:
            _close(stream)
        try:
            code = self._client.exec_inspect(made["Id"])["ExitCode"]
        except NotFound:
            return None
        return None if code is None else int(code)

    def end_processes(self, argv: Sequence[str]) -> None:
        """End everything but process 1, by a command that does it; where that fails, the container."""
        try:
            made = self._client.exec_create(self._name, list(argv), user="0:0")
            self._client.exec_start(made["Id"])
        except (DockerException, requests.RequestException):
            with contextlib.suppress(DockerException, requests.RequestException):
                self._client.kill(self._name)

    def is_running(self) -> bool:
        """Say whether process 1 still runs."""
        with contextlib.suppress(DockerException, requests.RequestException):
            return bool(self._inspect()["Running"])
        return False

    def ran_out_of_memory(self) -> bool:
        """Say whether the kernel killed a process of the container for want of memory."""
        with contextlib.suppress(DockerException, requests.RequestException):
            return bool(self._inspect()["OOMKilled"])
        return False

    def commit(self, name: str) -> str:
        """Keep the file system as an image and return its name."""
        with trouble("keep a container's files"):
            repository, _, tag = name.rpartition(":")
            self._client.commit(self._name, repository=repository, tag=tag)
        return name

    def remove(self) -> None:
        """Remove it, whatever still runs in it."""
        if self._root >= 0:
            os.close(self._root)
            self._root = -1
        if self._input is not None:
            with contextlib.suppress(OSError):
                _close(self._input)
        _remove_container(self._client, self._name)

    def _inspect(self) -> dict[str, Any]:
        state: dict[str, Any] = self._client.inspect_container(self._name)["State"]
        return state


def _close(stream: IO[bytes] | socket.SocketIO) -> None:
    raw = getattr(stream, "_sock", None)
    if isinstance(raw, socket.socket):
        with contextlib.suppress(OSError):
            raw.shutdown(socket.SHUT_RDWR)
        raw.close()
    stream.close()
