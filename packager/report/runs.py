"""The verdicts of many runs: one file per task in a folder per configuration, read whole and checked.

Layout: RESULTS/CONFIGURATION/TASK.json, or RESULTS/CONFIGURATION/MODE/TASK.json with the modes `joint` (the agent had
all targets, the default) and `independent` (it had one, the others stood at gold); in place of TASK.json also
TASK/KEY.json, as `evaluate --into` keeps verdicts. Beside a verdict may lie TASK.facts.json with what a verdict does
not bind: {"schema": "wideswe-facts/1", "kind", "failure_class", "requests", "logs": {TARGET: text}}, each key but the
first optional.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from packager.base.canonical import parse_json
from packager.base.errors import InputError
from packager.base.files import read_file
from packager.evaluate.verdict import parse_verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from packager.evaluate.verdict import Verdict

Mode = Literal["joint", "independent"]
FailureClass = Literal["scope", "delivery", "post-edit"]

FACTS_SCHEMA = "wideswe-facts/1"
FACTS_SUFFIX = ".facts.json"
_KEPT = re.compile(r"[0-9a-f]{32}\.json")
_VERDICT_LIMIT_BYTES = 64 << 20
_MODES: tuple[Mode, ...] = get_args(Mode)
_CLASSES: tuple[FailureClass, ...] = get_args(FailureClass)
_KEYS = {"schema", "kind", "failure_class", "requests", "logs"}


@dataclass(frozen=True)
class Facts:
    """What is known of a run beside its verdict; a log is the end of what a target's tests wrote."""

    kind: str = ""
    failure_class: FailureClass | None = None
    requests: int | None = None
    logs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One verdict with the configuration and the mode that it was reached in."""

    configuration: str
    mode: Mode
    verdict: Verdict
    facts: Facts = Facts()

    @property
    def key(self) -> tuple[str, str, str]:
        """Configuration, mode and task: what there is one verdict for."""
        return self.configuration, self.mode, self.verdict.task


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Return all runs below some folders, sorted by configuration, mode and task; two for one key are an InputError."""
    found: dict[tuple[str, str, str], tuple[Run, Path]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError("expected a folder of results, found none", where=str(folder))
        for path in sorted(folder.rglob("*.json")):
            if path.name.endswith(FACTS_SUFFIX):
                continue
            run = _read_run(path, folder)
            other = found.setdefault(run.key, (run, path))[1]
            if other != path:
                raise InputError(
                    f"a second verdict for {' '.join(run.key)}, first in {other}",
                    where=str(path),
                    hint="give each configuration a folder of its own",
                )
    if not found:
        where = ", ".join(map(str, folders))
        raise InputError("no verdict found", where=where, hint="write them with evaluate --output or --into")
    return [run for _, (run, _) in sorted(found.items())]


def _read_run(path: Path, folder: Path) -> Run:
    where = str(path)
    parts = [folder.resolve().name, *path.relative_to(folder).parts[:-1]]
    mode: Mode = "joint"
    task = parts.pop() if len(parts) > 1 and _KEPT.fullmatch(path.name) else path.stem
    if len(parts) > 1 and parts[-1] in _MODES:
        mode = "independent" if parts.pop() == "independent" else "joint"
    verdict = parse_verdict(read_file(path, limit=_VERDICT_LIMIT_BYTES), where=where)
    if task != verdict.task:
        raise InputError(f"expected the verdict of {task}, found that of {verdict.task}", where=where)
    name = "/".join(parts[1:]) or parts[0]
    facts = path.with_name(verdict.task + FACTS_SUFFIX)
    return Run(name, mode, verdict, _read_facts(facts) if facts.exists() else Facts())


def _read_facts(path: Path) -> Facts:
    plain = parse_json(read_file(path, limit=_VERDICT_LIMIT_BYTES), where=str(path))
    problems = list(_facts_problems(plain))
    if problems:
        raise InputError("; ".join(problems), where=str(path))
    return Facts(
        kind=plain.get("kind", ""),
        failure_class=plain.get("failure_class"),
        requests=plain.get("requests"),
        logs=dict(sorted(plain.get("logs", {}).items())),
    )


def _facts_problems(plain: Any) -> Iterator[str]:  # noqa: ANN401 - anything that JSON can say
    if not isinstance(plain, dict) or plain.get("schema") != FACTS_SCHEMA:
        yield f"expected an object of schema {FACTS_SCHEMA}"
        return
    if unknown := sorted(set(plain) - _KEYS):
        yield f"unknown keys: {', '.join(unknown)[:200]}"
    if not isinstance(plain.get("kind", ""), str):
        yield "kind: expected text"
    if plain.get("failure_class") is not None and plain["failure_class"] not in _CLASSES:
        yield f"failure_class: expected {', '.join(_CLASSES)}, or null"
    requests = plain.get("requests")
    if requests is not None and (not isinstance(requests, int) or isinstance(requests, bool) or requests < 0):
        yield "requests: expected a number of requests, or null"
    logs = plain.get("logs", {})
    if not isinstance(logs, dict) or not all(isinstance(text, str) for text in logs.values()):
        yield "logs: expected text by target"
