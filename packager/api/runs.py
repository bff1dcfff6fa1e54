"""Many evaluations: each in a process of its own, several at once; verdicts are kept, and later runs go on from them.

A verdict is kept under a key over image, patch and tool, so that a changed patch is never answered from an old run.
What has no verdict, or one that blames the machine, is evaluated again; a judgement never is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager.api.judge import EvaluationRequest, evaluate, exit_code
from packager.base.errors import InputError, PackError
from packager.base.files import is_there, write_atomic
from packager.base.progress import Event, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import NoReturn

    from packager.api.place import Place
    from packager.base.digests import Digest
    from packager.evaluate.verdict import Verdict

_BOOTSTRAP = "import sys;sys.path.insert(0,sys.argv[1]);from packager.api.runs import work;work()"
_PACKAGE_PARENT = str(Path(__file__).parents[2])
_INFRA = 6
_REFUSALS = (3, 4, 5)
_TAIL_CHARACTERS = 2000


@dataclass(frozen=True)
class Job:
    """One evaluation of many; a task that the store lacks is pulled from `source`, such as registry/suite, first."""

    place: Place
    task: str
    request: EvaluationRequest
    source: str = ""


@dataclass(frozen=True)
class Evaluated:
    """What became of one task: one of the five outcomes, or `refused` where patch or image cannot be judged at all.

    `known` says that an earlier run had judged it; `verdict` is the file that holds the verdict, if there is one;
    `only` is the target that alone was judged, the others at gold.
    """

    task: str
    outcome: str
    reason: str
    exit_code: int
    verdict: Path | None = None
    known: bool = False
    only: str = ""


@dataclass(frozen=True)
class Campaign:
    """Where verdicts are kept, how many tasks run at once, and whether earlier verdicts count."""

    into: Path
    jobs: int = 1
    resume: bool = False


@dataclass(frozen=True)
class Predicted:
    """What a line of predictions is about: a task here, and the only target of an independent run, or None."""

    task: str
    only: str | None = None


def tasks_predicted(place: Place, predictions: Path) -> tuple[Predicted, ...]:
    """Return what a file of predictions is about, in order; ids elsewhere become tasks of the recipes here.

    InputError if it names no task.
    """
    from packager.evaluate.predictions import read_predictions

    found = read_predictions(predictions)
    named = {(task, ""): None for task in found.by_task if task} | dict.fromkeys(found.alone)
    if not named:
        raise InputError("names no task", where=str(predictions), hint="name the tasks with --task")
    strange = {task for task, _ in named if not (place.root / "recipes" / f"{task}.yaml").is_file()}
    aliases = place.tasks_by_alias() if strange else {}
    return tuple(Predicted(task, only or None) for task, only in sorted({(aliases.get(t, t), o) for t, o in named}))


def evaluate_many(jobs: Sequence[Job], campaign: Campaign, *, progress: Progress = silent) -> list[Evaluated]:
    """Evaluate tasks, each in a process of its own, and keep the verdicts; in the order of `jobs`.

    What ends one evaluation, a kill included, is an outcome of that one alone.
    """
    from concurrent.futures import ThreadPoolExecutor

    for job in jobs:
        if "/" in job.task or job.task.startswith("."):
            raise InputError(f"expected the name of a task, found {job.task[:80]!r}", where="tasks")
    _sweep(campaign.into)
    done = 0

    def one(job: Job) -> Evaluated:
        nonlocal done
        try:
            found = (_known(job, campaign) if campaign.resume else None) or _evaluate_apart(job, campaign)
        except InputError as error:
            found = _unjudged(job, error.exit_code, str(error))
        _make_current(found)
        done += 1
        progress(Event("evaluate", done, len(jobs), "tasks", f"{_named(job)}: {found.outcome}"))
        return found

    with ThreadPoolExecutor(max(1, campaign.jobs)) as pool:
        return list(pool.map(one, jobs))


def _make_current(found: Evaluated) -> None:
    """Name the verdict that counts for a task now, among those that were reached on other patches before."""
    if found.verdict is None:
        return
    from packager.base.canonical import format_readable
    from packager.report.runs import CURRENT, read_current

    path = found.verdict.with_name(CURRENT)
    with _alone_in(path.parent):
        try:
            known = read_current(path) if is_there(path) else {}
        except InputError:
            known = {}  # damaged; the next run makes it whole
        write_atomic(path, format_readable({**known, found.only: found.verdict.name}))


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other threads and processes out of a task's folder for a moment."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _named(job: Job) -> str:
    return job.task if job.request.only is None else f"{job.task} ({job.request.only})"


def _sweep(into: Path) -> None:
    """Delete what evaluations left whose command was killed."""
    for path in into.glob("*/fresh-*-*.json"):
        if not Path(f"/proc/{path.name.split('-')[1]}").exists():
            path.unlink(missing_ok=True)


def _known(job: Job, campaign: Campaign) -> Evaluated | None:
    """Return what an earlier run judged of the same image, patch and tool."""
    path = _verdict_path(job, campaign)
    if path is None:
        return None
    verdict = _read_verdict(path)
    if verdict is None or exit_code(verdict) == _INFRA or not _answers(verdict, job):
        return None
    return _told(job, _retold(verdict, job, path), path, known=True)


def _retold(verdict: Verdict, job: Job, path: Path) -> Verdict:
    """Keep with a known verdict what is said of the run now: the same patch may have come about in another way."""
    from packager.evaluate.telling import tell_again
    from packager.evaluate.verdict import format_verdict

    request = job.request
    prediction = request.handed_in(job.place, job.task).find(job.task, only=request.only)
    trajectory = request.read_trajectory(prediction)
    told = tell_again(verdict, prediction, said=request.run, trajectory=trajectory)
    if told != verdict:
        write_atomic(path, format_verdict(told))
    return told


def _answers(verdict: Verdict, job: Job) -> bool:
    """Say whether a verdict speaks of a job's task, image and patches, whatever its file is called."""
    from packager.oci.record import parse_record

    record, only = job.place.store().name("images", job.task), job.request.only
    if record is None or verdict.task != job.task or (verdict.at_gold is None) != (only is None):
        return False
    if verdict.image != parse_record(record, where=job.task).manifest.digest:
        return False
    if job.request.gold:
        return None not in verdict.patches.values()
    names = [*verdict.patches, *(verdict.at_gold or ())]
    found = job.request.handed_in(job.place, job.task).of(job.task, names, only=only)
    wanted = {} if found is None else {name: patch.digest for name, patch in found.items()}
    return dict(verdict.patches) == (wanted or dict.fromkeys([only] if only else names))


def _read_verdict(path: Path) -> Verdict | None:
    from packager.evaluate.verdict import parse_verdict

    try:
        return parse_verdict(path.read_bytes(), where=str(path))
    except (FileNotFoundError, PackError):
        return None


def _told(job: Job, verdict: Verdict, path: Path, *, known: bool) -> Evaluated:
    grade = verdict.grade
    only = job.request.only or ""
    return Evaluated(job.task, grade.outcome.value, grade.reason, exit_code(verdict), path, known, only)


def _evaluate_apart(job: Job, campaign: Campaign) -> Evaluated:
    """Run one evaluation in a process of its own; only a whole verdict is given the name that a later run looks for."""
    from packager.base.processes import Surroundings, run

    folder = campaign.into / job.task
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"fresh-{os.getpid()}-{os.urandom(4).hex()}.json"
    place = replace(job.place, password=None)
    told = pickle.dumps(replace(job, place=place, request=replace(job.request, output=fresh.absolute())))
    argv = (sys.executable, "-c", _BOOTSTRAP, _PACKAGE_PARENT)
    done = run(argv, Surroundings(stdin=told))
    verdict = _read_verdict(fresh)
    path = None if verdict is None else _verdict_path(job, campaign)
    if verdict is not None and path is not None and not _answers(verdict, job):
        fresh.unlink(missing_ok=True)
        return _unjudged(job, _INFRA, "the patch or the image was changed while it was judged")
    if verdict is None or path is None:
        fresh.unlink(missing_ok=True)
        return _unjudged(job, done.exit_code, done.stderr.decode(errors="replace")[-_TAIL_CHARACTERS:].strip())
    fresh.replace(path)
    return _told(job, verdict, path, known=False)


def _unjudged(job: Job, code: int, said: str) -> Evaluated:
    only = job.request.only or ""
    if code in _REFUSALS:
        return Evaluated(job.task, "refused", said, code, only=only)
    reason = said if code > 0 else f"the evaluation was killed by signal {-code}"
    return Evaluated(job.task, "infra", reason or f"the evaluation ended with exit code {code}", _INFRA, only=only)


def _verdict_path(job: Job, campaign: Campaign) -> Path | None:
    """Return where the verdict on this image, patch and tool is kept; None if the store has no such image."""
    from packager.base.digests import hex_of

    key = _key(job)
    return None if key is None else campaign.into / job.task / f"{hex_of(key)[:32]}.json"


def _key(job: Job) -> Digest | None:
    from packager import __version__
    from packager.base.canonical import format_canonical
    from packager.base.digests import digest_of
    from packager.build.known import code_digest
    from packager.oci.record import parse_record

    record = job.place.store().name("images", job.task)
    if record is None:
        return None
    parts = {
        "image": parse_record(record, where=job.task).manifest.digest,
        "patch": _patch_parts(job),
        "tool": [__version__, code_digest()],
        "engine": job.place.engine,
    }
    if job.request.only is not None:
        parts["only"] = job.request.only
    return digest_of(format_canonical(parts))


def _patch_parts(job: Job) -> object:
    from packager.base.digests import digest_of

    request = job.request
    if request.gold:
        return "gold"
    found = request.handed_in(job.place, job.task).find(job.task, only=request.only)
    if found is None:
        return None
    joint = None if found.joint is None else digest_of(found.joint)
    return {"joint": joint, "patches": {name: digest_of(data) for name, data in found.patches.items()}}


def work() -> NoReturn:
    """Be the process of one evaluation: read the job, write its verdict, end as the command line would.

    It dies with the command that started it.
    """
    from packager.sandbox import kernel

    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    job: Job = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - our own parent wrote it
    sys.exit(_ending(lambda: _work(job)))


def _work(job: Job) -> int:
    if job.source and job.place.store().name("images", job.task) is None:
        from packager.api.carry import pull

        pull(job.place, f"{job.source}/{job.task}:v1")
    return exit_code(evaluate(job.place, job.task, job.request))


def _ending(work: Callable[[], int]) -> int:
    try:
        return work()
    except PackError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
