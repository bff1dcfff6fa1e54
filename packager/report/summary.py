"""What many verdicts say together: per configuration, per task, and where joint and independent runs differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.evaluate.grade import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.report.runs import Mode, Run

JUDGES_PATCH = (Outcome.RESOLVED, Outcome.UNRESOLVED)
"""The outcomes that say something about the patch; the others say something about its absence or about us."""


@dataclass(frozen=True)
class ConfigurationSummary:
    """One configuration in one mode: tasks by outcome, targets that were judged, failure classes, time.

    Rates are parts of what was judged (resolved and unresolved), None where nothing was. `failures` counts the classes
    of unresolved tasks; `requests` adds up what was reported, None if nothing was.
    """

    configuration: str
    mode: Mode
    outcomes: Mapping[str, int]
    targets_resolved: int
    targets_judged: int
    failures: Mapping[str, int]
    requests: int | None
    seconds: float

    @property
    def tasks(self) -> int:
        """How many tasks have a verdict."""
        return sum(self.outcomes.values())

    @property
    def judged(self) -> int:
        """How many tasks say something about the patch."""
        return sum(self.outcomes[outcome.value] for outcome in JUDGES_PATCH)

    @property
    def task_rate(self) -> float | None:
        """The part of the judged tasks that are resolved."""
        return self.outcomes[Outcome.RESOLVED.value] / self.judged if self.judged else None

    @property
    def target_rate(self) -> float | None:
        """The part of the judged targets that are resolved: how much single repositories flatter."""
        return self.targets_resolved / self.targets_judged if self.targets_judged else None


@dataclass(frozen=True)
class Flip:
    """A task that one mode resolves and the other does not."""

    configuration: str
    task: str
    joint: str
    independent: str


@dataclass(frozen=True)
class Summary:
    """All configurations, and the flips between their modes."""

    configurations: tuple[ConfigurationSummary, ...]
    flips: tuple[Flip, ...]


def summarise(runs: Sequence[Run]) -> Summary:
    """Return what runs say together; their order does not matter."""
    grouped: dict[tuple[str, Mode], list[Run]] = {}
    for run in runs:
        grouped.setdefault((run.configuration, run.mode), []).append(run)
    rows = [_row(name, mode, group) for (name, mode), group in sorted(grouped.items())]
    return Summary(tuple(rows), tuple(_flips(runs)))


def _row(name: str, mode: Mode, runs: list[Run]) -> ConfigurationSummary:
    outcomes = Counter(run.verdict.grade.outcome for run in runs)
    targets = Counter(grade.outcome for run in runs for grade in run.verdict.grade.targets.values())
    unresolved = [run for run in runs if run.verdict.grade.outcome is Outcome.UNRESOLVED]
    requests = [run.facts.requests for run in runs if run.facts.requests is not None]
    return ConfigurationSummary(
        configuration=name,
        mode=mode,
        outcomes={outcome.value: outcomes[outcome] for outcome in Outcome},
        targets_resolved=targets[Outcome.RESOLVED],
        targets_judged=sum(targets[outcome] for outcome in JUDGES_PATCH),
        failures=dict(sorted(Counter(run.facts.failure_class or "unclassified" for run in unresolved).items())),
        requests=sum(requests) if requests else None,
        seconds=sum(sum(run.verdict.durations_ms.values()) for run in runs) / 1000,
    )


def _flips(runs: Iterable[Run]) -> Iterable[Flip]:
    by_mode: dict[tuple[str, str], dict[str, Outcome]] = {}
    for run in runs:
        by_mode.setdefault((run.configuration, run.verdict.task), {})[run.mode] = run.verdict.grade.outcome
    for (name, task), outcomes in sorted(by_mode.items()):
        joint, independent = outcomes.get("joint"), outcomes.get("independent")
        if joint in JUDGES_PATCH and independent in JUDGES_PATCH and joint is not independent:
            yield Flip(name, task, joint.value, independent.value)
