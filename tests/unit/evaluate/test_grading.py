"""Grading, classification and verdict: empty or missing is never a pass."""

from __future__ import annotations

import json

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError, IntegrityError
from packager.evaluate.expected import parse_expected
from packager.evaluate.grade import (
    End,
    ExpectedCases,
    Outcome,
    TargetRun,
    TaskGrade,
    classify,
    grade_target,
    grade_task,
    how_ended,
)
from packager.evaluate.results import Results, Status
from packager.evaluate.verdict import Verdict, format_verdict, parse_verdict

P, F, E, S = Status.PASSED, Status.FAILED, Status.ERROR, Status.SKIPPED
EXPECTED = ExpectedCases(("new", "newer"), ("old",))
GREEN = {"new": P, "newer": P, "old": P}


def run(**statuses: Status) -> TargetRun:
    return TargetRun(results=Results(statuses))


def test_a_target_is_resolved_when_every_expected_test_passed() -> None:
    grade = grade_target(EXPECTED, run(**GREEN, other=F))
    assert (grade.outcome, grade.reason, grade.failing) == (Outcome.RESOLVED, "every expected test passed", ())
    assert (grade.fail_to_pass.passed, grade.fail_to_pass.total, grade.pass_to_pass.total) == (2, 2, 1)


@pytest.mark.parametrize("status", [F, E, S])
@pytest.mark.parametrize("name", ["new", "old"])
def test_whatever_is_not_passed_is_unresolved(name: str, status: Status) -> None:
    grade = grade_target(EXPECTED, run(**{**GREEN, name: status}))
    assert (grade.outcome, grade.failing) == (Outcome.UNRESOLVED, (name,))
    assert grade.reason == f"1 of 3 expected tests did not pass, first {name!r}"


def test_an_expected_test_that_is_not_reported_is_unresolved() -> None:
    grade = grade_target(EXPECTED, run(new=P, newer=P))
    assert (grade.outcome, grade.failing) == (Outcome.UNRESOLVED, ("old",))


def test_each_failing_test_is_told_by_how_it_ended() -> None:
    for statuses, expected in (
        ({"new": F, "newer": S}, {"new": "failed", "newer": "skipped", "old": "absent"}),
        ({**GREEN, "old": E}, {"old": "error"}),
        ({**GREEN, "old::#2": P}, {"old": "passed"}),
        (GREEN, {}),
    ):
        tested = run(**statuses)
        assert how_ended(grade_target(EXPECTED, tested), tested) == expected


def test_no_results_are_unresolved_with_their_reason() -> None:
    grade = grade_target(EXPECTED, TargetRun(results=Results(reason="the report is empty")))
    assert (grade.outcome, grade.reason) == (Outcome.UNRESOLVED, "no results: the report is empty")
    assert grade_target(EXPECTED, TargetRun()).reason == "no results: no tests were reported"


def test_without_fail_to_pass_nothing_is_ever_resolved() -> None:
    for expected in (ExpectedCases(), ExpectedCases((), ("old",))):
        grade = grade_target(expected, run(**GREEN))
        assert (grade.outcome, grade.reason) == (
            Outcome.UNRESOLVED,
            "no test of FAIL_TO_PASS is expected, so nothing can be resolved",
        )


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (End.NO_PATCH, Outcome.MISSING),
        (End.PATCH_REFUSED, Outcome.UNRESOLVED),
        (End.TIMEOUT, Outcome.TIMEOUT),
        (End.INFRA, Outcome.INFRA),
    ],
)
def test_a_green_report_counts_for_nothing_if_the_run_did_not_finish(end: End, outcome: Outcome) -> None:
    grade = grade_target(EXPECTED, TargetRun(end, Results(GREEN), "why"))
    assert (grade.outcome, grade.reason, grade.fail_to_pass.passed) == (outcome, "why", 0)


def test_a_hidden_duplicate_that_fails_counts_against_the_test() -> None:
    grade = grade_target(EXPECTED, TargetRun(results=Results({**GREEN, "new::#2": F})))
    assert (grade.outcome, grade.failing) == (Outcome.UNRESOLVED, ("new",))


def test_a_task_is_as_good_as_its_worst_target() -> None:
    good, bad = grade_target(EXPECTED, run(**GREEN)), grade_target(EXPECTED, run(old=P))
    late = grade_target(EXPECTED, TargetRun(End.TIMEOUT))
    broken = grade_target(EXPECTED, TargetRun(End.INFRA, reason="disk full"))
    absent = grade_target(EXPECTED, TargetRun(End.NO_PATCH))
    assert grade_task({"a": good, "b": good}).outcome is Outcome.RESOLVED
    assert grade_task({"a": good, "b": bad}).outcome is Outcome.UNRESOLVED
    assert grade_task({"a": late, "b": good}).outcome is Outcome.TIMEOUT
    assert grade_task({"a": late, "b": bad}).outcome is Outcome.UNRESOLVED
    assert grade_task({"a": absent, "b": absent}).outcome is Outcome.MISSING
    assert grade_task({"b": bad, "a": broken}) == TaskGrade(Outcome.INFRA, "a: disk full", {"a": broken, "b": bad})
    assert grade_task({}).outcome is Outcome.UNRESOLVED


def test_classification_takes_only_what_every_run_agrees_on() -> None:
    base = [Results({"f": F, "e": E, "p": P, "flaky": F, "s": S, "gone": P, "fe": F, "never": F})] * 2
    base.append(Results({"f": F, "e": E, "p": P, "flaky": P, "s": S, "gone": P, "fe": E, "never": E}))
    gold = [Results({"f": P, "e": P, "p": P, "flaky": P, "s": P, "new": P, "shaky": P, "fe": P, "never": F})] * 2
    gold.append(Results({"f": P, "e": P, "p": P, "flaky": P, "s": P, "new": P, "shaky": F, "fe": P, "never": E}))
    found = classify(base, gold)
    assert found.fail_to_pass == ("e", "f", "fe", "new")
    assert found.pass_to_pass == ("p",)
    assert found.missing_in_base == ("new",)
    assert found.unstable == {
        "flaky": "base failed, failed, passed; gold passed, passed, passed",
        "shaky": "base absent, absent, absent; gold passed, passed, failed",
    }
    assert found.left_out == {
        "gone": "base passed, passed, passed; gold absent, absent, absent",
        "never": "base failed, failed, error; gold failed, failed, error",
        "s": "base skipped, skipped, skipped; gold passed, passed, passed",
    }


def test_a_test_that_a_gold_run_does_not_report_is_unstable() -> None:
    found = classify([Results({"a": F})], [Results({"a": P}), Results({"b": P})])
    assert (found.fail_to_pass, found.unstable["a"]) == ((), "base failed; gold passed, absent")


def test_classification_needs_runs() -> None:
    with pytest.raises(InputError) as caught:
        classify([Results()], [])
    assert str(caught.value) == "classification: expected at least one run of each, found 1 at base and 0 with gold"


def test_gold_runs_of_a_classification_resolve_and_base_runs_do_not() -> None:
    base, gold = Results({"a": F, "b": P, "d": P, "d::#2": F}), Results({"a": P, "b": P, "d": P, "d::#2": P})
    expected = classify([base, base], [gold])
    assert expected.fail_to_pass == ("a", "d", "d::#2")
    assert grade_target(expected, TargetRun(results=gold)).outcome is Outcome.RESOLVED
    assert grade_target(expected, TargetRun(results=base)).outcome is Outcome.UNRESOLVED


def test_expected_tests_survive_the_seal_and_refuse_overlap() -> None:
    assert parse_expected(EXPECTED.plain()) == EXPECTED
    with pytest.raises(InputError) as caught:
        ExpectedCases(("a", "b"), ("b",))
    assert str(caught.value) == "expected tests: in both FAIL_TO_PASS and PASS_TO_PASS: 'b'"
    broken: list[object] = [{}, [], {"FAIL_TO_PASS": ["a"]}, {"FAIL_TO_PASS": "a", "PASS_TO_PASS": []}]
    for plain in broken:
        with pytest.raises(InputError):
            parse_expected(plain)
    with pytest.raises(InputError):
        parse_expected({"FAIL_TO_PASS": [3], "PASS_TO_PASS": []})


IMAGE, PATCH = digest_of(b"image"), digest_of(b"patch")


def verdict(**durations_ms: int) -> Verdict:
    grade = grade_task({"b": grade_target(EXPECTED, run(old=P)), "a": grade_target(EXPECTED, run(**GREEN))})
    return Verdict("hello-wide-001", IMAGE, "0.1.0", grade, {"a": PATCH, "b": None}, durations_ms)


def test_a_verdict_reads_back_and_durations_do_not_change_its_digest() -> None:
    assert parse_verdict(format_verdict(verdict(a=7, b=8))) == verdict(a=7, b=8)
    assert verdict(a=7).digest == verdict(a=9).digest
    assert json.loads(format_verdict(verdict()))["bound"]["targets"]["b"] == {
        "patch": None,
        "outcome": "unresolved",
        "reason": "2 of 3 expected tests did not pass, first 'new'",
        "FAIL_TO_PASS": {"passed": 0, "total": 2},
        "PASS_TO_PASS": {"passed": 1, "total": 1},
        "failing": ["new", "newer"],
    }


def test_a_verdict_that_was_edited_is_refused() -> None:
    data = format_verdict(verdict())
    with pytest.raises(IntegrityError):
        parse_verdict(data.replace(b'"unresolved"', b'"resolved"', 1))
    with pytest.raises(InputError):
        parse_verdict(b'{"bound": [], "digest": "x", "durations_ms": {}}')
    with pytest.raises(InputError):
        parse_verdict(b"[]")


def test_a_verdict_names_a_patch_for_each_target() -> None:
    grade = grade_task({"a": grade_target(EXPECTED, run(**GREEN))})
    with pytest.raises(InputError):
        Verdict("t", IMAGE, "0", grade, {})


# ---- reports that somebody else wrote into


def grade_of(statuses: dict[str, Status], *expected: str) -> tuple[str, str]:
    grade = grade_target(ExpectedCases(tuple(expected)), TargetRun(End.FINISHED, Results(statuses)))
    return grade.outcome.value, grade.reason


def test_an_id_that_is_reported_again_did_not_pass_even_if_both_reports_say_so() -> None:
    assert grade_of({"a": Status.PASSED, "a::#2": Status.PASSED}, "a") == (
        "unresolved",
        "1 of 1 expected tests did not pass, first 'a'; reported more often than when it was validated: 'a'",
    )
    assert grade_of({"a": Status.PASSED, "a::#2": Status.PASSED}, "a", "a::#2") == (
        "resolved",
        "every expected test passed",
    )


def test_a_skipped_second_report_hides_nothing() -> None:
    assert Results({"a": Status.PASSED, "a::#2": Status.SKIPPED}).judged()["a"] is Status.SKIPPED


@pytest.mark.parametrize(
    ("broken", "spoilt"),
    [
        ("<plan>", ["a", "p > a", "q::a"]),
        ("<bail out>", ["a", "p > a", "q::a"]),
        ("<unclosed>", ["a", "p > a", "q::a"]),
        ("p > <plan>", ["p > a"]),
        ("q::<package>", ["q::a"]),
        ("q::<build>", ["q::a"]),
        ("q::<other>", []),
    ],
)
def test_what_broke_off_spoils_what_it_holds(broken: str, spoilt: list[str]) -> None:
    names = ["a", "p > a", "q::a"]
    sound = Results({**dict.fromkeys(names, Status.PASSED), broken: Status.FAILED}).sound()
    assert [name for name in names if sound[name] is not Status.PASSED] == spoilt


def test_a_test_whose_second_report_is_unsure_judges_nothing() -> None:
    gold = [Results({"a": Status.PASSED, "a::#2": Status.PASSED}), Results({"a": Status.PASSED})]
    expected = classify([Results({"a": Status.FAILED})], gold)
    assert (expected.fail_to_pass, expected.pass_to_pass) == ((), ())
    assert dict(expected.unstable) == {
        "a": "base failed; gold passed, passed; another report of it differs",
        "a::#2": "base absent; gold passed, absent",
    }
