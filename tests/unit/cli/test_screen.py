from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from packager.cli.screen import plain
from packager.evaluate.expected import ExpectedCases
from packager.evaluate.grade import Outcome


@dataclass(frozen=True)
class Shown:
    """A result with everything that results hold."""

    path: Path
    outcome: Outcome
    expected: dict[str, ExpectedCases]


def test_results_with_frozen_mappings_are_shown_as_json_as_validation_once_could_not() -> None:
    cases = ExpectedCases(("t/a",), ("t/b",), unstable={"t/c": "passed once"})
    shown = plain(Shown(Path("p"), Outcome.RESOLVED, {"one": cases}))
    assert json.loads(json.dumps(shown)) == {
        "path": "p",
        "outcome": "resolved",
        "expected": {
            "one": {
                "fail_to_pass": ["t/a"],
                "pass_to_pass": ["t/b"],
                "unstable": {"t/c": "passed once"},
                "left_out": {},
                "missing_in_base": [],
            }
        },
    }
