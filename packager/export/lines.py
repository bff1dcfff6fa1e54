"""Results as SWE-bench's `parse_log_jest_json` reads them: `[PASSED] id` and `[FAILED] id`, one a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.evaluate.grade import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.evaluate.expected import ExpectedCases
    from packager.evaluate.grade import TaskGrade

PARSER = "parse_log_jest_json"
_UNSAFE = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\\]|^ | (?= |$)")


def line_id(target: str, name: str) -> str:
    """Return a test id as it stands in the lists and on a line: with its target, and nothing that a line would lose."""
    return f"{target}: {_UNSAFE.sub(_escaped, name)}"


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in match[0])


def result_lines(expected: Mapping[str, ExpectedCases], grade: TaskGrade | None) -> Iterator[str]:
    """Yield a line for each expected test, so that the harness counts a target as resolved exactly if we do.

    Without a grade none passed; FAIL_TO_PASS did not where a target is not resolved though nothing failed.
    """
    for target, cases in sorted(expected.items()):
        names = (*cases.fail_to_pass, *cases.pass_to_pass)
        one = None if grade is None else grade.targets[target]
        failing = set(names) if one is None else set(one.failing)
        if one is not None and one.outcome is not Outcome.RESOLVED and not failing:
            failing = set(cases.fail_to_pass)
        if one is not None:
            yield f"# {target}: {one.outcome.value}: {one.reason!r}\n"
        for name in names:
            yield f"[{'FAILED' if name in failing else 'PASSED'}] {line_id(target, name)}\n"
