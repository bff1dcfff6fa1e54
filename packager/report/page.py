"""One self-contained HTML page over many runs: their data as JSON inside, nothing fetched, no text of it markup."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from packager.report.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Template

    from packager.report.runs import Run
    from packager.report.summary import ConfigurationSummary, Summary

_MOST_FAILING = 50
_MOST_LOG_CHARACTERS = 20_000
_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def format_page(runs: Sequence[Run], *, title: str = "WideSWE runs") -> bytes:
    """Return the page; of long lists of failing tests and of logs it has the beginning and the end."""
    summary = summarise(runs)
    data = {"summary": _plain_summary(summary), "runs": [_plain_run(run) for run in runs]}
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":")).translate(_ESCAPES)
    return _template().render(title=title, data=text).encode("utf-8", "replace")


@cache
def _template() -> Template:
    from jinja2 import Environment  # noqa: PLC0415 - only pages need it

    source = files("packager.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    return Environment(autoescape=True).from_string(source)


def _plain_summary(summary: Summary) -> dict[str, Any]:
    return {
        "configurations": [_plain_row(row) for row in summary.configurations],
        "flips": [vars(flip) for flip in summary.flips],
    }


def _plain_row(row: ConfigurationSummary) -> Mapping[str, Any]:
    return {
        **vars(row),
        "tasks": row.tasks,
        "judged": row.judged,
        "task_rate": row.task_rate,
        "target_rate": row.target_rate,
    }


def _plain_run(run: Run) -> dict[str, Any]:
    grade = run.verdict.grade
    return {
        "configuration": run.configuration,
        "mode": run.mode,
        "task": run.verdict.task,
        "kind": run.facts.kind,
        "outcome": grade.outcome.value,
        "reason": grade.reason,
        "failure_class": run.facts.failure_class,
        "requests": run.facts.requests,
        "image": run.verdict.image,
        "digest": run.verdict.digest,
        "targets": {
            name: {
                "outcome": one.outcome.value,
                "reason": one.reason,
                "fail_to_pass": [one.fail_to_pass.passed, one.fail_to_pass.total],
                "pass_to_pass": [one.pass_to_pass.passed, one.pass_to_pass.total],
                "failing": list(one.failing[:_MOST_FAILING]),
                "failing_total": len(one.failing),
                "ms": run.verdict.durations_ms.get(name, 0),
                "log": run.facts.logs.get(name, "")[-_MOST_LOG_CHARACTERS:],
            }
            for name, one in grade.targets.items()
        },
    }
