"""One self-contained HTML page over many runs: their data as JSON inside, nothing fetched, no text of it markup."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from packager.report.summary import group_names, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Template

    from packager.evaluate.grade import TargetGrade
    from packager.report.notes import TaskNotes
    from packager.report.run import Part, Run
    from packager.report.summary import ConfigurationSummary, Summary

_MOST_FAILING, _LEAST_FAILING, _ALL_FAILING = 50, 3, 40_000
_MOST_LOG, _LEAST_LOG, _ALL_LOGS = 20_000, 400, 3_000_000
_MOST_NAME = 600
_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


@dataclass(frozen=True)
class _Room:
    """How many failing tests and how many characters of output one target may show, so that the page stays small."""

    failing: int
    log: int


def format_page(
    runs: Sequence[Run], *, title: str = "WideSWE runs", notes: Mapping[str, TaskNotes] | None = None
) -> bytes:
    """Return the page; of long lists of failing tests it has the beginning, of output the end, less if there is much.

    `notes` are what recipes know of tasks, by task. Output stands apart and is read when somebody asks for it.
    """
    summary = summarise(runs)
    room = _room(runs)
    data = {
        "summary": _plain_summary(summary),
        "runs": [_plain_run(run, room) for run in runs],
        "notes": {task: one.plain() for task, one in (notes or {}).items()},
    }
    logs = [{name: part.log(name)[-room.log :] for name, _, part in run.targets() if part} for run in runs]
    words = {"title": title, "data": _inside(data), "logs": _inside(logs)}
    return _template().render(words).encode("utf-8", "replace")


def _inside(value: object) -> str:
    """Return JSON that ends no script element and no line of one."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).translate(_ESCAPES)


@cache
def _template() -> Template:
    from jinja2 import Environment  # noqa: PLC0415 - only pages need it

    source = files("packager.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    return Environment(autoescape=True).from_string(source)


def _room(runs: Sequence[Run]) -> _Room:
    shown = [(len(grade.failing), part.log(name)) for run in runs for name, grade, part in run.targets() if part]
    failing = sum(1 for count, _ in shown if count) or 1
    logs = sum(1 for _, log in shown if log) or 1
    return _Room(
        max(_LEAST_FAILING, min(_MOST_FAILING, _ALL_FAILING // failing)),
        max(_LEAST_LOG, min(_MOST_LOG, _ALL_LOGS // logs)),
    )


def _plain_summary(summary: Summary) -> dict[str, Any]:
    return {
        "configurations": [_plain_row(row) for row in summary.configurations],
        "flips": [vars(flip) for flip in summary.flips],
        "mixed": list(summary.mixed),
        "groups": list(summary.groups),
    }


def _plain_row(row: ConfigurationSummary) -> Mapping[str, Any]:
    return {
        **vars(row),
        "tasks": row.tasks,
        "judged": row.judged,
        "task_rate": row.task_rate,
        "any_rate": row.any_rate,
        "target_rate": row.target_rate,
        "groups": {name: {**vars(share), "rate": share.rate} for name, share in row.groups.items()},
    }


def _plain_run(run: Run, room: _Room) -> dict[str, Any]:
    grade, failure = run.grade, run.failure
    return {
        "configuration": run.configuration,
        "mode": run.mode,
        "task": run.task,
        "kind": run.kind,
        "groups": group_names(run),
        "outcome": grade.outcome.value,
        "reason": grade.reason,
        "failure_class": None if failure is None else failure.failure_class,
        "failure": None if failure is None else [failure.target, failure.evidence],
        "requests": run.requests,
        "agent_ms": run.agent_ms,
        "ms": run.milliseconds,
        "image": run.image,
        "targets": {name: _plain_target(name, one, part, room) for name, one, part in run.targets()},
    }


def _plain_target(name: str, grade: TargetGrade, part: Part | None, room: _Room) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "outcome": grade.outcome.value,
        "reason": grade.reason,
        "fail_to_pass": [grade.fail_to_pass.passed, grade.fail_to_pass.total],
        "pass_to_pass": [grade.pass_to_pass.passed, grade.pass_to_pass.total],
        "failing": [_cut(test) for test in grade.failing[: room.failing]],
        "failing_total": len(grade.failing),
        "ms": 0,
    }
    if part is None:
        return plain
    record = part.record
    said = {
        "agent": record.agent,
        "model": record.model,
        "ended": record.ended,
        "trajectory": record.trajectory,
        "also changed": ", ".join(record.strays),
        **record.details,
    }
    return plain | {
        "ended": [part.ended(name, test) for test in grade.failing[: room.failing]],
        "ms": part.verdict.durations_ms.get(name, 0),
        "change": record.changes.get(name),
        "digest": part.digest,
        "patch": part.verdict.patches.get(name),
        "said": {key: value for key, value in said.items() if value not in ("", None)},
    }


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"{name[:_MOST_NAME]}…"
