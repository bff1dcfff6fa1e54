"""Many runs of agents: each in a process of its own, several at once; what ends one of them stops no other."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager.api.agents import AgentRequest, Ran, run_agent
from packager.base.errors import PackError
from packager.base.progress import Event, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from packager.api.place import Place
    from packager.base.processes import Started

_BOOTSTRAP = "import sys;sys.path.insert(0,sys.argv[1]);from packager.api.agent_jobs import work;work()"
_PACKAGE_PARENT = str(Path(__file__).parents[2])
_INFRA = 6
_REFUSALS = (2, 3, 4, 5)
_TAIL_CHARACTERS = 2000


@dataclass(frozen=True)
class AgentJob:
    """One run of many."""

    place: Place
    task: str
    request: AgentRequest


def run_agents(jobs: Sequence[AgentJob], *, at_once: int = 1, progress: Progress = silent) -> list[Ran]:
    """Run agents, each in a process of its own; in the order of `jobs`.

    A run that cannot be done has the outcome `refused`, or `infra` where the machine is to blame or it was killed. Who
    is interrupted ends them all.
    """
    from concurrent.futures import ThreadPoolExecutor

    done, children = 0, _Children()

    def one(job: AgentJob) -> Ran:
        nonlocal done
        found = _run_apart(job, children)
        done += 1
        progress(Event("run", done, len(jobs), "runs", f"{job.task}: {found.outcome}"))
        return found

    with ThreadPoolExecutor(max(1, at_once)) as pool:
        try:
            return list(pool.map(one, jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()
            raise


class _Children:
    """The processes of runs that go on."""

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._lock = threading.Lock()
        self._over = False

    def run(self, told: bytes) -> tuple[int, bytes, bytes]:
        """Run one to its end; return its exit code and what it wrote on both streams."""
        from packager.base.processes import Surroundings, running

        argv = (sys.executable, "-c", _BOOTSTRAP, _PACKAGE_PARENT)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            with running(argv, Surroundings(stdin=b"-"), stdout=out, stderr=errors) as child:
                with self._lock:
                    self._pids |= set() if self._over else {child.pid}
                with contextlib.suppress(BrokenPipeError):
                    _feed(child, told)
                code = -signal.SIGKILL if self._over else child.wait()
                with self._lock:
                    self._pids.discard(child.pid)
            out.seek(0)
            errors.seek(0)
            return code, out.read(), errors.read()

    def end(self) -> None:
        """End all, and whatever would still begin; each is the first of a session of its own."""
        with self._lock:
            self._over = True
            for pid in self._pids:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)


def _feed(child: Started, told: bytes) -> None:
    if child.stdin is not None:
        child.stdin.write(told)
        child.stdin.close()


def _run_apart(job: AgentJob, children: _Children) -> Ran:
    code, out, errors = children.run(pickle.dumps(replace(job, place=replace(job.place, password=None))))
    if code == 0:
        found: Ran = pickle.loads(out)  # noqa: S301 - our own child wrote it
        return found
    said = errors.decode(errors="replace")[-_TAIL_CHARACTERS:].strip()
    refused = code in _REFUSALS
    if code < 0:
        said = f"the run was killed by signal {-code}"
    request = job.request
    return Ran(
        job.task,
        request.configuration or request.agent,
        request.only or "",
        "refused" if refused else "infra",
        said or f"the run ended with exit code {code}",
        code if refused else _INFRA,
        "",
        request.into,
    )


def work() -> NoReturn:
    """Be the process of one run: read the job, do it, write what came of it; it dies with who started it."""
    from packager.sandbox import kernel

    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    answer = os.dup(1)
    os.dup2(2, 1)
    job: AgentJob = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - our own parent wrote it
    try:
        ran = run_agent(job.place, job.task, job.request)
    except PackError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    with os.fdopen(answer, "wb") as stream:
        stream.write(pickle.dumps(ran))
    sys.exit(0)
