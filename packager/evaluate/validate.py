"""Validation: base must fail, gold must pass, several times over; what the runs agree on are the expected tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_canonical, format_readable, parse_json
from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.base.progress import Event, Progress, silent
from packager.evaluate.classify import classify
from packager.evaluate.expected import ExpectedCases, parse_expected
from packager.evaluate.predictions import Patch
from packager.evaluate.profile import format_profile
from packager.evaluate.results import End

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.digests import Digest
    from packager.evaluate.profile import Profile
    from packager.evaluate.results import Results
    from packager.evaluate.run import Session, Tested
    from packager.lock.model import LockedFiles

SCHEMA = "wideswe-expected/1"
LIMIT_BYTES = 64 << 20


@dataclass(frozen=True)
class ValidatedTarget:
    """How many tests judge a target, and what is wrong with it if something is."""

    target: str
    fail_to_pass: int
    pass_to_pass: int
    unstable: int
    problem: str = ""


@dataclass(frozen=True)
class Validation:
    """The outcome of validating one task; valid if every target has a FAIL_TO_PASS test and no problem."""

    task: str
    runs: int
    targets: tuple[ValidatedTarget, ...]
    expected: Mapping[str, ExpectedCases]

    @property
    def valid(self) -> bool:
        """Whether the task can be published."""
        return bool(self.targets) and not any(target.problem for target in self.targets)


def validate_session(
    session: Session, gold: Mapping[str, bytes], *, runs: int, progress: Progress = silent
) -> Validation:
    """Run base and gold `runs` times each, in turn, every time in a fresh file system, and compare."""
    base: list[dict[str, Tested]] = []
    fixed: list[dict[str, Tested]] = []
    for number in range(1, runs + 1):
        progress(Event("validate", 2 * number - 1, 2 * runs, "runs", "base"))
        base.append(session.run({}))
        progress(Event("validate", 2 * number, 2 * runs, "runs", "gold"))
        fixed.append(session.run({name: Patch(patch) for name, patch in gold.items()}))
    names = [target.name for target in session.profile.targets]
    expected = {name: classify(_results(base, name), _results(fixed, name)) for name in names}
    targets = tuple(_judge(name, expected[name], base, fixed) for name in names)
    return Validation(session.profile.task, runs, targets, expected)


def _results(runs: list[dict[str, Tested]], name: str) -> list[Results]:
    return [run[name].run.results for run in runs]


def _judge(
    name: str, expected: ExpectedCases, base: list[dict[str, Tested]], fixed: list[dict[str, Tested]]
) -> ValidatedTarget:
    problem = ""
    ended = [run[name].run for run in fixed]
    broken = [run for run in ended if run.end is not End.FINISHED or not run.results.statuses]
    if broken:
        problem = f"gold: {broken[0].reason or broken[0].end.value}"
    elif any(run[name].run.end not in (End.FINISHED, End.TIMEOUT) for run in base):
        problem = "base did not run"
    elif not expected.fail_to_pass:
        problem = "no test fails at base and passes with gold"
    counts = len(expected.fail_to_pass), len(expected.pass_to_pass), len(expected.unstable)
    return ValidatedTarget(name, *counts, problem)


def subject_of(environment: Digest, files: LockedFiles, profile: Profile) -> Digest:
    """Return the digest of what a validation speaks about: environment, gold, hidden tests and how they run."""
    parts = {
        "environment": environment,
        "gold": dict(files.gold),
        "hidden": dict(files.hidden),
        "profile": digest_of(format_profile(profile)),
    }
    return digest_of(format_canonical(parts))


def format_expected(expected: Mapping[str, ExpectedCases], *, subject: Digest, runs: int) -> bytes:
    """Return the expected tests as the file beside the lock keeps them, bound to what was validated."""
    targets = {
        name: {**cases.plain(), "unstable": dict(cases.unstable), "missing_in_base": list(cases.missing_in_base)}
        for name, cases in expected.items()
    }
    return format_readable({"schema": SCHEMA, "subject": subject, "runs": runs, "targets": targets})


def read_expected(data: bytes, *, where: str) -> tuple[str, dict[str, ExpectedCases]]:
    """Return the digest of what was validated and the expected tests by target, or raise InputError."""
    value: Any = parse_json(data, where=where, limit=LIMIT_BYTES)
    try:
        if value["schema"] != SCHEMA:
            raise InputError(f"expected {SCHEMA}, found {value['schema']!r}", where=where)
        keys = ("FAIL_TO_PASS", "PASS_TO_PASS")
        targets = {
            name: parse_expected({key: item[key] for key in keys}, where=f"{where}: {name}")
            for name, item in value["targets"].items()
        }
        return str(value["subject"]), targets
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"not a list of expected tests: {error!r}", where=where) from error
