"""BUILD_NOTES.md against the tree: a line per file, in the words of the file itself; decisions that can be read at once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.test_house import ROOMS

ROOT = Path(__file__).parents[2]
NOTES = (ROOT / "BUILD_NOTES.md").read_text()
FILES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted((ROOT / "packager").rglob("*.py"))
    if path.read_text().strip()
}
MAP = dict(re.findall(r"^- `(packager/[^`]+)` — (.+)$", NOTES, re.MULTILINE))
DECISIONS = re.split(r"^### (?=\d+\. )", NOTES.partition("## Decisions\n")[2], flags=re.MULTILINE)[1:]
MAX_DECISION_LINES = 10


def test_the_map_has_every_file_and_no_other() -> None:
    assert sorted(MAP) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_it_is_for_and_the_map_says_the_same(name: str) -> None:
    docstring = ast.get_docstring(ast.parse(FILES[name]))
    assert docstring is not None
    assert MAP[name] == docstring.splitlines()[0]


def test_the_map_lists_rooms_in_the_order_in_which_they_may_import() -> None:
    rooms = re.findall(r"^### (\w+)/$", NOTES, re.MULTILINE)
    assert rooms == [room for room in ROOMS if any(name.startswith(f"packager/{room}/") for name in FILES)]


def test_decisions_are_numbered_and_short_and_say_context_decision_and_consequence() -> None:
    numbers = [int(text.partition(".")[0]) for text in DECISIONS]
    assert numbers == list(range(1, len(DECISIONS) + 1))
    for text in DECISIONS:
        lines = [line for line in text.splitlines() if line.strip()]
        assert len(lines) <= MAX_DECISION_LINES, lines[0]
        words = [line.partition(":")[0] for line in lines if line.startswith(("Context:", "Decision:", "Consequence:"))]
        assert words == ["Context", "Decision", "Consequence"], lines[0]
