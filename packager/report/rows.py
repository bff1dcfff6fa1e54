"""Runs as plain rows: one per configuration, mode, task and target, for CSV and JSON lines."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.report.run import Part, Run

COLUMNS = (
    "configuration",
    "mode",
    "task",
    "kind",
    "targets",
    "task_outcome",
    "target",
    "outcome",
    "fail_to_pass",
    "fail_to_pass_total",
    "pass_to_pass",
    "pass_to_pass_total",
    "failing",
    "seconds",
    "change",
    "failure_class",
    "failure_target",
    "agent",
    "model",
    "requests",
    "agent_seconds",
    "image",
    "tool",
    "verdict",
    "reason",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def rows_of(run: Run) -> Iterator[dict[str, Any]]:
    """Yield a row for each target of a run; `failing` counts expected tests that did not pass.

    What nobody said is None; requests and the agent's time are those of the verdict that the target is in.
    """
    grade, failure = run.grade, run.failure
    for name, one, part in run.targets():
        yield {
            "configuration": run.configuration,
            "mode": run.mode,
            "task": run.task,
            "kind": run.kind or None,
            "targets": len(grade.targets),
            "task_outcome": grade.outcome.value,
            "target": name,
            "outcome": one.outcome.value,
            "fail_to_pass": one.fail_to_pass.passed,
            "fail_to_pass_total": one.fail_to_pass.total,
            "pass_to_pass": one.pass_to_pass.passed,
            "pass_to_pass_total": one.pass_to_pass.total,
            "failing": len(one.failing),
            "failure_class": None if failure is None else failure.failure_class,
            "failure_target": None if failure is None else failure.target or None,
            **_of_part(name, part),
            "image": run.image,
            "reason": one.reason,
        }


def _of_part(name: str, part: Part | None) -> dict[str, Any]:
    if part is None:
        return dict.fromkeys(("seconds", "change", "agent", "model", "requests", "agent_seconds", "tool", "verdict"))
    record = part.record
    return {
        "seconds": part.verdict.durations_ms.get(name, 0) / 1000,
        "change": record.changes.get(name),
        "agent": record.agent or None,
        "model": record.model or None,
        "requests": part.requests,
        "agent_seconds": None if record.agent_ms is None else record.agent_ms / 1000,
        "tool": part.verdict.tool,
        "verdict": part.digest,
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


def format_json_lines(runs: Iterable[Run]) -> bytes:
    """Return all rows as JSON, one object a line: what the CSV has, and how each failing test ended, if known."""
    lines = []
    for run in runs:
        for row, (name, grade, part) in zip(rows_of(run), run.targets(), strict=True):
            ended = {test: part.ended(name, test) or None for test in grade.failing} if part else {}
            lines.append(json.dumps({**row, "failing_tests": ended}, sort_keys=True))
    return "".join(f"{line}\n" for line in lines).encode()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
