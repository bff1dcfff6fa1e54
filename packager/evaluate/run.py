"""Runs the tests of a task over its image: patches, hidden tests, prepare, test; reports come back as values.

Every target has a fresh file system of its own over the image and over what the targets before it, its producers, made
of theirs when they were prepared (but for its own checkout). Guarded files and hidden tests are written after the
patch, and once more after the prepare commands, which run code that the patch can change. The tests then run over that,
so that no target's tests touch another's; the report lies in a folder that nothing saw before.
"""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packager.base.errors import InputError, WorldError
from packager.base.files import free_bytes
from packager.base.log import Log
from packager.base.progress import Event, Progress, silent
from packager.evaluate.controls import take_out
from packager.evaluate.predictions import Patch
from packager.evaluate.reports import REPORT_LIMIT_BYTES, read_report
from packager.evaluate.results import End, Results, TargetRun
from packager.evaluate.services import NOT_READY, with_services
from packager.evaluate.workspace import Workspace, keep_out
from packager.sandbox.engine import Bind, Command, Streams
from packager.sandbox.identity import ROOM_IN_TREE
from packager.store.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packager.evaluate.guards import Guard
    from packager.evaluate.profile import Profile, TargetProfile
    from packager.evaluate.workspace import HiddenFiles
    from packager.sandbox.engine import Engine, Tree

REPORT_FOLDER = f"{ROOM_IN_TREE}/report"
DISK_BYTES = 16 << 30
"""What tests may write where the recipe says nothing."""
_LEAST_FREE_BYTES = 16 << 20
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
class Control:
    """The word that control tests carry in this run, and the targets whose hidden tests have one."""

    word: str = ""
    targets: frozenset[str] = frozenset()


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
    guards: Mapping[str, Guard] = field(default_factory=dict)
    control: Control = field(default_factory=Control)

    def run(self, patches: Mapping[str, Patch | None], *, only: str | None = None) -> dict[str, Tested]:
        """Apply the patches and run every target's tests; a target without a patch in the mapping is not patched.

        A patch of None says that there is none: its target is not run. With `only`, the others are no more than
        patched and prepared, as far as that target builds on them.
        """
        with scratch_folder(self.store_root) as scratch, contextlib.ExitStack() as trees:
            run = _Run(self, trees, scratch, patches)
            return run.outcome() if only is None else {only: run.outcome_of(only)}


class _Run:
    """One run; `_layers` grows by what each target leaves for those after it."""

    def __init__(
        self, session: Session, trees: contextlib.ExitStack, scratch: Path, patches: Mapping[str, Patch | None]
    ) -> None:
        self._session = session
        self._trees = trees
        self._scratch = scratch
        self._patches = patches
        self._layers = [*session.layers]

    def outcome(self) -> dict[str, Tested]:
        """Take the targets in order, producers before consumers."""
        targets = self._session.profile.targets
        return {one.name: self._evaluate(one, targets[number + 1 :]) for number, one in enumerate(targets)}

    def outcome_of(self, only: str) -> Tested:
        """Make ready what stands before one target, and test that one alone."""
        targets = self._session.profile.targets
        if self._patches.get(only, NO_CHANGE) is None:
            return _unpatched()
        for number, one in enumerate(targets):
            if one.name == only:
                return self._evaluate(one, targets[number + 1 :])
            done = self._stack(one, targets[number + 1 :], self._patches.get(one.name) or NO_CHANGE)
            if done is not None:
                why = done.run.reason or done.run.results.reason
                return Tested(TargetRun(End.INFRA, reason=f"{one.name}, which stands at gold: {why}"), log=done.log)
        raise ValueError(f"no target {only}")

    def _evaluate(self, target: TargetProfile, later: tuple[TargetProfile, ...]) -> Tested:
        """Patch, prepare and test one target, and leave its tree to the later ones."""
        patch = self._patches.get(target.name, NO_CHANGE)
        if patch is None:
            return _unpatched()
        return self._stack(target, later, patch) or self._test_apart(target)

    def _stack(self, target: TargetProfile, later: tuple[TargetProfile, ...], patch: Patch) -> Tested | None:
        """Patch and prepare one target in a tree that the later ones build on; say what kept it from being ready."""
        tree = self._trees.enter_context(self._session.engine.open_tree(self._layers, scratch=self._scratch))
        workspace = Workspace(tree)
        if len(self._layers) == len(self._session.layers):  # nothing of a patch is in it: else that would be blamed
            workspace.require([target.name, *(other.name for other in later)])
        done = self._make_ready(target, workspace, patch)
        upper = tree.upper  # some engines make it when they are asked
        keep_out(upper, [other.name for other in later])
        self._layers.append(upper)
        return done

    def _make_ready(self, target: TargetProfile, workspace: Workspace, patch: Patch) -> Tested | None:
        """Patch and prepare a target; return what became of it if it cannot be tested."""
        try:
            workspace.apply(target.name, patch)
        except InputError as error:
            return Tested(TargetRun(End.PATCH_REFUSED, reason=str(error)))
        try:
            self._restore(target, workspace, prepared=False)
            if target.prepare:
                done = self._prepare(target, workspace.tree)
                if done is not None:
                    return done
                self._restore(target, workspace, prepared=True)
        except InputError as error:
            return _nothing(f"its tests cannot be put in place: {error}")
        return None

    def _restore(self, target: TargetProfile, workspace: Workspace, *, prepared: bool) -> None:
        """Put guarded files and hidden tests in place; what stands in the way of that is an InputError."""
        guard = self._session.guards.get(target.name)
        if guard is not None:
            workspace.restore(target.name, guard, prepared=prepared)
        workspace.protect(target.name, target.protect)
        workspace.place(target.name, self._session.hidden.get(target.name, {}))

    def _test_apart(self, target: TargetProfile) -> Tested:
        """Test a target over what was prepared; nothing writes to the trees below meanwhile."""
        try:
            with self._session.engine.open_tree(self._layers, scratch=self._scratch) as tree:
                return self._test(target, tree)
        except WorldError as error:
            return Tested(TargetRun(End.INFRA, reason=str(error)))

    def _prepare(self, target: TargetProfile, tree: Tree) -> Tested | None:
        self._session.progress(Event("evaluate", message=f"preparing {target.name}"))
        log = Log(self._session.progress, f"{target.name}/prepare")
        timeout_s = min(PREPARE_TIMEOUT_S, PREPARE_FACTOR * target.timeout_s)
        step = self._command(target, target.prepare, timeout_s=timeout_s)
        ended = tree.run(step, Streams(log.write, log.write))
        if ended.exit_code == 0:
            return None
        reason = f"prepare ended with exit code {ended.exit_code}"
        if ended.timed_out:
            reason = f"prepare: not finished after {timeout_s:.0f} s"
        end = End.TIMEOUT if ended.timed_out else End.FINISHED
        return Tested(TargetRun(end, Results(reason=reason), reason), ended.seconds, log.tail())

    def _test(self, target: TargetProfile, tree: Tree) -> Tested:
        self._session.progress(Event("evaluate", message=f"testing {target.name}"))
        folder = self._scratch / f"report-{target.name}"
        folder.mkdir()
        shared = folder / "shared"
        shared.mkdir(mode=0o777)
        log = Log(self._session.progress, target.name)
        inside = shlex.quote(target.workdir)
        script = target.run if target.workdir == "." else f"cd {inside} && {{ {target.run}; }}"
        services = self._session.profile.services
        script = with_services(script, services)
        command = self._command(target, script, timeout_s=target.timeout_s, report=shared)
        try:
            with (folder / "stdout").open("wb") as stdout:
                ended = tree.run(command, Streams(Both(Capped(stdout.write).write, log.write), log.write))
        except WorldError as error:
            return Tested(TargetRun(End.INFRA, reason=str(error)), log=log.tail())
        written = folder / "stdout" if target.report == "stdout" else shared / "report"
        if free_bytes(self._scratch) < _LEAST_FREE_BYTES:
            return Tested(TargetRun(End.INFRA, reason="the disk of the store is full"), ended.seconds, log.tail())
        run = self._doubted(target, tree, read_report(target, written, ended))
        if services and ended.exit_code == NOT_READY and not run.results.statuses:
            run = _nothing("a service that the tests need was not ready in time").run
        return Tested(run, ended.seconds, log.tail())

    def _doubted(self, target: TargetProfile, tree: Tree, run: TargetRun) -> TargetRun:
        """Return a run as far as it can be believed."""
        if not run.results.statuses:
            return run
        altered = Workspace(tree).altered(target.name, self._session.hidden.get(target.name, {}))
        if altered:
            return _nothing(f"a hidden test was changed while the tests ran: {altered}").run
        control = self._session.control
        return take_out(run, control.word) if target.name in control.targets else run

    def _command(self, target: TargetProfile, script: str, *, timeout_s: float, report: Path | None = None) -> Command:
        env = {**self._session.env, **dict(target.env)}
        limits = self._session.profile.limits
        binds: tuple[Bind, ...] = ()
        if report is not None:
            env["WIDESWE_REPORT"] = f"{REPORT_FOLDER}/report"
            binds = (Bind(report, REPORT_FOLDER, writable=True),)
        return Command(
            ("/bin/sh", "-c", script),
            env=env,
            cwd=f"/workspace/{target.name}",
            timeout_s=timeout_s,
            limits=replace(limits, disk_bytes=limits.disk_bytes or DISK_BYTES),
            binds=binds,
        )


def _unpatched() -> Tested:
    return Tested(TargetRun(End.NO_PATCH, reason="no patch for this target"))


def _nothing(reason: str) -> Tested:
    return Tested(TargetRun(End.FINISHED, Results(reason=reason), reason))


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
