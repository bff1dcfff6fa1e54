"""Made-up runs: verdicts of tasks and configurations that nobody ran, written as `evaluate --output` writes them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packager.base.digests import digest_of
from packager.evaluate.grade import Counted, Outcome, TargetGrade, grade_task
from packager.evaluate.verdict import Verdict, format_verdict

if TYPE_CHECKING:
    from pathlib import Path

    from packager.evaluate.run_record import RunRecord

REASONS = {
    Outcome.RESOLVED: "every expected test passed",
    Outcome.UNRESOLVED: "1 of 7 expected tests did not pass, first 't'",
    Outcome.MISSING: "no patch for this target",
    Outcome.TIMEOUT: "not finished after 60 s",
    Outcome.INFRA: "the disk is full",
}


def made_up(task: str, outcomes: dict[str, str], *, failing: tuple[str, ...] = ("t",), ms: int = 1500) -> Verdict:
    """Return a verdict with one target per outcome."""
    grades = {name: _grade(Outcome(text), failing) for name, text in outcomes.items()}
    return Verdict(
        task=task,
        image=digest_of(task.encode()),
        tool="0.1.0",
        grade=grade_task(grades),
        patches={
            name: None if grade.outcome is Outcome.MISSING else digest_of(name.encode())
            for name, grade in grades.items()
        },
        durations_ms=dict.fromkeys(outcomes, ms),
    )


def _grade(outcome: Outcome, failing: tuple[str, ...]) -> TargetGrade:
    passed = outcome is Outcome.RESOLVED
    return TargetGrade(
        outcome, REASONS[outcome], Counted(3 if passed else 2, 3), Counted(4, 4), () if passed else failing
    )


def write_run(folder: Path, verdict: Verdict, *, record: RunRecord | None = None, **facts: Any) -> Path:
    """Write a verdict where a report looks for it, with a record of the run, and its facts if there are any."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{verdict.task}.json"
    path.write_bytes(format_verdict(verdict if record is None else replace(verdict, run=record)))
    if facts:
        plain = {"schema": "wideswe-facts/1", **facts}
        path.with_name(f"{verdict.task}.facts.json").write_text(json.dumps(plain))
    return path
