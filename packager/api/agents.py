"""The verb that lets an agent work: run; what it made is judged at once, and all of it is kept.

Kept are, in RESULTS/CONFIGURATION/TASK/ or, of a run with one target, in RESULTS/CONFIGURATION/independent/TASK/: the
verdict as `evaluate --into` keeps it, TARGET.patch, and, each after `joint.` or the target's name: trajectory.jsonl,
stderr.txt, and run.jsonl, one line that says what became of the agent, with a key over image, agent and target.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.api.judge import EvaluationRequest
from packager.api.sealed import open_sealed
from packager.api.trusted import Trust
from packager.api.workspaces import repositories_in, verified_image
from packager.base.errors import InputError, UsageError
from packager.base.files import full_disk_trouble, read_file, write_atomic
from packager.base.progress import Event, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.agents.adapter import Adapter
    from packager.agents.credential import Credential
    from packager.agents.run import AgentRun, Assignment, View
    from packager.api.place import Place
    from packager.evaluate.judge import StoredImage
    from packager.evaluate.run_record import RunRecord
    from packager.store.store import Store

SCHEMA = "wideswe-run/1"
_INFRA = 6
_LIMIT_BYTES = 16 << 20


@dataclass(frozen=True)
class AgentRequest:
    """Which agent (a file, a name in agents/, or a shell command), on which target alone, and where results go."""

    agent: str
    into: Path
    only: str | None = None
    configuration: str = ""
    endpoint: str = ""
    """Another URL in place of the model's own upstream."""
    resume: bool = False
    trust: Trust | None = None
    evaluator: Path | None = None


@dataclass(frozen=True)
class Ran:
    """What became of one run: an outcome, how the agent ended, its requests to the model, and where all of it is.

    `known` says that an earlier run is told of; `verdict` is None where nothing judges the agent.
    """

    task: str
    configuration: str
    only: str
    outcome: str
    reason: str
    exit_code: int
    ended: str
    folder: Path
    requests: int | None = None
    verdict: Path | None = None
    known: bool = False


@full_disk_trouble("run")
def run_agent(place: Place, task: str, request: AgentRequest, *, progress: Progress = silent) -> Ran:
    """Let an agent work in its view of a verified image, capture its patches, and judge them; keep all of it."""
    adapter = _adapter(place, request)
    model = adapter.model
    source = None if model is None else model.credential
    credential = None if source is None else source.read(os.environ)
    run = _Run(place, task, request, adapter)
    run.refuse_earlier()
    kept = run.kept() if request.resume else None
    if kept is None or kept["trouble"]:
        kept = run.let_work(credential, progress)
    return run.without_verdict(kept) if kept["trouble"] else run.judge(kept, progress)


def _adapter(place: Place, request: AgentRequest) -> Adapter:
    """Return the agent that the request names, with its own endpoint or another one."""
    from packager.agents.adapter import adapter_for, read_adapter
    from packager.agents.endpoint import parse_endpoint

    file = _adapter_file(place, request.agent)
    adapter = adapter_for(request.agent) if file is None else read_adapter(file)
    if not request.endpoint:
        return adapter
    if adapter.model is None:
        raise UsageError("this agent has no model, so it has no endpoint", hint="leave --endpoint out")
    before = adapter.model.endpoint
    endpoint = parse_endpoint(request.endpoint, where="--endpoint", paths=before.paths, counted=before.counted)
    return replace(adapter, model=replace(adapter.model, endpoint=endpoint))


def _adapter_file(place: Place, agent: str) -> Path | None:
    """Return the file that a word names; None if it is a shell command. One word alone is never a command."""
    if re.fullmatch(r"[A-Za-z0-9._-]+", agent) is None or agent.endswith((".yaml", ".yml")):
        file = Path(agent)
        return file if file.suffix in (".yaml", ".yml") or file.is_file() else None
    folder = place.root / "agents"
    named = folder / f"{agent}.yaml"
    if not named.is_file():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
        hint = f"agents there: {known}; a shell command of one word is written as `exec {agent}`"
        raise UsageError(f"no agent {agent}", where=str(folder), hint=hint)
    return named


@dataclass(frozen=True)
class _Run:
    """One run and its files."""

    place: Place
    task: str
    request: AgentRequest
    adapter: Adapter

    @property
    def configuration(self) -> str:
        return self.request.configuration or self.adapter.name

    @property
    def folder(self) -> Path:
        return self.above / self.task

    @property
    def above(self) -> Path:
        """Return the folder of all tasks of this configuration and mode."""
        folder = self.request.into / self.configuration
        return folder / "independent" if self.request.only else folder

    def file(self, name: str) -> Path:
        """Return the place of one of the files of this run."""
        return self.folder / f"{self.request.only or 'joint'}.{name}"

    def _key(self) -> str:
        from packager.agents.adapter import plain_adapter
        from packager.base.canonical import format_canonical
        from packager.base.digests import digest_of, hex_of

        parts = {
            "image": self.place.record(self.task).manifest.digest,
            "agent": plain_adapter(self.adapter),
            "only": self.request.only,
        }
        return hex_of(digest_of(format_canonical(parts)))

    def refuse_earlier(self) -> None:
        """Refuse to write over an earlier run, or over what another agent made under the same name."""
        there = self.file("run.jsonl").exists()
        if there and not self.request.resume:
            hint = "--resume goes on from it, --configuration NAME keeps both"
            raise UsageError("an earlier run is there", where=str(self.folder), hint=hint)
        if there and self._line().get("key") != self._key():
            hint = "--configuration NAME keeps both"
            raise UsageError("what is there is of another agent or image", where=str(self.folder), hint=hint)

    def _line(self) -> dict[str, Any]:
        from packager.base.canonical import parse_json

        path = self.file("run.jsonl")
        line = parse_json(read_file(path, limit=_LIMIT_BYTES), where=str(path), limit=_LIMIT_BYTES)
        if not isinstance(line, dict) or line.get("schema") != SCHEMA:
            raise InputError(f"expected a line of schema {SCHEMA}", where=str(path))
        return line

    def kept(self) -> dict[str, Any] | None:
        """Return what an earlier run left of the agent's work, if it is whole."""
        from packager.base.digests import digest_of

        if not self.file("run.jsonl").exists():
            return None
        line = self._line()
        files = {name: self.folder / f"{name}.patch" for name in line["patches"]}
        whole = all(path.is_file() and digest_of(path.read_bytes()) == line["patches"][n] for n, path in files.items())
        return line if whole else None

    def let_work(self, credential: Credential | None, progress: Progress) -> dict[str, Any]:
        """Run the agent, keep its patches and what it wrote, and return the line about it."""
        from packager.agents.run import View, run_agent
        from packager.store.scratch import scratch_folder

        store, engine = self.place.store(), self.place.engine_now()
        with store.lease():
            image, _ = verified_image(self.place, self.task, self.request.trust or Trust(), progress=progress)
            layers = image.trees(store, progress=progress)
            env = dict(pair.partition("=")[::2] for pair in image.config.env)
            view = View(engine, layers, env, store.root, progress)
            with scratch_folder(store.root) as scratch:
                given = self._assignment(store, image, view, scratch)
                made = run_agent(view, self.adapter, given, credential, scratch)
                self._copy(scratch)
        return self._keep(given, made)

    def _copy(self, scratch: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, file in (("trajectory", "trajectory.jsonl"), ("stderr", "stderr.txt")):
            if (scratch / name).exists():
                shutil.copyfile(scratch / name, self.file(file))

    def _assignment(self, store: Store, image: StoredImage, view: View, scratch: Path) -> Assignment:
        """Return what the agent is given; the seal is opened now, so that nobody works for nothing."""
        from packager.agents.run import Assignment
        from packager.evaluate.predictions import Patch
        from packager.evaluate.trees import DirectoryTree
        from packager.oci.places import PROMPT_PATH

        contents = open_sealed(self.place, store, image, self.task, evaluator=self.request.evaluator)
        with view.engine.open_tree(view.layers, scratch=scratch) as tree, DirectoryTree(tree.lower) as files:
            targets, contexts = repositories_in(files, self.task)
            prompt = files.read(PROMPT_PATH)
        only = self.request.only
        if only is None:
            return Assignment(targets, prompt, others=contexts)
        if only not in targets:
            raise UsageError(f"no target {only!r}", where=self.task, hint=f"targets: {', '.join(targets)}")
        gold = {name: Patch(contents.gold[name]) for name in targets if name != only}
        return Assignment((only,), prompt, gold, (*gold, *contexts))

    def _keep(self, given: Assignment, made: AgentRun) -> dict[str, Any]:
        from packager.base.digests import digest_of

        for name, patch in made.patches.items():
            write_atomic(self.folder / f"{name}.patch", patch)
        line = {
            "schema": SCHEMA,
            "key": self._key(),
            "task": self.task,
            "trouble": made.trouble,
            "run": self._record(given, made).plain(),
            "patches": {name: digest_of(patch) for name, patch in made.patches.items()},
        }
        write_atomic(self.file("run.jsonl"), json.dumps(line, sort_keys=True).encode() + b"\n")
        return line

    def _record(self, given: Assignment, made: AgentRun) -> RunRecord:
        from packager.evaluate.run_record import RunRecord

        counts, model = made.counts, self.adapter.model
        details: dict[str, str | int | bool | None] = {"exit_code": made.exit_code}
        if counts is not None:
            details |= {f"requests_{name}": getattr(counts, name) for name in ("passed", "answered", "refused")}
            details |= {"transfer_bytes": counts.transfer_bytes}
            details |= {f"refusal_{number}": text for number, text in enumerate(counts.refusals[:5], 1)}
        details |= {f"uncaptured_{name}": reason for name, reason in made.uncaptured.items()}
        details |= {f"tool_{name}": digest for name, digest in made.tools.items()}
        return RunRecord(
            mode="independent" if self.request.only else "joint",
            targets=given.targets,
            agent=self.adapter.name,
            requests=None if counts is None else counts.counted,
            model="" if model is None else model.name,
            agent_ms=round(made.seconds * 1000),
            ended=made.ended,
            trajectory=self.file("trajectory.jsonl").name if self.file("trajectory.jsonl").exists() else "",
            strays=made.strays,
            details=details,
        )

    def judge(self, line: Mapping[str, Any], progress: Progress) -> Ran:
        """Judge what the agent made, in a process of its own; what was judged of it before is told again."""
        from packager.api.runs import Campaign, Job, evaluate_many
        from packager.evaluate.run_record import parse_run

        progress(Event("run", message="judging"))
        record = parse_run(line["run"])
        request = EvaluationRequest(
            target_patches={name: self.folder / f"{name}.patch" for name in line["patches"]},
            trust=self.request.trust,
            evaluator=self.request.evaluator,
            only=self.request.only,
            run=record,
            trajectory=self.folder / record.trajectory if record.trajectory else None,
        )
        campaign = Campaign(self.above, resume=self.request.resume)
        (found,) = evaluate_many([Job(self.place, self.task, request)], campaign, progress=progress)
        return replace(
            self._ran(line, found.outcome, found.reason, found.exit_code), verdict=found.verdict, known=found.known
        )

    def without_verdict(self, line: Mapping[str, Any]) -> Ran:
        """Return what is to be said of a run that judges nobody."""
        return self._ran(line, "infra", line["trouble"], _INFRA)

    def _ran(self, line: Mapping[str, Any], outcome: str, reason: str, code: int) -> Ran:
        run, only = line["run"], self.request.only or ""
        said = (self.task, self.configuration, only, outcome, reason, code, run["ended"], self.folder)
        return Ran(*said, requests=run["requests"])
