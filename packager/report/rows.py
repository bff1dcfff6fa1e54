"""Runs as plain rows: one per configuration, mode, task and target, for CSV and for the page."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.report.runs import Run

COLUMNS = (
    "configuration",
    "mode",
    "task",
    "kind",
    "task_outcome",
    "target",
    "outcome",
    "fail_to_pass",
    "fail_to_pass_total",
    "pass_to_pass",
    "pass_to_pass_total",
    "failing",
    "seconds",
    "failure_class",
    "requests",
    "image",
    "tool",
    "reason",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def rows_of(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a row for each target of a run; `failing` counts expected tests that did not pass."""
    verdict = run.verdict
    for name, grade in verdict.grade.targets.items():
        yield {
            "configuration": run.configuration,
            "mode": run.mode,
            "task": verdict.task,
            "kind": run.facts.kind,
            "task_outcome": verdict.grade.outcome.value,
            "target": name,
            "outcome": grade.outcome.value,
            "fail_to_pass": grade.fail_to_pass.passed,
            "fail_to_pass_total": grade.fail_to_pass.total,
            "pass_to_pass": grade.pass_to_pass.passed,
            "pass_to_pass_total": grade.pass_to_pass.total,
            "failing": len(grade.failing),
            "seconds": verdict.durations_ms.get(name, 0) / 1000,
            "failure_class": run.facts.failure_class or "",
            "requests": "" if run.facts.requests is None else run.facts.requests,
            "image": verdict.image,
            "tool": verdict.tool,
            "reason": grade.reason,
        }


def format_csv(runs: Iterable[Run]) -> bytes:
    """Return all rows as CSV (RFC 4180, UTF-8); text that a spreadsheet would run gets a quote before it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for run in runs:
        for row in rows_of(run):
            writer.writerow({key: _harmless(value) for key, value in row.items()})
    return out.getvalue().encode("utf-8", "backslashreplace")


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
