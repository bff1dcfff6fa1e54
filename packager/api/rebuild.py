"""The verb of auditors who trust nobody: reproduce builds a task again, under other conditions, and compares."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packager.api.place import LOCK_LIMIT_BYTES, PLATFORM, ROOT_SECRET, Place
from packager.api.rebuilder import Result, Task
from packager.base.canonical import format_canonical, parse_json
from packager.base.digests import digest_of, parse_digest
from packager.base.errors import InputError, WorldError
from packager.base.files import full_disk_trouble, is_there, read_file, write_atomic
from packager.base.progress import Event, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.build.reproduce import Comparison, Found, Reactions, Remembered
    from packager.build.task import TaskBuild
    from packager.build.variations import Here, Settings, Variation

_START = "import json,sys;sys.path[:]=json.loads(sys.argv[1]);from packager.api.rebuilder import main;"
_PROGRAM = f"{_START}main(sys.argv[2],sys.stdout.buffer)"
_RESULT_LIMIT_BYTES = 256 << 20
_SPARE_BYTES = 512 << 20
_TICK_S = 2.0  # the coarsest clock in use, that of zip archives: what keeps the time must not say the same twice
_LONG = "a-store-whose-path-is-another-one/" + "and-much-longer-" * 4


@dataclass(frozen=True)
class Wish:
    """How to reproduce: which variations (all if none is named), another engine, and where a statement goes."""

    vary: tuple[str, ...] = ()
    engine: str | None = None
    statement: Path | None = None


@dataclass(frozen=True)
class Varied:
    """One condition of the rebuild: its value, or why it could not be varied."""

    name: str
    value: str
    varied: bool


@dataclass(frozen=True)
class Reproduced:
    """What a rebuild from nothing gave; `rebuilt` is the content id of the same image from the other build."""

    task: str
    same: bool
    manifest: str
    content_id: str
    environment_id: str
    rebuilt: str
    varied: tuple[Varied, ...]
    found: tuple[Found, ...]
    more: int = 0
    follow: tuple[str, ...] = ()


@full_disk_trouble("reproduce")
def reproduce(
    place: Place, task: str, *, platform: str = PLATFORM, wish: Wish | None = None, progress: Progress = silent
) -> Reproduced:
    """Rebuild a locked task from an empty store under every variation, and compare with what this store has.

    What this store does not have yet is built first. With a root secret the sealed image is compared, else all but it.
    """
    from packager.api.author import fetch
    from packager.build.variations import choose, together, variations

    wish = wish or Wish()
    task_build = place.task_build(task, platform, progress)
    with task_build.store.lease():
        fetch(place, task, platform=platform, progress=progress)
        ours = _ours(place, task_build)
        with _workshop(place, task_build, ours, progress) as shop:
            rows = choose(variations(shop.here(wish)), wish.vary)
            count = sum(row.possible for row in rows)
            progress(Event("reproduce", message=f"{task}: from an empty store, {count} conditions varied"))
            time.sleep(_TICK_S)
            trials = [
                shop.compare(together(rows), "all", rows),
                *(shop.compare(*one, rows) for one in shop.foreign(rows)),
            ]
    return _report(place, task_build, ours, _Outcome(rows, trials, (place.engine, *shop.engines(rows))), wish)


@dataclass(frozen=True)
class _Ours:
    """The build that this store has; `manifest` and `content_id` are of the sealed image if there is a root secret."""

    remembered: Remembered
    environment_id: str
    content_id: str
    manifest: str

    def rebuilt(self, result: Result) -> str:
        """Return the content id of a rebuild, of the sealed image if it came to that."""
        return result.content_id or result.environment_id

    def equals(self, result: Result) -> bool:
        """Tell whether a rebuild gave the same image, sealed where ours is."""
        return self.rebuilt(result) == self.content_id and result.manifest in ("", self.manifest)


def _other_engines(place: Place) -> tuple[str, ...]:
    """Return the engines that seem to work here beside the one in use."""
    try:
        engines = importlib.import_module("packager.sandbox.engines")
    except ModuleNotFoundError:  # there is only one
        return ()
    others = [name for name in engines.NAMES if name != place.engine]
    return tuple(name for name in others if engines.find_lack(name, place.store_root) is None)


def _ours(place: Place, task_build: TaskBuild) -> _Ours:
    from packager.api.author import seal_image
    from packager.build.reproduce import Remembered
    from packager.build.trace import Traced, steps_of

    traced: list[Traced] = []
    stage = task_build.environment(traced.append)
    image = environment = task_build.image(stage)
    if is_there(place.keys / ROOT_SECRET):
        image, _ = seal_image(place, task_build, environment.content_id)
    diff_ids = tuple(layer.diff_id for layer in stage.layers)
    remembered = Remembered(steps_of(traced, task_build.store), task_build.store, diff_ids)
    return _Ours(remembered, environment.content_id, image.content_id, image.manifest.digest)


@dataclass(frozen=True)
class _Outcome:
    """What the rebuilds came to, each with its result and comparison; `engines` are all that built."""

    rows: Sequence[Variation]
    trials: Sequence[tuple[Result, Comparison]]
    engines: tuple[str, ...]


@contextlib.contextmanager
def _workshop(place: Place, task_build: TaskBuild, ours: _Ours, progress: Progress) -> Iterator[_Workshop]:
    """Give empty stores on disk and, where there is room, in memory; both are gone afterwards."""
    from packager.sandbox import kernel
    from packager.store.scratch import scratch_folder

    with scratch_folder(task_build.store.root) as scratch:
        memory = scratch / "memory"
        memory.mkdir()
        needed = _SPARE_BYTES + 3 * sum(step.layer.diff_size for step in ours.remembered.steps if step.layer)
        trouble = _mount_memory(memory, needed)
        try:
            yield _Workshop(place, task_build, ours, scratch, trouble, progress)
        finally:
            with contextlib.suppress(OSError):
                kernel.unmount(str(memory))


def _mount_memory(folder: Path, needed: int) -> str:
    """Mount a file system in memory that can hold trees of layers; return what stands in the way, if anything does."""
    from packager.sandbox import kernel

    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
    if free < 2 * needed:
        return f"{needed >> 20} MiB in memory are needed, and only half of {free >> 20} MiB are to be had"
    try:
        kernel.mount("tmpfs", str(folder), "tmpfs", 0, f"size={needed},mode=0755")
        os.setxattr(folder, "user.overlay.probe", b"y")
    except OSError as error:
        return f"no file system in memory: {error.strerror}"
    return ""


@dataclass(frozen=True)
class _Workshop:
    """Where rebuilds take place."""

    place: Place
    task_build: TaskBuild
    ours: _Ours
    scratch: Path
    memory: str
    progress: Progress

    def here(self, wish: Wish) -> Here:
        """Return what can be varied here."""
        from packager.build.variations import Here
        from packager.sandbox.namespaces import in_first_user_namespace

        mask = os.umask(0)
        os.umask(mask)
        engines = _other_engines(self.place) if wish.engine is None else (wish.engine,)
        cpus = sorted(os.sched_getaffinity(0))
        may_map = os.geteuid() == 0 and in_first_user_namespace()
        return Here(cpus, mask, dict(os.environ), may_map, self.memory, engines)

    def engines(self, rows: Sequence[Variation]) -> tuple[str, ...]:
        """Return the engines that build again, if they are among what is varied."""
        return tuple(name for row in rows if row.name == "engine" and row.possible for name in row.value.split(", "))

    def foreign(self, rows: Sequence[Variation]) -> list[tuple[Settings, str]]:
        """Return a rebuild for each other engine: nothing else is varied, since not every engine stands everything."""
        from packager.build.variations import Settings

        return [(Settings(engine=name), f"engine {name}") for name in self.engines(rows)]

    def compare(self, settings: Settings, name: str, rows: Sequence[Variation]) -> tuple[Result, Comparison]:
        """Rebuild everything under some settings and compare it with ours, step by step."""
        from packager.build.reproduce import compare_builds

        result = self.rebuild(settings, name)
        if result.complaint:
            return result, _failed(result)
        theirs = self.remember(result, name, settings)
        return result, compare_builds(self.ours.remembered, theirs, self.react(rows, settings, theirs))

    def store_root(self, settings: Settings, name: str) -> Path:
        """Return the store of a rebuild."""
        parent = self.scratch / ("memory" if settings.in_memory else "disk")
        return parent / name / _LONG if settings.long_path else parent / name

    def rebuild(self, settings: Settings, name: str, again: Sequence[int] = ()) -> Result:
        """Run a rebuilder in a process of its own and return what it says."""
        from packager.base.processes import Surroundings, run

        place, root = self.place, self.store_root(settings, name)
        root.mkdir(parents=True, exist_ok=True)
        known = (place.store_root, *place.inputs)
        task = Task(
            root=str(place.root),
            store=str(root),
            keys=str(place.keys),
            inputs=tuple(str(path.absolute()) for path in known),
            task=self.task_build.recipe.id,
            platform=self.task_build.lock.platform,
            engine=settings.engine or place.engine,
            settings=settings.plain(),
            environment_id=self.ours.environment_id,
            again=tuple(again),
        )
        paths = json.dumps([str(Path(path).absolute()) for path in sys.path])
        argv = [sys.executable, "-c", _PROGRAM, paths, format_canonical(asdict(task)).decode()]
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **settings.env}
        done = run(argv, Surroundings(env=env))
        if done.exit_code != 0:
            said = done.stderr[-2000:].decode(errors="replace").strip()
            raise WorldError(f"the rebuilder ended with {done.exit_code}: {said}", where=f"reproduce {task.task}")
        value = parse_json(done.stdout, where="rebuilder", limit=_RESULT_LIMIT_BYTES)
        result = Result(**value)
        if result.complaint and result.exit_code != InputError.exit_code:
            raise WorldError(result.complaint, where=f"rebuilding {task.task} ({name})")
        return result

    def remember(self, result: Result, name: str, settings: Settings) -> Remembered:
        """Return a rebuild as something to compare."""
        from packager.build.reproduce import Remembered
        from packager.build.trace import parse_steps
        from packager.store.store import Store

        steps = parse_steps(result.steps.encode(), where="rebuilder")
        return Remembered(steps, Store(self.store_root(settings, name)))

    def react(self, rows: Sequence[Variation], settings: Settings, theirs: Remembered) -> Reactions:
        """Run each step that differs again, over the layers that it had, under every variation alone."""
        from packager.build.causes import REPEATED
        from packager.build.reproduce import TOGETHER, differing_steps, find_reactions
        from packager.build.variations import Settings

        differing = differing_steps(self.ours.remembered, theirs)
        lines = [step.line for step in differing if step.key.get("kind") == "run"]
        alone = {row.name: row.apply(Settings()) for row in rows if row.possible and row.change}
        if settings.engine:
            alone = {"engine": settings}
        known = {REPEATED: Settings(), **alone, TOGETHER: settings}
        return find_reactions(lines, list(alone), lambda name, left: self._try(known[name], name, left))

    def _try(self, settings: Settings, name: str, lines: Sequence[int]) -> list[int]:
        """Return those of some steps that give another layer under some settings."""
        self.progress(Event("reproduce", message=f"varied: {name}; {len(lines)} steps again"))
        kind = f"again{'-shuffled' * bool(settings.order_seed)}{settings.engine}"
        self._teach(self.store_root(settings, kind))
        result = self.rebuild(settings, kind, lines)
        theirs = {step.line: step.layer for step in self.remember(result, kind, settings).steps}
        ours = {step.line: step.layer for step in self.ours.remembered.steps}
        return [line for line in lines if line in theirs and theirs[line] != ours[line]]

    def _teach(self, root: Path) -> None:
        """Let a store know the results of our build; the layers themselves are among its inputs."""
        from packager.build.results import format_layer
        from packager.store.store import Store

        store = Store(root)
        for step in self.ours.remembered.steps:
            store.put_result(digest_of(format_canonical(step.key)), format_layer(step.layer))


def _failed(result: Result) -> Comparison:
    """Return what it means that a step fails in the rebuild alone."""
    from packager.build.checklist import CHECKLIST
    from packager.build.reproduce import Comparison, Found

    hidden = "not in the lock" in result.complaint or "name resolution" in result.complaint
    cause = CHECKLIST["I" if hidden else "H host"]
    row = Found(
        result.where.removeprefix("step "), -1, "", "result", "succeeds", result.complaint, cause.id, str(cause)
    )
    return Comparison((row,))


def _report(place: Place, task_build: TaskBuild, ours: _Ours, outcome: _Outcome, wish: Wish) -> Reproduced:
    """Put everything together, and write the statement if one is wanted."""
    comparisons = [comparison for _, comparison in outcome.trials]
    ids = [ours.rebuilt(result) for result, _ in outcome.trials]
    found = Reproduced(
        task=task_build.recipe.id,
        same=all(comparison.same for comparison in comparisons) and all(ours.equals(one) for one, _ in outcome.trials),
        manifest=ours.manifest,
        content_id=ours.content_id,
        environment_id=ours.environment_id,
        rebuilt=next((one for one in ids if one != ours.content_id), ours.content_id),
        varied=tuple(Varied(row.name, row.value, row.possible) for row in outcome.rows),
        found=tuple(row for comparison in comparisons for row in comparison.found),
        more=sum(comparison.more for comparison in comparisons),
        follow=tuple(label for comparison in comparisons for label in comparison.follow),
    )
    if wish.statement is not None:
        write_atomic(wish.statement, _statement(place, task_build, found, outcome))
    return found


def _statement(place: Place, task_build: TaskBuild, found: Reproduced, outcome: _Outcome) -> bytes:
    from packager import __version__
    from packager.build.statement import Rebuild, format_rebuild_statement, rebuild_predicate

    lock = read_file(place.file(found.task, task_build.lock.platform, "lock"), limit=LOCK_LIMIT_BYTES)
    rebuild = Rebuild(
        task=found.task,
        platform=task_build.lock.platform,
        lock=digest_of(lock),
        environment_id=found.environment_id,
        content_id=found.content_id,
        engines=outcome.engines,
        version=__version__,
        same=found.same,
    )
    return format_rebuild_statement(parse_digest(found.manifest), rebuild_predicate(rebuild, outcome.rows))
