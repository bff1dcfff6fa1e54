"""Lines for SWE-bench: an id survives its line whatever is in it, and a target that is not resolved has one that failed."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from packager.evaluate.expected import ExpectedCases
from packager.evaluate.grade import Counted, Outcome, TargetGrade, TaskGrade
from packager.export.lines import line_id, result_lines

EXPECTED = {"b": ExpectedCases(("f",), ("p",)), "a": ExpectedCases(("new",), ())}


def grade_of(**targets: TargetGrade) -> TaskGrade:
    return TaskGrade(Outcome.UNRESOLVED, "", targets)


RESOLVED = TargetGrade(Outcome.RESOLVED, "every expected test passed", Counted(1, 1), Counted(0, 0))


@given(st.text(min_size=1, max_size=30))
def test_an_id_is_read_back_from_its_line_as_it_stands_in_the_list(name: str) -> None:
    listed = line_id("target", name)
    for line in [f"[PASSED] {listed}"]:
        assert line.split("\n") == [line]
        assert line.strip() == line
        assert re.match(r"^\[(PASSED|FAILED)\]\s(.+)$", line, re.DOTALL) is not None
    assert len(f"x{listed}x".splitlines()) == 1


@given(st.text(max_size=8), st.text(max_size=8))
def test_two_ids_never_become_one(one: str, other: str) -> None:
    assert (line_id("t", one) == line_id("t", other)) == (one == other)


def test_usual_ids_stay_as_they_are() -> None:
    for name in ("tests/test_a.py::test_b[1-x]", "pkg::Test/sub case", "a > b (c) é 'd'"):
        assert line_id("t", name) == f"t: {name}"
    assert line_id("t", " a\tb\nc  d\\") == "t: \\u0020a\\u0009b\\u000ac\\u0020 d\\u005c"


def test_what_failed_and_what_passed() -> None:
    failed = TargetGrade(Outcome.UNRESOLVED, "1 of 2", Counted(1, 1), Counted(0, 1), ("p",))
    assert "".join(result_lines(EXPECTED, grade_of(a=RESOLVED, b=failed))) == (
        "# a: resolved: 'every expected test passed'\n[PASSED] a: new\n"
        "# b: unresolved: '1 of 2'\n[PASSED] b: f\n[FAILED] b: p\n"
    )


def test_a_target_that_is_not_believed_fails_though_every_test_passed() -> None:
    distrusted = TargetGrade(Outcome.UNRESOLVED, "a control\ntest", Counted(1, 1), Counted(1, 1))
    assert "".join(result_lines(EXPECTED, grade_of(a=RESOLVED, b=distrusted))) == (
        "# a: resolved: 'every expected test passed'\n[PASSED] a: new\n"
        "# b: unresolved: 'a control\\ntest'\n[FAILED] b: f\n[PASSED] b: p\n"
    )


def test_without_a_grade_nothing_passed() -> None:
    assert "".join(result_lines(EXPECTED, None)) == "[FAILED] a: new\n[FAILED] b: f\n[FAILED] b: p\n"
