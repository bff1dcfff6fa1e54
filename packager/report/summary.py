"""What many verdicts say together: per configuration, per task, and where joint and independent runs differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.evaluate.grade import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packager.evaluate.run_record import Mode
    from packager.report.run import Run

JUDGES_PATCH = (Outcome.RESOLVED, Outcome.UNRESOLVED)
"""The outcomes that say something about the patch; the others say something about its absence or about us."""
KINDS = ("bugfix", "feature")
UNCLASSIFIED = "unclassified"


@dataclass(frozen=True)
class Share:
    """How many tasks of a group were judged and how many of these are resolved."""

    resolved: int
    judged: int

    @property
    def rate(self) -> float | None:
        """The part of the judged tasks that are resolved; None where nothing was."""
        return self.resolved / self.judged if self.judged else None


@dataclass(frozen=True)
class ConfigurationSummary:
    """One configuration in one mode: tasks by outcome, targets that were judged, failure classes, time.

    Rates are parts of what was judged (resolved and unresolved), None where nothing was. `any_resolved` counts judged
    tasks of which at least one target is resolved. `groups` are bugfixes and features, and tasks by their number of
    targets. `failures` counts the classes of unresolved tasks; `requests` and `agent_ms` add up what was reported, None
    if nothing was.
    """

    configuration: str
    mode: Mode
    outcomes: Mapping[str, int]
    any_resolved: int
    targets_resolved: int
    targets_judged: int
    groups: Mapping[str, Share]
    failures: Mapping[str, int]
    requests: int | None
    seconds: float
    agent_ms: int | None = None

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
    def any_rate(self) -> float | None:
        """The part of the judged tasks of which at least one target is resolved."""
        return self.any_resolved / self.judged if self.judged else None

    @property
    def target_rate(self) -> float | None:
        """The part of the judged targets that are resolved: how much single repositories flatter."""
        return self.targets_resolved / self.targets_judged if self.targets_judged else None


@dataclass(frozen=True)
class Flip:
    """A task, or one target of it, that one mode resolves and the other does not."""

    configuration: str
    task: str
    joint: str
    independent: str
    target: str = ""


@dataclass(frozen=True)
class Summary:
    """All configurations, the flips between their modes, and tasks of which runs judged different images."""

    configurations: tuple[ConfigurationSummary, ...]
    flips: tuple[Flip, ...]
    mixed: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of all configurations: kinds first, then numbers of targets."""
        return tuple(sorted({name for row in self.configurations for name in row.groups}, key=_order))


def summarise(runs: Sequence[Run]) -> Summary:
    """Return what runs say together; their order does not matter."""
    grouped: dict[tuple[str, Mode], list[Run]] = {}
    images: dict[str, set[str]] = {}
    for run in runs:
        grouped.setdefault((run.configuration, run.mode), []).append(run)
        images.setdefault(run.task, set()).add(run.image)
    rows = [_row(name, mode, group) for (name, mode), group in sorted(grouped.items())]
    mixed = sorted(task for task, found in images.items() if len(found) > 1)
    return Summary(tuple(rows), tuple(_flips(runs)), tuple(mixed))


def _row(name: str, mode: Mode, runs: list[Run]) -> ConfigurationSummary:
    grades = [run.grade for run in runs]
    outcomes = Counter(grade.outcome for grade in grades)
    targets = Counter(one.outcome for grade in grades for one in grade.targets.values())
    judged = [grade for grade in grades if grade.outcome in JUDGES_PATCH]
    failures = [run.failure for run in runs if run.grade.outcome is Outcome.UNRESOLVED]
    classes = Counter(UNCLASSIFIED if found is None else found.failure_class for found in failures)
    return ConfigurationSummary(
        configuration=name,
        mode=mode,
        outcomes={outcome.value: outcomes[outcome] for outcome in Outcome},
        any_resolved=sum(any(one.outcome is Outcome.RESOLVED for one in grade.targets.values()) for grade in judged),
        targets_resolved=targets[Outcome.RESOLVED],
        targets_judged=sum(targets[outcome] for outcome in JUDGES_PATCH),
        groups=dict(_groups(runs)),
        failures=dict(sorted(classes.items())),
        requests=_sum(run.requests for run in runs),
        seconds=sum(run.milliseconds for run in runs) / 1000,
        agent_ms=_sum(run.agent_ms for run in runs),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def group_names(run: Run) -> tuple[str, ...]:
    """Return the groups that a run is in: its kind, if it is one of the two, and how many targets it has."""
    count = len(run.grade.targets)
    return (*((run.kind,) if run.kind in KINDS else ()), f"{count} target{'' if count == 1 else 's'}")


def _order(name: str) -> tuple[bool, str]:
    return name not in KINDS, name


def _groups(runs: Sequence[Run]) -> Iterator[tuple[str, Share]]:
    members: dict[str, list[Outcome]] = {}
    for run in runs:
        for name in group_names(run):
            members.setdefault(name, []).append(run.grade.outcome)
    for name in sorted(members, key=_order):
        outcomes = members[name]
        yield name, Share(outcomes.count(Outcome.RESOLVED), sum(one in JUDGES_PATCH for one in outcomes))


def _flips(runs: Iterable[Run]) -> Iterator[Flip]:
    by_mode: dict[tuple[str, str, str], dict[str, Outcome]] = {}
    for run in runs:
        grade = run.grade
        for target, outcome in [("", grade.outcome), *((name, one.outcome) for name, one in grade.targets.items())]:
            by_mode.setdefault((run.configuration, run.task, target), {})[run.mode] = outcome
    for (name, task, target), outcomes in sorted(by_mode.items()):
        joint, independent = outcomes.get("joint"), outcomes.get("independent")
        if joint in JUDGES_PATCH and independent in JUDGES_PATCH and joint is not independent:
            yield Flip(name, task, joint.value, independent.value, target)
