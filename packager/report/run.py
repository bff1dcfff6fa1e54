"""One run of one configuration on one task: a verdict on all targets, or one for each that stood alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from packager.evaluate.grade import Counted, Outcome, TargetGrade, TaskGrade, grade_task
from packager.evaluate.run_record import FAILURE_CLASSES, Failure, RunRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.digests import Digest
    from packager.evaluate.run_record import FailureClass, Mode
    from packager.evaluate.verdict import Verdict


@dataclass(frozen=True)
class Facts:
    """What somebody knows of a verdict beside its file; it outweighs what the file says of the run."""

    kind: str = ""
    failure_class: FailureClass | None = None
    requests: int | None = None
    logs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One verdict and what is known of it."""

    verdict: Verdict
    facts: Facts = Facts()

    @cached_property
    def digest(self) -> Digest:
        """The digest of the verdict, worked out once: it covers all targets."""
        return self.verdict.digest

    @cached_property
    def record(self) -> RunRecord:
        """What the verdict's file says of the run."""
        return self.verdict.run or RunRecord(self.verdict.mode, tuple(self.verdict.patches))

    @property
    def requests(self) -> int | None:
        """How often the agent asked its model; None where nobody counted."""
        return self.record.requests if self.facts.requests is None else self.facts.requests

    @property
    def failure(self) -> Failure | None:
        """Why this verdict is not resolved, as far as somebody knows."""
        if self.verdict.grade.outcome is not Outcome.UNRESOLVED:
            return None
        found, named = self.record.failure, self.facts.failure_class
        if named is None or (found is not None and found.failure_class == named):
            return found
        return Failure(named, "", "as its facts say")

    def ended(self, target: str, test: str) -> str:
        """Return how a failing test ended; nothing where the verdict does not say."""
        return self.verdict.ended.get(target, {}).get(test, "")

    def log(self, target: str) -> str:
        """Return the end of what a target's tests wrote, if it was kept."""
        return self.facts.logs.get(target, self.verdict.logs.get(target, ""))


@dataclass(frozen=True)
class Run:
    """A run: its parts are one verdict, or, in independent runs, one for each target; all are on the same image."""

    configuration: str
    mode: Mode
    task: str
    parts: tuple[Part, ...]
    kind_elsewhere: str = ""

    @cached_property
    def grade(self) -> TaskGrade:
        """The grades of all targets, and the task's; a target that no independent run judged is missing."""
        if len(self.parts) == 1 and not self.parts[0].verdict.at_gold:
            return self.parts[0].verdict.grade
        targets = {name: one for part in self.parts for name, one in part.verdict.grade.targets.items()}
        for name in self.parts[0].verdict.at_gold or ():
            targets.setdefault(name, _UNTRIED)
        return grade_task(targets)

    @property
    def image(self) -> Digest:
        """The image that was judged."""
        return self.parts[0].verdict.image

    @property
    def kind(self) -> str:
        """Whether the task is a bugfix or a feature; nothing if nobody says."""
        said = (part.facts.kind or part.record.kind for part in self.parts)
        return next((kind for kind in said if kind), self.kind_elsewhere)

    @property
    def requests(self) -> int | None:
        """How often agents asked their models, all parts together; None where nobody counted."""
        counted = [part.requests for part in self.parts if part.requests is not None]
        return sum(counted) if counted else None

    @property
    def failure(self) -> Failure | None:
        """Why the task is not resolved: of the first stage that broke; None where that is not known of every part."""
        if self.grade.outcome is not Outcome.UNRESOLVED:
            return None
        failing = [part for part in self.parts if part.verdict.grade.outcome is Outcome.UNRESOLVED]
        found = [part.failure for part in failing]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        return min(known, key=lambda one: FAILURE_CLASSES.index(one.failure_class), default=None)

    @property
    def milliseconds(self) -> int:
        """How long the tests took."""
        return sum(ms for part in self.parts for ms in part.verdict.durations_ms.values())

    @property
    def agent_ms(self) -> int | None:
        """How long agents took; None where nobody measured."""
        measured = [part.record.agent_ms for part in self.parts if part.record.agent_ms is not None]
        return sum(measured) if measured else None

    def targets(self) -> Iterator[tuple[str, TargetGrade, Part | None]]:
        """Yield each target with its grade and the part that judged it, if one did."""
        owners = {name: part for part in self.parts for name in part.verdict.patches}
        for name, grade in self.grade.targets.items():
            yield name, grade, owners.get(name)

    def of_kind(self, kind: str) -> Run:
        """Return the same run, of a kind unless it says one itself."""
        return replace(self, kind_elsewhere=kind)


_UNTRIED = TargetGrade(Outcome.MISSING, "no independent run of this target", Counted(0, 0), Counted(0, 0))
