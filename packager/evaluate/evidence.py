"""What validation saw, by test: which variation matters, and how base fails; kept beside the lock, never sealed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager.evaluate.results import End, Results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.evaluate.expected import ExpectedCases
    from packager.evaluate.run import Tested

PLAIN = ""
"""The name of a round without any variation."""
ALIKE = "runs that are alike"
_ABSENT = "absent"


@dataclass(frozen=True)
class Round:
    """One run of base and one of gold under the same circumstances."""

    variation: str
    base: Mapping[str, Tested]
    gold: Mapping[str, Tested]

    def results(self, target: str) -> tuple[Results, Results]:
        """Return what base and gold reported for a target."""
        return self.base[target].run.results, self.gold[target].run.results

    def said(self, target: str, test: str) -> tuple[str, str]:
        """Return what base and gold said of one test."""
        base, gold = self.results(target)
        return _said(base.judged(), test), _said(gold.sound(), test)


def _said(statuses: Mapping[str, Any], test: str) -> str:
    status = statuses.get(test)
    return _ABSENT if status is None else str(status.value)


@dataclass(frozen=True)
class Unstable:
    """Why one test is set aside: the variations that matter, and what each round said, in their order."""

    by: tuple[str, ...]
    base: tuple[str, ...]
    gold: tuple[str, ...]


@dataclass(frozen=True)
class TargetEvidence:
    """What is known of a target's tests beside the lists.

    `base_failure` are what stands for tests that could not even be collected or built at base, and `uncollected` the
    FAIL_TO_PASS tests that were therefore not reported: they only say that the tests compile now.
    """

    unstable: Mapping[str, Unstable] = field(default_factory=dict)
    base_failure: tuple[str, ...] = ()
    uncollected: tuple[str, ...] = ()
    not_borne: Mapping[str, str] = field(default_factory=dict)


def is_borne(one: Round, rounds: Sequence[Round], target: str) -> bool:
    """Say whether gold's tests report anything in a round, if they do so where nothing is varied."""
    plain = [other for other in rounds if other.variation == PLAIN]
    reported = all(_reports(other.gold[target]) for other in plain)
    return not reported or _reports(one.gold[target])


def _reports(tested: Tested) -> bool:
    return tested.run.end is End.FINISHED and bool(tested.run.results.statuses)


def differing(rounds: Sequence[Round], other: Round, target: str) -> set[str]:
    """Return the tests of which a round says something that no round without variation says."""
    plain = [one for one in rounds if one.variation == PLAIN]
    found = _columns(other, target)
    columns = [_columns(one, target) for one in plain]
    names = {name for column in (*columns, found) for name in column}
    nothing = (_ABSENT, _ABSENT)
    return {name for name in names if found.get(name, nothing) not in [column.get(name, nothing) for column in columns]}


def _columns(one: Round, target: str) -> dict[str, tuple[str, str]]:
    base, gold = (run.judged() if number == 0 else run.sound() for number, run in enumerate(one.results(target)))
    return {name: (_said(base, name), _said(gold, name)) for name in {*base, *gold}}


def weigh(target: str, expected: ExpectedCases, rounds: Sequence[Round]) -> TargetEvidence:
    """Return the evidence for one target."""
    plain = [one for one in rounds if one.variation == PLAIN]
    varied = [one for one in rounds if one.variation != PLAIN]
    borne = [one for one in varied if is_borne(one, rounds, target)]
    changed = {one.variation: differing(rounds, one, target) for one in borne}
    unstable = {name: _unstable(target, name, plain, (rounds, changed)) for name in expected.unstable}
    failure = _base_failure(target, plain)
    missing = expected.missing_in_base if failure else ()
    refused = {one.variation: one.gold[target].run.reason for one in varied if one not in borne}
    return TargetEvidence(unstable, failure, tuple(missing), refused)


def _unstable(
    target: str, name: str, plain: Sequence[Round], seen: tuple[Sequence[Round], Mapping[str, set[str]]]
) -> Unstable:
    rounds, changed = seen
    said = [one.said(target, name) for one in rounds]
    alike = len({one.said(target, name) for one in plain}) > 1
    by = [variation for variation, names in changed.items() if name in names]
    alone = by[1:] if len(changed) > 1 and by[:1] == [next(iter(changed))] else by
    named = ([ALIKE] if alike else []) + (alone or by)
    return Unstable(tuple(named), tuple(base for base, _ in said), tuple(gold for _, gold in said))


def _base_failure(target: str, plain: Sequence[Round]) -> tuple[str, ...]:
    """Return what base reports as broken and gold does not report at all; or why base reports nothing."""
    bases = [one.base[target].run.results for one in plain]
    golds = {name for one in plain for name in one.gold[target].run.results.statuses}
    if not any(base.statuses for base in bases):
        return (f"no results: {bases[0].reason}",)
    broken = [{name for name, status in base.statuses.items() if status.is_bad} - golds for base in bases]
    return tuple(sorted(set.intersection(*broken)))
