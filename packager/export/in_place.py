"""An engine without a sandbox: commands run where this process runs, in a container that a harness made for it.

The checkouts below `/workspace` are kept as they were, so that patches, guards and hidden tests are judged against them
as everywhere; whatever else commands write stays for the commands after them. Limits and network are the container's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.processes import Surroundings, run_ok, running
from packager.evaluate.trees import DirectoryTree, Kind, join
from packager.sandbox.engine import Ended
from packager.sandbox.pump import Pump

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.oci.entries import Entry
    from packager.sandbox.engine import Bind, Command, Streams
    from packager.sandbox.fetches import Reachable

WORKSPACE = "workspace"
_GIT = b".git"
_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36  # linux/prctl.h
_KILL_TRIES = 200
_BETWEEN_S = 0.01
_SIGNALLED = 128


def stand_apart() -> None:
    """Keep others of the same user from reading this process's memory and variables; adopt what they orphan."""
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class InPlaceEngine:
    """Runs commands in the file system at `root`, whose checkouts are kept below `scratch` as they are now."""

    def __init__(self, root: Path, scratch: Path, targets: Sequence[str]) -> None:
        self.root = root
        self.lower = scratch / "base"
        self._targets = tuple(targets)
        self._fresh = True
        for name in targets:
            copy_tree(root / WORKSPACE / name, self.lower / WORKSPACE / name)

    @property
    def name(self) -> str:
        """The name of this engine."""
        return "in-place"

    @contextlib.contextmanager
    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> Iterator[InPlaceTree]:
        """Give the tree; a checkout that none of the layers changes is put back first."""
        for name in () if self._fresh else self._targets:
            if not any((layer / WORKSPACE / name).is_dir() for layer in layers):
                copy_tree(self.lower / WORKSPACE / name, self.root / WORKSPACE / name)
        self._fresh = False
        yield InPlaceTree(self.root, self.lower, scratch, self._targets)


class InPlaceTree:
    """The file system itself."""

    def __init__(self, root: Path, lower: Path, scratch: Path, targets: Sequence[str]) -> None:
        self.root = root
        self.lower = lower
        self._scratch = scratch
        self._targets = targets

    @property
    def upper(self) -> Path:
        """Where the checkouts differ from what they were: an empty file for each path; looked up anew each time."""
        place = self._scratch / f"upper-{os.urandom(8).hex()}"
        place.mkdir()
        for name in self._targets:
            _mark_differences(self.lower / WORKSPACE / name, self.root / WORKSPACE / name, place / WORKSPACE / name)
        return place

    def changes(self) -> list[Entry]:
        """Nothing becomes a layer here."""
        return []

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        """Run a command and end all that it leaves behind."""
        del fetches
        places = [_bind(self.root, bind) for bind in command.binds]
        try:
            return _run(command, streams)
        finally:
            end_descendants()
            for place in places:
                place.unlink(missing_ok=True)


def copy_tree(source: Path, target: Path) -> None:
    """Make `target` a copy of `source`, with modes, times and links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    run_ok(
        ["rm", "-rf", "--", str(target)]
    )  # overlayfs lets nobody rename folders of lower layers, which remove_tree does
    run_ok(["cp", "-a", "--", str(source), str(target)])


def _mark_differences(before: Path, after: Path, into: Path) -> None:
    """Write an empty file for each path that is another in `after`; nothing is written if nothing is."""
    with contextlib.ExitStack() as held:
        old = held.enter_context(DirectoryTree(before))
        if not after.is_dir() or after.is_symlink():
            into.mkdir(parents=True)
            return
        new = held.enter_context(DirectoryTree(after))
        found = list(_differences(old, new))
        if found:
            into.mkdir(parents=True)
            marks = held.enter_context(DirectoryTree(into))
            for path in found:
                marks.write(path, b"", Kind.FILE)


def _differences(old: DirectoryTree, new: DirectoryTree) -> Iterator[bytes]:
    """Yield the paths that differ, none below another."""
    waiting = [b""]
    while waiting:
        place = waiting.pop()
        before = set(old.names(place)) if not place or old.look(place) is Kind.DIRECTORY else set()
        for path in sorted(join(place, name) for name in {*before, *new.names(place)}):
            if path == _GIT:
                continue
            kinds = (old.look(path), new.look(path))
            if kinds[1] is Kind.DIRECTORY and (kinds[0] in (Kind.DIRECTORY, None) or new.names(path)):
                waiting.append(path)
            elif kinds[0] is not kinds[1] or (kinds[0] is not Kind.OTHER and old.read(path) != new.read(path)):
                yield path


def _bind(root: Path, bind: Bind) -> Path:
    """Let a folder be found where a command looks for it."""
    place = root / bind.target.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    run_ok(["rm", "-rf", "--", str(place)])
    place.symlink_to(bind.source)
    return place


def _run(command: Command, streams: Streams) -> Ended:
    begun = time.monotonic()
    ends = [os.pipe(), os.pipe()]
    reading = [end[0] for end in ends]
    sinks = dict(zip(reading, (streams.stdout or _drop, streams.stderr or _drop), strict=True))
    try:
        around = Surroundings(env=command.env, cwd=Path(command.cwd))
        with running(command.argv, around, stdout=ends[0][1], stderr=ends[1][1]) as child:
            for _, writing in ends:
                os.close(writing)
            timed_out = Pump(child, sinks).run(begun + command.timeout_s)
            code = child.wait()
    finally:
        for descriptor in reading:
            os.close(descriptor)
    return Ended(code if code >= 0 else _SIGNALLED - code, time.monotonic() - begun, timed_out=timed_out)


def _drop(_block: bytes) -> None:
    pass


def end_descendants() -> None:
    """Kill every process that came from this one, also those that have cut themselves off, and wait for their end."""
    for _ in range(_KILL_TRIES):
        found = _descendants(os.getpid())
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_BETWEEN_S)


def _descendants(ancestor: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        waiting += (inner := [pid for pid in children.get(waiting.pop(), []) if pid not in found])
        found.update(inner)
    return found
