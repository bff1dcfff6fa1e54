"""Which tests judge: those that every base run and every gold run agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.evaluate.expected import ExpectedCases
from packager.evaluate.results import Status, original_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.evaluate.results import Results

_ABSENT = "absent"
_BAD = {Status.FAILED.value, Status.ERROR.value}


def classify(base_runs: Sequence[Results], gold_runs: Sequence[Results]) -> ExpectedCases:
    """Compare runs at base with runs with gold.

    Bad or absent in every base run and passed in every gold run: FAIL_TO_PASS; passed in all: PASS_TO_PASS; changing
    inside the base runs or inside the gold runs: unstable, with what each run said. The rest is left out, with why.
    """
    if not base_runs or not gold_runs:
        raise InputError(
            f"expected at least one run of each, found {len(base_runs)} at base and {len(gold_runs)} with gold",
            where="classification",
        )
    base = [{name: status.value for name, status in run.judged().items()} for run in base_runs]
    gold = [{name: status.value for name, status in run.sound().items()} for run in gold_runs]
    lists: dict[str, dict[str, str]] = {"fail_to_pass": {}, "pass_to_pass": {}, "unstable": {}, "left_out": {}}
    missing: list[str] = []
    for name in sorted(set().union(*base, *gold)):
        before, after = [run.get(name, _ABSENT) for run in base], [run.get(name, _ABSENT) for run in gold]
        which, why = _place(before, after)
        lists[which][name] = why
        if which == "fail_to_pass" and set(before) == {_ABSENT}:
            missing.append(name)
    _drop_copied(lists)
    return ExpectedCases(
        fail_to_pass=tuple(lists["fail_to_pass"]),
        pass_to_pass=tuple(lists["pass_to_pass"]),
        unstable=lists["unstable"],
        left_out=lists["left_out"],
        missing_in_base=tuple(name for name in missing if name in lists["fail_to_pass"]),
    )


def _drop_copied(lists: dict[str, dict[str, str]]) -> None:
    """Let no test judge of which a further report (`::#2` …) does not: how often it is reported must be sure."""
    judging = (lists["fail_to_pass"], lists["pass_to_pass"])
    doubtful = {original_of(name) for name in (*lists["unstable"], *lists["left_out"])}
    while doubtful & {*judging[0], *judging[1]}:
        for one in judging:
            for name in doubtful & set(one):
                lists["unstable"][str(name)] = f"{one.pop(str(name))}; another report of it differs"
        doubtful = {original_of(name) for name in lists["unstable"]}


def _place(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    evidence = f"base {', '.join(before)}; gold {', '.join(after)}"
    is_bad_before = set(before) <= _BAD | {_ABSENT}
    if not (is_bad_before or len(set(before)) == 1) or not (len(set(after)) == 1 or set(after) <= _BAD):
        return "unstable", evidence
    if set(after) == {Status.PASSED.value}:
        if is_bad_before:
            return "fail_to_pass", evidence
        if set(before) == {Status.PASSED.value}:
            return "pass_to_pass", evidence
    return "left_out", evidence
