"""Runs a command in a container that a program makes (buildah, podman), with limits and network of our own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from packager.base.errors import WorldError
from packager.base.processes import Surroundings, find_program, running
from packager.sandbox import cgroups
from packager.sandbox.engine import Ended
from packager.sandbox.entering import listen_in, loopback_network, processes_in
from packager.sandbox.guest import fixed_binds, guest_of
from packager.sandbox.loopback import open_loopback
from packager.sandbox.pump import Pump

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.base.processes import Started
    from packager.sandbox.engine import Command, Streams
    from packager.sandbox.fetches import Reachable

_KILLED = 137
_PIPE = -1
_READY = b"\0wideswe-pack ready\n"
_OVER = b"\0wideswe-pack over "
_LAST = re.compile(re.escape(_OVER) + rb"(\d{1,3})\n\Z")
_TAIL_BYTES = len(_OVER) + 4
_NULL = r"\000"
_SCRIPT = f"""\
printf '{_NULL}wideswe-pack ready\\n'
read -r line || exit 0
"$@" </dev/null
code=$?
kill -9 -1 2>/dev/null
printf '{_NULL}wideswe-pack over %d\\n' "$code"
"""
"""Process 1: says that it is there, waits for limits and proxy, and says last how the command ended."""


@dataclass(frozen=True)
class Setting:
    """What a container needs that is not in its tree: binds (here, inside, writable), its network, its variables."""

    network: Path
    binds: tuple[tuple[str, str, bool], ...]
    env: Mapping[str, str]
    argv: tuple[str, ...]
    """What is to run: process 1 and, as its arguments, the command."""
    user: str
    """Who runs it: user and group by number."""


@dataclass
class Runner:
    """Starts commands; `start` gives the engine's own words for a setting, `variables` what the engine itself reads."""

    name: str
    start: Callable[[Setting], Sequence[str]]
    variables: Mapping[str, str]
    layers: tuple[Path, ...]
    folder: Path
    parents: Mapping[str, list[Path]] = field(default_factory=cgroups.machine_parents)
    _count: int = 0

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        """Run a command in a network of its own; with `fetches`, behind the loopback proxy."""
        started = time.monotonic()
        self._count += 1
        with contextlib.ExitStack() as held:
            group = held.enter_context(cgroups.group(command.limits, self.parents, name=cgroups.fresh_name()))
            network = held.enter_context(loopback_network(self.folder / f"net{self._count}"))
            trusted: Mapping[Path, str] = {}
            if fetches is not None:
                proxy = open_loopback(fetches, self.folder / f"ca{self._count}")
                held.callback(proxy.close)
                proxy.start(listen_in(network))
                trusted = proxy.trusted
            setting = self._setting(command, fetches, network, trusted)
            job = _Job(self, network, group.members, streams)
            code, timed_out = job.supervise(self._argv(setting), started + command.timeout_s)
            out_of_memory = code != 0 and not timed_out and group.ran_out_of_memory()
        return Ended(code, time.monotonic() - started, timed_out=timed_out, out_of_memory=out_of_memory)

    def _setting(
        self, command: Command, fetches: Reachable | None, network: Path, trusted: Mapping[Path, str]
    ) -> Setting:
        guest = guest_of(command, fetches)
        fixed = [(here, there, False) for here, there in fixed_binds(self.folder, self.layers, trusted)]
        given = [(str(bind.source), bind.target, bind.writable) for bind in command.binds]
        argv = ("/bin/sh", "-c", _SCRIPT, "sh", *guest.argv)
        return Setting(network, (*fixed, *given), guest.env, argv, f"{command.uid}:{command.gid}")

    def _argv(self, setting: Setting) -> list[str]:
        """Return the words that start the container: in a process namespace that ends with us, whatever happens."""
        around = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        setpriv, unshare = (find_program(name) or name for name in ("setpriv", "unshare"))
        return [setpriv, "--pdeathsig", "KILL", "--no-new-privs", unshare, *around, *self.start(setting)]


class _Job:
    """One command from its start to its end; also what Pump needs of a started program."""

    def __init__(self, runner: Runner, network: Path, groups: Sequence[str], streams: Streams) -> None:
        self._runner = runner
        self._network = network
        self._groups = groups
        self._streams = streams
        self._child: Started | None = None
        self.pid = 0
        self._begun = False
        self._ended = False
        self._held = b""
        self._said = bytearray()

    def supervise(self, argv: Sequence[str], deadline: float) -> tuple[int, bool]:
        """Start the container, let the command go, and return its exit code and whether its time was up."""
        around = Surroundings(env=self._runner.variables, cwd=self._runner.folder, stdin=b"go")
        with running(argv, around, stdout=_PIPE, stderr=_PIPE) as child:
            self._child, self.pid = child, child.pid
            sinks = {_fileno(child.stdout): self._take, _fileno(child.stderr): self._complain}
            timed_out = Pump(self, sinks).run(deadline)
            child.wait()
        last = _LAST.search(self._held)
        self._pass_on(self._held[: last.start()] if last else self._held)
        if timed_out:
            return _KILLED, True
        if not self._begun:
            said = self._said.decode(errors="replace").strip()
            raise WorldError(f"the container did not start: {said[-2000:]}", where=f"{self._runner.name} engine")
        return (int(last[1]) if last else _KILLED), False

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        return None if self._child is None else self._child.poll()

    def send_signal(self, sig: int) -> None:
        """End the container: its first process, then the program that waits for it by itself."""
        self._ended = True
        inside = processes_in(self._network) if sig == signal.SIGTERM else []
        for process in inside:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if not inside and self._child is not None:
            self._child.kill()

    def _take(self, block: bytes) -> None:
        """Take standard output: what comes before the first mark is the engine's, the last mark is process 1's."""
        self._held += block
        if not self._begun:
            before, mark, rest = self._held.partition(_READY)
            if not mark:
                return
            self._said.extend(before)
            self._held, self._begun = rest, True
            self._let_go()
        ready = len(self._held) - _TAIL_BYTES
        if ready > 0:
            block, self._held = self._held[:ready], self._held[ready:]
            self._pass_on(block)

    def _complain(self, block: bytes) -> None:
        if not self._begun:
            self._said.extend(block)
        elif self._streams.stderr is not None and not self._ended:  # then it is the engine that complains
            self._streams.stderr(block)

    def _pass_on(self, block: bytes) -> None:
        if block and self._begun and self._streams.stdout is not None:
            self._streams.stdout(block)

    def _let_go(self) -> None:
        """Put process 1 under the limits, then let it start the command."""
        inside = processes_in(self._network)
        if len(inside) != 1 or self._child is None or self._child.stdin is None:
            raise WorldError(f"expected one container, found {len(inside)}", where=f"{self._runner.name} engine")
        for path in self._groups:
            with open(path, "w") as group:  # noqa: PTH123 - one write
                group.write(str(inside[0]))
        self._child.stdin.write(b"go\n")
        self._child.stdin.flush()


def _fileno(stream: IO[bytes] | None) -> int:
    return -1 if stream is None else stream.fileno()
