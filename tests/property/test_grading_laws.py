"""Laws of grading: more passes never hurt, fewer never help, and order does not matter.

A further report of an expected test (`::#2` …) is none of more passes: somebody else reports it, too.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from packager.evaluate.grade import ExpectedCases, Outcome, TargetRun, classify, grade_target
from packager.evaluate.results import Results, Status, original_of

NAMES = st.sampled_from(["a", "b", "c", "d", "a::#2", "b::#2", "e/f[g]"])
STATUSES = st.sampled_from(list(Status))
REPORTS = st.dictionaries(NAMES, STATUSES)


@st.composite
def expectations(draw: st.DrawFn) -> ExpectedCases:
    wanted = draw(st.sets(NAMES))
    first = draw(st.sets(st.sampled_from(sorted(wanted)))) if wanted else set()
    return ExpectedCases(tuple(wanted - first), tuple(first))


def resolved(expected: ExpectedCases, report: dict[str, Status]) -> bool:
    return grade_target(expected, TargetRun(results=Results(report))).outcome is Outcome.RESOLVED


def is_further_report(expected: ExpectedCases, name: str) -> bool:
    known = {*expected.fail_to_pass, *expected.pass_to_pass}
    return name not in known and original_of(name) in known


@given(expectations(), REPORTS, NAMES)
def test_one_more_passing_test_never_turns_resolved_into_unresolved(
    expected: ExpectedCases, report: dict[str, Status], name: str
) -> None:
    more = resolved(expected, {**report, name: Status.PASSED})
    assert more >= (resolved(expected, report) and not is_further_report(expected, name))


@given(expectations(), REPORTS, NAMES)
def test_a_further_report_of_an_expected_test_never_resolves(
    expected: ExpectedCases, report: dict[str, Status], name: str
) -> None:
    if is_further_report(expected, name):
        assert not resolved(expected, {**report, name: Status.PASSED})


@given(expectations(), REPORTS, NAMES)
def test_one_result_less_never_turns_unresolved_into_resolved_unless_it_was_bad(
    expected: ExpectedCases, report: dict[str, Status], name: str
) -> None:
    fewer = {key: status for key, status in report.items() if key != name}
    if (name not in report or not report[name].is_bad) and not is_further_report(expected, name):
        assert resolved(expected, fewer) <= resolved(expected, report)


@given(expectations(), REPORTS)
def test_resolved_means_that_something_was_expected_and_all_of_it_passed(
    expected: ExpectedCases, report: dict[str, Status]
) -> None:
    if resolved(expected, report):
        assert expected.fail_to_pass
        assert {report.get(name) for name in (*expected.fail_to_pass, *expected.pass_to_pass)} == {Status.PASSED}


@given(st.lists(REPORTS, min_size=1, max_size=4), st.lists(REPORTS, min_size=1, max_size=4))
def test_every_gold_run_is_resolved_and_every_base_run_unresolved_by_what_was_classified(
    base: list[dict[str, Status]], gold: list[dict[str, Status]]
) -> None:
    expected = classify([Results(one) for one in base], [Results(one) for one in gold])
    again = classify([Results(one) for one in reversed(base)], [Results(one) for one in reversed(gold)])
    assert (expected.fail_to_pass, expected.pass_to_pass) == (again.fail_to_pass, again.pass_to_pass)
    assert not any(resolved(expected, one) for one in base)
    if expected.fail_to_pass:
        assert all(resolved(expected, one) for one in gold)
