"""The native engine: namespaces and overlayfs by system calls, no daemon and no program but Python itself.

Not bubblewrap: our launcher also sets the command's user without a program inside the image, keeps docker's
capabilities instead of all or none, and needs nothing installed.
"""

from __future__ import annotations

import contextlib
import itertools
import marshal
import os
import resource
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from packager.base.errors import WorldError
from packager.base.processes import Surroundings, running
from packager.sandbox import cgroups
from packager.sandbox.engine import Ended
from packager.sandbox.identity import FIXED_FILES, HOSTNAME, PROXY_PORT, ROOM_IN_TREE
from packager.sandbox.loopback import loopback_environment, open_loopback
from packager.sandbox.namespaces import in_first_user_namespace, prepare_process
from packager.sandbox.overlay import stacked
from packager.sandbox.pump import Pump

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

    from packager.oci.entries import Entry
    from packager.sandbox.cgroups import Group
    from packager.sandbox.engine import Command, Limits, Streams
    from packager.sandbox.fetches import Reachable
    from packager.sandbox.overlay import Stack
    from packager.sandbox.proxy import Proxy
    from packager.sandbox.relay import RelayServer
    from packager.sandbox.spec import Spec
    from packager.sandbox.usage import Watch

__all__ = ["NativeEngine", "NativeTree", "prepare_process"]

_OPEN_FILES = 16_384
_BOOTSTRAP = "import sys;sys.path.append(sys.argv[1]);from packager.sandbox.launcher import main;main()"
_PACKAGE_PARENT = str(Path(__file__).parents[2])
_KILLED = 137
_PIPED, _DROPPED = -1, -3  # as subprocess names them: PIPE and DEVNULL
_STATUS_BYTES = 4096
_ACCEPT_S = 30.0


class NativeEngine:
    """Runs commands in namespaces of this machine's kernel, as root or rootless."""

    def __init__(self) -> None:
        self._parents = cgroups.machine_parents()
        self._counter = itertools.count()
        self._waiting: _Launcher | None = None
        cgroups.sweep(self._parents)

    @contextlib.contextmanager
    def early(self) -> Iterator[None]:
        """Start the launcher of the next command now, while the caller does other things: Python's start takes long.

        One that no command has taken ends with the context.
        """
        prepare_process()
        self._waiting = _Launcher((_PIPED, _PIPED))
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                waiting.close()

    def launcher(self, streams: Streams, *, with_listener: bool) -> _Launcher:
        """Return the launcher that waits, or a new one if that has other ends or was killed."""
        ends = (_end_for(streams.stdout), _end_for(streams.stderr))
        waiting = self._waiting
        if waiting is None or waiting.ends != ends or with_listener or waiting.child.poll() is not None:
            return _Launcher(ends, with_listener=with_listener)
        self._waiting = None
        return waiting

    @property
    def name(self) -> str:
        """The name that `--engine` takes."""
        return "native"

    @contextlib.contextmanager
    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> Iterator[NativeTree]:
        """Stack unpacked layers (lowest first) under a new writable layer in a directory of its own below `scratch`."""
        prepare_process()
        directory = scratch.absolute() / f"tree-{os.getpid()}-{next(self._counter)}"
        with stacked(layers, directory) as stack:
            files = []
            for number, (target, text) in enumerate(sorted(FIXED_FILES.items())):
                source = directory / f"f{number}"
                source.write_text(text)
                source.chmod(0o644)
                files.append((str(source), f"/{target}"))
            yield NativeTree(self, stack, tuple(files), self._parents)


class _Channels(NamedTuple):
    """What the launcher inherits (`spec`, `status`, `listener`) and our ends of it; files, since they close once."""

    spec: IO[bytes]
    spec_here: IO[bytes]
    status: IO[bytes]
    status_here: IO[bytes]
    listener: socket.socket | None = None
    listener_here: socket.socket | None = None

    def inherited(self) -> list[int]:
        """Return the descriptors that the launcher inherits."""
        ends = (self.spec, self.status, self.listener)
        return [end.fileno() for end in ends if end is not None]

    def close_theirs(self) -> None:
        """Close what only the launcher needs, once it runs: the end of its life is then the end of the stream."""
        self.spec.close()
        self.status.close()
        if self.listener is not None:
            self.listener.close()


class _Launcher:
    """A launcher that runs and waits for its spec; `ends` says what becomes of its standard output and error."""

    def __init__(self, ends: tuple[int, int], *, with_listener: bool = False) -> None:
        self.ends = ends
        with contextlib.ExitStack() as held, contextlib.ExitStack() as life:
            self.channels = held.enter_context(_channels(with_listener=with_listener))
            listener = self.channels.listener
            self.status = self.channels.status.fileno()
            self.listener = -1 if listener is None else listener.fileno()
            argv = (sys.executable, "-I", "-S", "-c", _BOOTSTRAP, _PACKAGE_PARENT, str(self.channels.spec.fileno()))
            around = Surroundings(env={}, cwd=Path("/"), pass_fds=self.channels.inherited())
            self.child = life.enter_context(running(argv, around, stdout=ends[0], stderr=ends[1]))
            self.channels.close_theirs()
            self._life, self._held = life.pop_all(), held.pop_all()

    def tell(self, spec: Spec) -> None:
        """Say what to run; one that is dead does not hear it, and its exit code shows that."""
        with self.channels.spec_here as stream, contextlib.suppress(BrokenPipeError):
            left = memoryview(marshal.dumps(dict(spec)))
            while left:
                left = left[stream.write(left) :]

    def end(self) -> None:
        """End whatever still runs."""
        self._life.close()

    def close(self) -> None:
        """End whatever still runs and close the channels."""
        with self._held:
            self._life.close()


class _Job(NamedTuple):
    """Until when a command may run, what answers its requests, and what looks at how much it writes."""

    deadline: float
    proxy: Proxy | RelayServer | None
    watch: Watch | None = None


class NativeTree:
    """A mounted stack of layers in which commands run; see the protocol Tree."""

    def __init__(
        self,
        engine: NativeEngine,
        stack: Stack,
        files: tuple[tuple[str, str], ...],
        parents: dict[str, list[Path]],
    ) -> None:
        self._engine = engine
        self._stack = stack
        self._files = files
        self._parents = parents
        self._counter = itertools.count()

    @property
    def root(self) -> Path:
        """The merged, writable view."""
        return self._stack.root

    @property
    def lower(self) -> Path:
        """The read-only view of the layers alone."""
        return self._stack.lower

    @property
    def upper(self) -> Path:
        """What was written; a rootless engine marks opaque directories by user.overlay.opaque."""
        return self._stack.upper

    def changes(self) -> list[Entry]:
        """Return the entries of the layer that was written; only the upper layer is walked."""
        from packager.oci.tree import diff_trees  # noqa: PLC0415 - builds need it, evaluations do not

        return diff_trees(self.lower, self.root, upper=self.upper)

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        """Run a command; with `fetches`, behind the loopback proxy.

        The variables of `fetches` win over the command's own, the proxy's over both. A command that cannot be started
        ends with 126 or 127 and says why on its standard error, as in a shell; a sandbox that cannot be made raises.
        """
        started = time.monotonic()
        with contextlib.ExitStack() as held:
            group = held.enter_context(cgroups.group(command.limits, self._parents, name=cgroups.fresh_name()))
            proxy = None if fetches is None else held.enter_context(_proxy_for(fetches, self._next_ca_file()))
            launcher = self._engine.launcher(streams, with_listener=proxy is not None)
            held.callback(launcher.close)
            spec = self._spec(command, group, launcher)
            if fetches is not None and proxy is not None:
                spec["env"] |= loopback_environment(fetches)
                spec["binds"] += [(str(path), place, False) for path, place in proxy.trusted.items()]
            watch = self._watch(command)
            code, cut_off = _supervise(spec, launcher, streams, _Job(started + command.timeout_s, proxy, watch))
            out_of_memory = code != 0 and not cut_off and group.ran_out_of_memory()
            out_of_disk = watch is not None and watch.is_over
            if proxy is not None:
                proxy.close()
        seconds, timed_out = time.monotonic() - started, cut_off and not out_of_disk
        return Ended(code, seconds, timed_out=timed_out, out_of_memory=out_of_memory, out_of_disk=out_of_disk)

    def _watch(self, command: Command) -> Watch | None:
        """Return what looks at how much is written: to the tree, and to whatever else the command may write."""
        most = command.limits.disk_bytes
        if not most:
            return None
        from packager.sandbox.usage import Watch  # noqa: PLC0415 - no step of a build needs it

        return Watch([self.upper, *(bind.source for bind in command.binds if bind.writable)], most)

    def _next_ca_file(self) -> Path:
        return self._stack.root.with_name(f"ca{next(self._counter)}")

    def _spec(self, command: Command, group: Group, launcher: _Launcher) -> Spec:
        limits = command.limits
        limited = group.directories
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return {
            "parent": os.getpid(),
            "root": str(self.root),
            "argv": list(command.argv),
            "env": dict(command.env),
            "cwd": command.cwd,
            "uid": command.uid,
            "gid": command.gid,
            "hostname": HOSTNAME,
            "files": list(self._files),
            "binds": [(str(bind.source), os.path.normpath(bind.target), bind.writable) for bind in command.binds],
            "room": ROOM_IN_TREE,
            "port": PROXY_PORT,
            "listener": launcher.listener,
            "status": launcher.status,
            "cgroups": group.members,
            "open_files": _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES),
            "memory": limits.memory_bytes,
            "rlimit_memory": 0 if "memory" in limited else limits.memory_bytes,
            "rlimit_processes": 0 if "pids" in limited or in_first_user_namespace() else limits.pids,
            "cpus": [] if "cpu" in limited else _some_cpus(limits),
        }


def _end_for(sink: Callable[[bytes], None] | None) -> int:
    return _DROPPED if sink is None else _PIPED


def _some_cpus(limits: Limits) -> list[int]:
    """Return as many processors as a command may use, not always the same ones; empty if it may use all."""
    own = sorted(os.sched_getaffinity(0))
    if not 0 < limits.cpus < len(own):
        return []
    first = time.monotonic_ns() // 1000 % len(own)
    return [own[(first + step) % len(own)] for step in range(limits.cpus)]


@contextlib.contextmanager
def _proxy_for(fetches: Reachable, ca_file: Path) -> Iterator[Proxy | RelayServer]:
    proxy = open_loopback(fetches, ca_file)
    try:
        yield proxy
    finally:
        proxy.close()


@contextlib.contextmanager
def _channels(*, with_listener: bool) -> Iterator[_Channels]:
    with contextlib.ExitStack() as held:
        reading, writing = os.pipe()
        spec = held.enter_context(os.fdopen(reading, "rb", buffering=0))
        spec_here = held.enter_context(os.fdopen(writing, "wb", buffering=0))
        reading, writing = os.pipe()
        here = held.enter_context(os.fdopen(reading, "rb", buffering=0))
        there = held.enter_context(os.fdopen(writing, "wb", buffering=0))
        if not with_listener:
            yield _Channels(spec, spec_here, there, here)
            return
        import socket  # noqa: PLC0415 - only commands that may fetch listen

        ours, theirs = (held.enter_context(end) for end in socket.socketpair())
        ours.settimeout(_ACCEPT_S)
        yield _Channels(spec, spec_here, there, here, theirs, ours)


def _supervise(spec: Spec, launcher: _Launcher, streams: Streams, job: _Job) -> tuple[int, bool]:
    """Tell the launcher and carry output until the command is over; return its exit code and whether we ended it."""
    child, channels = launcher.child, launcher.channels
    try:
        launcher.tell(spec)
        pairs = zip((child.stdout, child.stderr), (streams.stdout, streams.stderr), strict=True)
        sinks = {pipe.fileno(): sink for pipe, sink in pairs if pipe is not None and sink is not None}
        timed_out = Pump(child, sinks, _on_listener(channels, job.proxy), job.watch).run(job.deadline)
        code = child.wait()
    finally:
        launcher.end()
    complaint = channels.status_here.read(_STATUS_BYTES).decode(errors="replace")
    if complaint and not timed_out:
        raise WorldError(f"sandbox not made: {complaint}", where="native engine", hint="`doctor` says what is missing")
    return (_KILLED if timed_out else code), timed_out


def _on_listener(channels: _Channels, proxy: Proxy | RelayServer | None) -> dict[int, Callable[[], None]]:
    here = channels.listener_here
    if proxy is None or here is None:
        return {}

    def start() -> None:
        listener = _take_listener(here)
        if listener is not None:
            proxy.start(listener)

    return {here.fileno(): start}


def _take_listener(channel: socket.socket) -> socket.socket | None:
    """Receive the listening socket that the launcher bound inside the sandbox's network; None if it failed before."""
    import socket  # noqa: PLC0415 - see above

    _, handles, _, _ = socket.recv_fds(channel, 1, 1)
    return socket.socket(fileno=handles[0]) if handles else None
