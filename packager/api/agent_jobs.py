"""Many runs of agents: each in a process of its own, several at once; what ends one of them stops no other."""

from __future__ import annotations

import os
import pickle
import signal
import sys
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

    A run that cannot be done has the outcome `refused`, or `infra` where the machine is to blame or it was killed.
    """
    from concurrent.futures import ThreadPoolExecutor

    done = 0

    def one(job: AgentJob) -> Ran:
        nonlocal done
        found = _run_apart(job)
        done += 1
        progress(Event("run", done, len(jobs), "runs", f"{job.task}: {found.outcome}"))
        return found

    with ThreadPoolExecutor(max(1, at_once)) as pool:
        return list(pool.map(one, jobs))


def _run_apart(job: AgentJob) -> Ran:
    from packager.base.processes import Surroundings, run

    told = pickle.dumps(replace(job, place=replace(job.place, password=None)))
    done = run((sys.executable, "-c", _BOOTSTRAP, _PACKAGE_PARENT), Surroundings(stdin=told))
    if done.exit_code == 0:
        found: Ran = pickle.loads(done.stdout)  # noqa: S301 - our own child wrote it
        return found
    said = done.stderr.decode(errors="replace")[-_TAIL_CHARACTERS:].strip()
    refused = done.exit_code in _REFUSALS
    if done.exit_code < 0:
        said = f"the run was killed by signal {-done.exit_code}"
    request = job.request
    return Ran(
        job.task,
        request.configuration or request.agent,
        request.only or "",
        "refused" if refused else "infra",
        said or f"the run ended with exit code {done.exit_code}",
        done.exit_code if refused else _INFRA,
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
