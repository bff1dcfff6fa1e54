"""The table of ecosystems: nothing is marked yes that a test does not show, and BUILD_NOTES.md has the table as printed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from packager.cli.screen import table
from packager.lock.ecosystems.asked import Mark
from packager.lock.ecosystems.table import HEAD, table_lines

ROOT = Path(__file__).parents[2]
MARKER = "pytest.mark.shows"
LINES = {line.row.client: line for line in table_lines()}


def declarations() -> dict[tuple[str, str], list[str]]:
    """Return, by client and mark, the tests that say that they show it."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for client, *marks in map(words_of, filter(is_marker, node.decorator_list)):
                    for mark in marks:
                        found.setdefault((client, mark), []).append(f"{path.relative_to(ROOT)}::{node.name}")
    return found


def is_marker(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == MARKER


def words_of(node: ast.expr) -> list[str]:
    assert isinstance(node, ast.Call)
    return [ast.literal_eval(word) for word in node.args]


SHOWN = declarations()


@pytest.mark.parametrize("client", LINES)
def test_each_yes_is_shown_by_a_test(client: str) -> None:
    assert [str(mark) for mark in LINES[client].row.shown if (client, mark) not in SHOWN] == []


def test_tests_show_only_what_the_table_says() -> None:
    known = {(client, str(mark)) for client, line in LINES.items() for mark in line.row.shown}
    assert sorted(SHOWN.keys() - known) == []


def test_what_shows_a_client_runs_the_walk_or_the_client_itself() -> None:
    tests = {name for names in SHOWN.values() for name in names}
    assert {name.split("/")[1] for name in tests} <= {"e2e", "interop"}


def test_a_client_has_one_line_and_something_to_show() -> None:
    assert len(LINES) == len(table_lines())
    assert [client for client, line in LINES.items() if Mark.RECORDS not in line.row.shown] == []


def test_the_notes_have_the_table_as_it_is_printed() -> None:
    text = (ROOT / "BUILD_NOTES.md").read_text().partition("## Ecosystems\n")[2].partition("\n## ")[0]
    printed = table(HEAD, [line.cells() for line in table_lines()])
    assert text.partition("```text\n")[2].partition("\n```")[0] == printed
