"""Control tests: where one is written, and what a report says that lets it pass."""

from __future__ import annotations

import pytest

from packager.evaluate.controls import plant, take_out
from packager.evaluate.expected import ExpectedCases
from packager.evaluate.grade import grade_target
from packager.evaluate.profile import TargetProfile
from packager.evaluate.results import End, Results, Status, TargetRun

WORD = "0a1b2c3d"
PYTHON = b"def helper():\n    pass\n\n\ndef test_adds():\n    assert 1\n"
GO = b'package a\n\nimport "testing"\n\nfunc TestAdds(t *testing.T) {}\n'
RUBY = b'RSpec.describe "Adding numbers" do\nend\n'
NODE = b"import { test } from 'vitest';\n\ntest('adds numbers', () => {});\n"


def a_target(run: str, results: str = "junit-xml") -> TargetProfile:
    return TargetProfile("a", "", run, ".", results, "file", 10.0, (), ())


@pytest.mark.parametrize(
    ("run", "path", "data", "known", "written"),
    [
        (
            'python -m pytest -q -p no:cacheprovider --junitxml="$WIDESWE_REPORT" tests',
            "tests/test_a.py",
            PYTHON,
            "tests.test_a::test_adds",
            'def test_adds_0a1b2c3d():\n    raise AssertionError("0a1b2c3d")\n',
        ),
        (
            "cd x && go test -json -skip '^Test(A|B)$' ./...",
            "a_test.go",
            GO,
            "example/a::TestAdds",
            'func TestAdds_0a1b2c3d(t *testing.T) {\n\tt.Fatal("0a1b2c3d")\n}\n',
        ),
        (
            'rspec --seed 1 -f RspecJunitFormatter -o "$WIDESWE_REPORT" spec/a_spec.rb',
            "spec/a_spec.rb",
            RUBY,
            "./spec/a_spec.rb::spec.a_spec::Adding numbers works",
            'RSpec.describe("Adding numbers 0a1b2c3d") { it("holds") { raise "0a1b2c3d" } }\n',
        ),
        (
            "npx vitest run --reporter=junit",
            "src/a.test.ts",
            NODE,
            "src/a.test.ts::adds numbers",
            'test("adds numbers 0a1b2c3d", () => { throw new Error("0a1b2c3d"); });\n',
        ),
    ],
)
def test_a_control_is_written_behind_a_test_that_counts(
    run: str, path: str, data: bytes, known: str, written: str
) -> None:
    results = "gotest-json" if path.endswith(".go") else "junit-xml"
    hidden = {"data.txt": (0o644, b"x"), path: (0o644, data)}
    planted = plant(a_target(run, results), hidden, ExpectedCases((known,)), WORD)
    assert planted == {**hidden, path: (0o644, data + b"\n\n" + written.encode())}


@pytest.mark.parametrize(
    "run",
    [
        "pytest -x tests",
        "pytest --maxfail=1",
        "pytest -k adds",
        "pytest tests/test_a.py::test_adds",
        "pytest tests || true",
        "pytest tests; convert",
        "pytest tests | tee log",
        "pytest tests\nconvert",
        "pytest 'tests",
        "pytest tests && convert",
        "make check",
    ],
)
def test_a_command_that_a_further_failure_might_disturb_has_no_control(run: str) -> None:
    hidden = {"tests/test_a.py": (0o644, PYTHON)}
    assert plant(a_target(run), hidden, ExpectedCases(("tests.test_a::test_adds",)), WORD) is None


@pytest.mark.parametrize(
    "hidden",
    [
        {"tests/test_a.py": (0o120000, PYTHON)},
        {"tests/helper.py": (0o644, PYTHON)},
        {"tests/test_a.py": (0o644, b"def test_other(): pass\n")},
        {"tests/test_a.py": (0o644, PYTHON + b"#" * (1 << 20))},
    ],
)
def test_a_file_whose_tests_do_not_count_has_no_control(hidden: dict[str, tuple[int, bytes]]) -> None:
    assert plant(a_target("pytest tests"), hidden, ExpectedCases(("tests.test_a::test_adds",)), WORD) is None


@pytest.mark.parametrize(
    ("control", "said"),
    [
        ({f"t::test_adds_{WORD}": Status.FAILED}, ("resolved", "every expected test passed")),
        ({f"t::test_adds_{WORD}": Status.ERROR}, ("resolved", "every expected test passed")),
        (
            {f"t::test_adds_{WORD}": Status.PASSED},
            ("unresolved", "a control test, which must fail, was reported as passed or skipped"),
        ),
        (
            {f"t::test_adds_{WORD}": Status.SKIPPED},
            ("unresolved", "a control test, which must fail, was reported as passed or skipped"),
        ),
        (
            {f"t::test_adds_{WORD}": Status.FAILED, f"t::test_adds_{WORD}::#2": Status.PASSED},
            ("unresolved", "a control test, which must fail, was reported as passed or skipped"),
        ),
        ({}, ("unresolved", "a control test, which must fail, was not reported")),
    ],
)
def test_only_a_control_that_failed_lets_a_report_count(control: dict[str, Status], said: tuple[str, str]) -> None:
    run = take_out(TargetRun(End.FINISHED, Results({"t::test_adds": Status.PASSED, **control})), WORD)
    grade = grade_target(ExpectedCases(("t::test_adds",)), run)
    assert (grade.outcome.value, grade.reason) == said
    assert dict(run.results.statuses) == {"t::test_adds": Status.PASSED}


def test_a_report_of_nothing_but_the_control_has_no_results() -> None:
    run = take_out(TargetRun(End.FINISHED, Results({f"t::test_adds_{WORD}": Status.FAILED})), WORD)
    grade = grade_target(ExpectedCases(("t::test_adds",)), run)
    assert (grade.outcome.value, grade.reason) == (
        "unresolved",
        "no results: the report names no test but the control",
    )
