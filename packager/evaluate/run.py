"""Runs the tests of a task over its image: patches, hidden tests, prepare, test; reports come back as values.

Every run has a fresh file system. Protected files and hidden tests are written after the patch, and once more after the
prepare commands, which run code that the patch can change. Then every target is tested in a file system of its own over
what was prepared, so that no target's tests touch another's; its report lies in a folder that nothing saw before.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import InputError, WorldError
from packager.base.log import Log
from packager.base.progress import Event, Progress, silent
from packager.evaluate.predictions import Patch
from packager.evaluate.reports import REPORT_LIMIT_BYTES, read_report
from packager.evaluate.results import End, Results, TargetRun
from packager.evaluate.workspace import Workspace
from packager.sandbox.engine import Bind, Command, Streams
from packager.sandbox.identity import ROOM_IN_TREE
from packager.store.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.evaluate.profile import Profile, TargetProfile
    from packager.evaluate.workspace import HiddenFiles
    from packager.sandbox.engine import Engine, Tree

REPORT_FOLDER = f"{ROOM_IN_TREE}/report"
PREPARE_TIMEOUT_S = 1800.0
PREPARE_FACTOR = 10
"""Times what the tests may take: a patch that hangs while it is loaded must not hold a quick task for half an hour."""
NO_CHANGE = Patch(b"")


@dataclass(frozen=True)
class Tested:
    """What became of one target: the run as grading takes it, how long it took, and the end of its output."""

    run: TargetRun
    seconds: float = 0.0
    log: bytes = b""


@dataclass(frozen=True)
class Session:
    """What all runs over one image share; `layers` are unpacked, lowest first, without the seal."""

    engine: Engine
    layers: Sequence[Path]
    env: Mapping[str, str]
    profile: Profile
    hidden: Mapping[str, HiddenFiles]
    store_root: Path
    progress: Progress = field(default=silent)

    def run(self, patches: Mapping[str, Patch | None]) -> dict[str, Tested]:
        """Apply the patches and run every target's tests; a target without a patch in the mapping is not patched.

        A patch of None says that there is none: its target is not run.
        """
        with scratch_folder(self.store_root) as scratch, self.engine.open_tree(self.layers, scratch=scratch) as tree:
            return _Run(self, tree, scratch, patches).outcome()


class _Run:
    """One run in one tree."""

    def __init__(self, session: Session, tree: Tree, scratch: Path, patches: Mapping[str, Patch | None]) -> None:
        self._session = session
        self._tree = tree
        self._workspace = Workspace(tree)
        self._scratch = scratch
        self._patches = patches
        self._done: dict[str, Tested] = {}

    def outcome(self) -> dict[str, Tested]:
        targets = self._session.profile.targets
        for target in targets:
            self._patch(target)
        self._restore()
        prepares = [target for target in targets if target.prepare]
        for target in prepares:
            self._prepare(target)
        if prepares:
            self._restore()
        for target in targets:
            if target.name not in self._done:
                self._done[target.name] = self._test_apart(target)
        return {target.name: self._done[target.name] for target in targets}

    def _restore(self) -> None:
        """Put protected files and hidden tests in place; what stands in the way of that passes nothing."""
        for target in self._session.profile.targets:
            try:
                self._workspace.protect(target.name, target.protect)
                self._workspace.place(target.name, self._session.hidden.get(target.name, {}))
            except InputError as error:
                reason = f"its tests cannot be put in place: {error}"
                self._done.setdefault(target.name, Tested(TargetRun(End.FINISHED, Results(reason=reason), reason)))

    def _test_apart(self, target: TargetProfile) -> Tested:
        """Test a target over what was prepared; nothing writes to the tree below meanwhile."""
        layers = [*self._session.layers, self._tree.upper]
        try:
            with self._session.engine.open_tree(layers, scratch=self._scratch) as tree:
                return self._test(target, tree)
        except WorldError as error:
            return Tested(TargetRun(End.INFRA, reason=str(error)))

    def _patch(self, target: TargetProfile) -> None:
        patch = self._patches.get(target.name, NO_CHANGE)
        if patch is None:
            self._done[target.name] = Tested(TargetRun(End.NO_PATCH, reason="no patch for this target"))
            return
        try:
            self._workspace.apply(target.name, patch)
        except InputError as error:
            self._done[target.name] = Tested(TargetRun(End.PATCH_REFUSED, reason=str(error)))

    def _prepare(self, target: TargetProfile) -> None:
        if target.name in self._done:
            return
        self._session.progress(Event("evaluate", message=f"preparing {target.name}"))
        log = Log(self._session.progress, f"{target.name}/prepare")
        timeout_s = min(PREPARE_TIMEOUT_S, PREPARE_FACTOR * target.timeout_s)
        step = self._command(target, target.prepare, timeout_s=timeout_s)
        ended = self._tree.run(step, Streams(log.write, log.write))
        if ended.exit_code != 0:
            reason = f"prepare ended with exit code {ended.exit_code}"
            if ended.timed_out:
                reason = f"prepare: not finished after {timeout_s:.0f} s"
            end = End.TIMEOUT if ended.timed_out else End.FINISHED
            self._done[target.name] = Tested(TargetRun(end, Results(reason=reason), reason), ended.seconds, log.tail())

    def _test(self, target: TargetProfile, tree: Tree) -> Tested:
        self._session.progress(Event("evaluate", message=f"testing {target.name}"))
        folder = self._scratch / f"report-{target.name}"
        folder.mkdir()
        shared = folder / "shared"
        shared.mkdir(mode=0o777)
        log = Log(self._session.progress, target.name)
        inside = shlex.quote(target.workdir)
        script = target.run if target.workdir == "." else f"cd {inside} && {{ {target.run}; }}"
        command = self._command(target, script, timeout_s=target.timeout_s, report=shared)
        try:
            with (folder / "stdout").open("wb") as stdout:
                ended = tree.run(command, Streams(Both(Capped(stdout.write).write, log.write), log.write))
        except WorldError as error:
            return Tested(TargetRun(End.INFRA, reason=str(error)), log=log.tail())
        written = folder / "stdout" if target.report == "stdout" else shared / "report"
        return Tested(read_report(target, written, ended), ended.seconds, log.tail())

    def _command(self, target: TargetProfile, script: str, *, timeout_s: float, report: Path | None = None) -> Command:
        env = {**self._session.env, **dict(target.env)}
        binds: tuple[Bind, ...] = ()
        if report is not None:
            env["WIDESWE_REPORT"] = f"{REPORT_FOLDER}/report"
            binds = (Bind(report, REPORT_FOLDER, writable=True),)
        return Command(
            ("/bin/sh", "-c", script),
            env=env,
            cwd=f"/workspace/{target.name}",
            timeout_s=timeout_s,
            limits=self._session.profile.limits,
            binds=binds,
        )


class Both:
    """Passes every block on to two takers."""

    def __init__(self, one: Callable[[bytes], None], other: Callable[[bytes], None]) -> None:
        self._takers = (one, other)

    def __call__(self, block: bytes) -> None:
        """Pass a block on."""
        for taker in self._takers:
            taker(block)


class Capped:
    """Passes on the first bytes of a stream and drops the rest, so that a flood of output fills no disk."""

    def __init__(self, write: Callable[[bytes], object], *, limit: int = REPORT_LIMIT_BYTES) -> None:
        self._write = write
        self._left = limit

    def write(self, block: bytes) -> None:
        """Take a block; what exceeds the limit by a byte makes the report too large to be read."""
        if self._left >= 0:
            self._write(block[: self._left + 1])
            self._left -= len(block)
