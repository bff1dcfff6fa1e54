"""The table from published reports to the tests that meet them again; a report without a test shows as a gap."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
REPORTS = frozenset(range(1, 35))
GAPS = frozenset({1, 2, 3, 4, 7, 8, 9, 12, 27, 28, 32})
"""Reports that no marked test meets; they are about signatures, policies and suites, whose own tests are unmarked."""


def marked(path: Path) -> list[tuple[int, str]]:
    """Return the reports that tests of a file are marked with."""
    tests = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return [
        (argument.value, f"{path.relative_to(TESTS)}::{node.name}")
        for node in tests
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.report"
        for argument in mark.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, int)
    ]


def table() -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for number, test in marked(path):
            found[number].append(test)
    return dict(found)


def test_every_report_has_a_test_or_is_a_known_gap() -> None:
    found = table()
    assert sorted(found.keys() - REPORTS) == [], "no such report"
    assert sorted(REPORTS - found.keys() - GAPS) == [], "nothing meets these reports"
    assert sorted(GAPS & found.keys()) == [], "take these out of GAPS: they are met now"


def test_a_report_marks_tests_only() -> None:
    assert [test for tests in table().values() for test in tests if "::test_" not in test] == []
