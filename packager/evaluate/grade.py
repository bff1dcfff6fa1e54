"""From results to outcomes: empty or missing is never a pass, and trouble of ours is never a fault of the patch."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.evaluate.classify import classify
from packager.evaluate.expected import ExpectedCases
from packager.evaluate.results import End, Status, TargetRun, original_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "End",
    "ExpectedCases",
    "Outcome",
    "TargetGrade",
    "TargetRun",
    "classify",
    "grade_target",
    "grade_task",
    "how_ended",
]


class Outcome(enum.Enum):
    """What became of a target or a task; only the first two judge the patch.

    MISSING: there is no patch for the task. (An empty patch is a patch, and a run without any result is UNRESOLVED.)
    TIMEOUT: the deadline passed, whatever a partial report says. INFRA: our machine failed, not the patch.
    """

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    MISSING = "missing"
    TIMEOUT = "timeout"
    INFRA = "infra"


_OUTCOME_OF_END = {
    End.NO_PATCH: Outcome.MISSING,
    End.PATCH_REFUSED: Outcome.UNRESOLVED,
    End.TIMEOUT: Outcome.TIMEOUT,
    End.INFRA: Outcome.INFRA,
}


@dataclass(frozen=True)
class Counted:
    """How many of a list of tests passed."""

    passed: int
    total: int


@dataclass(frozen=True)
class TargetGrade:
    """The grade of one target; `failing` are the expected ids that were not reported passed, sorted."""

    outcome: Outcome
    reason: str
    fail_to_pass: Counted
    pass_to_pass: Counted
    failing: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskGrade:
    """The grade of a task: resolved only when every target is."""

    outcome: Outcome
    reason: str
    targets: Mapping[str, TargetGrade]


def grade_target(expected: ExpectedCases, run: TargetRun) -> TargetGrade:
    """Grade one target: resolved if FAIL_TO_PASS is not empty and every expected id was reported passed.

    An id that is reported more often than when it was validated did not pass: somebody else reports it, too.
    """
    sound = run.results.sound() if run.end is End.FINISHED else {}
    known = {*expected.fail_to_pass, *expected.pass_to_pass}
    again = {original_of(name) for name in sound if name not in known}
    passed = {name for name, status in sound.items() if status is Status.PASSED and name not in again}
    failing = sorted(known - passed)
    outcome, reason = _decide(expected, run, failing)
    if set(failing) & again:
        reason += f"; reported more often than when it was validated: {min(set(failing) & again)!r}"
    return TargetGrade(
        outcome,
        reason,
        _count(expected.fail_to_pass, passed),
        _count(expected.pass_to_pass, passed),
        tuple(failing),
    )


def how_ended(grade: TargetGrade, run: TargetRun) -> dict[str, str]:
    """Return how each failing test of a target ended; `absent` are those that nobody reported."""
    sound = run.results.sound() if grade.failing else {}
    found = {name: sound.get(name) for name in grade.failing}
    return {name: "absent" if status is None else status.value for name, status in found.items()}


def _count(names: Iterable[str], passed: set[str]) -> Counted:
    wanted = set(names)
    return Counted(len(wanted & passed), len(wanted))


def _decide(expected: ExpectedCases, run: TargetRun, failing: list[str]) -> tuple[Outcome, str]:
    if run.end is not End.FINISHED:
        return _OUTCOME_OF_END[run.end], run.reason or run.end.value
    if not run.results.statuses:
        return Outcome.UNRESOLVED, f"no results: {run.results.reason}"
    if not expected.fail_to_pass:
        return Outcome.UNRESOLVED, "no test of FAIL_TO_PASS is expected, so nothing can be resolved"
    if failing:
        total = len(expected.fail_to_pass) + len(expected.pass_to_pass)
        return Outcome.UNRESOLVED, f"{len(failing)} of {total} expected tests did not pass, first {failing[0]!r}"
    if run.distrust:
        return Outcome.UNRESOLVED, run.distrust
    return Outcome.RESOLVED, "every expected test passed"


_WORST_FIRST = (Outcome.INFRA, Outcome.MISSING, Outcome.UNRESOLVED, Outcome.TIMEOUT)


def grade_task(targets: Mapping[str, TargetGrade]) -> TaskGrade:
    """Grade a task by its targets: infra before missing before unresolved before timeout; else all are resolved."""
    ordered = dict(sorted(targets.items()))
    if not ordered:
        return TaskGrade(Outcome.UNRESOLVED, "no target was graded", ordered)
    for outcome in _WORST_FIRST:
        found = [f"{name}: {grade.reason}" for name, grade in ordered.items() if grade.outcome is outcome]
        if found:
            return TaskGrade(outcome, "; ".join(found), ordered)
    return TaskGrade(Outcome.RESOLVED, "every target is resolved", ordered)
