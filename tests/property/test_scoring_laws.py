"""Laws of scoring: order never matters, sums are sums, and no trajectory, however strange, stops a verdict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from packager.evaluate.failures import classify_failure
from packager.evaluate.grade import Outcome
from packager.evaluate.run_record import CHANGES, MODES, Failure, RunRecord, parse_run
from packager.evaluate.trajectory import Trajectory, parse_trajectory
from packager.evaluate.verdict import format_verdict, parse_verdict
from packager.report.rows import rows_of
from packager.report.run import Part, Run
from packager.report.summary import JUDGES_PATCH, summarise
from tests.support.made_up_runs import made_up

if TYPE_CHECKING:
    from packager.evaluate.run_record import Change

TARGETS = ("boxo", "kubo", "helia")
OUTCOMES = [one.value for one in Outcome]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "item", "message", "content", "text", "path", "input"]) | st.text(), inner
        )
    ),
    max_leaves=20,
)
ANY = st.text(st.characters(codec=None, exclude_categories=()))
"""Text with anything in it, lone surrogates too."""
WORDS = st.lists(
    st.sampled_from(
        [*TARGETS, "update", "will", "not", "as", "needs", "/workspace/kubo/a.go", ".", "\n", "\ud800", "x"]
    ),
    max_size=40,
).map(" ".join)


@st.composite
def runs(draw: st.DrawFn) -> list[Run]:
    found = []
    for task in draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1)):
        outcomes = draw(st.dictionaries(st.sampled_from(TARGETS), st.sampled_from(OUTCOMES), min_size=1))
        modes = draw(st.sets(st.sampled_from(MODES), min_size=1))
        found += [Run("m", mode, task, (Part(made_up(task, outcomes)),)) for mode in sorted(modes)]
    return found


@settings(max_examples=50)
@given(runs(), st.randoms(use_true_random=False))
def test_a_summary_does_not_depend_on_the_order_of_runs(found: list[Run], dice: object) -> None:
    other = list(found)
    dice.shuffle(other)  # type: ignore[attr-defined]
    assert summarise(found) == summarise(other)


@settings(max_examples=50)
@given(runs())
def test_counts_add_up(found: list[Run]) -> None:
    summary = summarise(found)
    assert sum(row.tasks for row in summary.configurations) == len(found)
    for row in summary.configurations:
        ours = [run for run in found if run.mode == row.mode]
        assert sum(row.failures.values()) == row.outcomes["unresolved"]
        assert row.outcomes["resolved"] <= row.any_resolved <= row.judged <= row.tasks
        counts = [share for name, share in row.groups.items() if "target" in name]
        assert sum(share.judged for share in counts) == row.judged
        assert sum(share.resolved for share in counts) == row.outcomes["resolved"]
        assert len([one for run in ours for one in rows_of(run)]) == sum(len(run.grade.targets) for run in ours)
    assert not {flip for flip in summary.flips if flip.joint == flip.independent}


@settings(max_examples=50)
@given(st.lists(JSON.map(json.dumps).map(str.encode) | st.binary(), max_size=8))
def test_no_line_of_a_trajectory_is_too_strange(lines: list[bytes]) -> None:
    found = parse_trajectory(lines)
    assert all(isinstance(one, str) for one in (*found.edited, *found.said))


@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from(TARGETS), st.sampled_from(OUTCOMES), min_size=1),
    st.dictionaries(st.sampled_from(TARGETS), st.sampled_from(CHANGES)),
    st.none() | st.lists(WORDS, max_size=4),
)
def test_only_unresolved_tasks_fail_and_every_failure_can_be_written(
    outcomes: dict[str, str], changes: dict[str, Change], said: list[str] | None
) -> None:
    verdict = made_up("one", outcomes)
    trajectory = None if said is None else Trajectory(said=tuple(said))
    found = classify_failure(verdict.grade, changes, trajectory)
    judged = {name for name, one in verdict.grade.targets.items() if one.outcome in JUDGES_PATCH}
    assert found is None or verdict.grade.outcome is Outcome.UNRESOLVED
    if found is None:
        return
    assert found.target in judged
    told = RunRecord(targets=tuple(outcomes), changes=changes, failure=found)
    assert parse_run(json.loads(json.dumps(told.plain()))) == told
    assert (found.failure_class == "post-edit") == (changes[found.target] == "edited")


@given(ANY, ANY, st.dictionaries(ANY, ANY | st.integers(-(1 << 53), 1 << 53)))
def test_whatever_is_said_of_a_run_is_read_back(agent: str, evidence: str, details: dict[str, str | int]) -> None:
    record = RunRecord(agent=agent, details=details, failure=Failure("scope", "a", evidence))
    verdict = made_up("one", {"a": "unresolved"})
    read = parse_verdict(format_verdict(type(verdict)(**{**vars(verdict), "run": record})))
    assert read.run == record
