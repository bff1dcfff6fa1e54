"""Validation: base must fail, gold must pass, several times over; what the runs agree on are the expected tests.

Beside the runs that are alike, one runs under every variation at once. If a test says something else there, each
variation runs alone, so that the evidence names the one that matters. A variation under which gold reports nothing is
not one that the tests bear: that is noted, and sets nothing aside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_canonical, format_readable, parse_json
from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.base.progress import Event, Progress, silent
from packager.evaluate.classify import classify
from packager.evaluate.evidence import PLAIN, Round, TargetEvidence, differing, is_borne, weigh
from packager.evaluate.expected import ExpectedCases, parse_expected
from packager.evaluate.predictions import Patch
from packager.evaluate.profile import format_profile
from packager.evaluate.results import End, Status
from packager.evaluate.variations import vary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.base.digests import Digest
    from packager.evaluate.profile import Profile
    from packager.evaluate.released import Comparison
    from packager.evaluate.run import Session
    from packager.evaluate.variations import Variation
    from packager.lock.model import LockedFiles

SCHEMA = "wideswe-expected/1"
EVIDENCE_SCHEMA = "wideswe-validation/1"
LIMIT_BYTES = 64 << 20
ALL_TOGETHER = "all variations together"


@dataclass(frozen=True)
class ValidatedTarget:
    """How many tests judge a target, and what is wrong with it if something is."""

    target: str
    fail_to_pass: int
    pass_to_pass: int
    unstable: int
    problem: str = ""


@dataclass(frozen=True)
class Plan:
    """How often base and gold run alike, what varies them once more, and patches that only declare what is new."""

    runs: int = 3
    variations: tuple[Variation, ...] = ()
    not_varied: Mapping[str, str] = field(default_factory=dict)
    stubs: Mapping[str, Patch] = field(default_factory=dict)


@dataclass(frozen=True)
class Validation:
    """The outcome of validating one task; valid if every target has a FAIL_TO_PASS test and no problem.

    `stub_passes` are FAIL_TO_PASS tests that pass with a patch that only declares what is new: they say little.
    `released` compares the lists with those that a release fixed, where the recipe names such.
    """

    task: str
    runs: int
    targets: tuple[ValidatedTarget, ...]
    expected: Mapping[str, ExpectedCases]
    varied: Mapping[str, str] = field(default_factory=dict)
    not_varied: Mapping[str, str] = field(default_factory=dict)
    rounds: tuple[str, ...] = ()
    evidence: Mapping[str, TargetEvidence] = field(default_factory=dict)
    stub_passes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    released: Mapping[str, Comparison] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether the task can be published."""
        return bool(self.targets) and not any(target.problem for target in self.targets)


def validate_session(
    session: Session, gold: Mapping[str, bytes], plan: Plan, *, progress: Progress = silent
) -> Validation:
    """Run base and gold as planned, in turn, every time in a fresh file system, and compare."""
    runner = _Runner(session, {name: Patch(patch) for name, patch in gold.items()}, plan, progress)
    rounds = runner.rounds()
    names = [target.name for target in session.profile.targets]
    expected: dict[str, ExpectedCases] = {}
    evidence: dict[str, TargetEvidence] = {}
    for name in names:
        borne = [one for one in rounds if one.variation == PLAIN or is_borne(one, rounds, name)]
        results = [one.results(name) for one in borne]
        expected[name] = classify([base for base, _ in results], [gold for _, gold in results])
        evidence[name] = weigh(name, expected[name], rounds)
    return Validation(
        session.profile.task,
        plan.runs,
        tuple(_judge(name, expected[name], [one for one in rounds if one.variation == PLAIN]) for name in names),
        expected,
        varied={one.name: one.what for one in plan.variations},
        not_varied=plan.not_varied,
        rounds=tuple(one.variation or "alike" for one in rounds),
        evidence=evidence,
        stub_passes=runner.stub_passes(expected),
    )


@dataclass(frozen=True)
class _Runner:
    session: Session
    gold: Mapping[str, Patch]
    plan: Plan
    progress: Progress

    def rounds(self) -> list[Round]:
        """Run what is planned, and more if something differs."""
        rounds = [self._round(PLAIN, ()) for _ in range(self.plan.runs)]
        variations = self.plan.variations
        if not variations:
            return rounds
        alone = len(variations) == 1
        together = self._round(variations[0].name if alone else ALL_TOGETHER, variations)
        names = [target.name for target in self.session.profile.targets]
        matters = any(differing(rounds, together, name) or not is_borne(together, rounds, name) for name in names)
        rounds.append(together)
        if matters and not alone:
            rounds += [self._round(one.name, (one,)) for one in variations]
        return rounds

    def _round(self, name: str, variations: Sequence[Variation]) -> Round:
        session = vary(self.session, variations)
        shown = f" ({name})" if name else ""
        self.progress(Event("validate", message=f"base{shown}"))
        base = session.run({})
        self.progress(Event("validate", message=f"gold{shown}"))
        return Round(name, base, session.run(self.gold))

    def stub_passes(self, expected: Mapping[str, ExpectedCases]) -> dict[str, tuple[str, ...]]:
        """Return which FAIL_TO_PASS tests pass with the stubs, by target; nothing without stubs."""
        if not self.plan.stubs:
            return {}
        self.progress(Event("validate", message="stubs"))
        tested = self.session.run(self.plan.stubs)
        passed: dict[str, tuple[str, ...]] = {}
        for name, cases in expected.items():
            run = tested[name].run
            if run.end is End.PATCH_REFUSED:
                raise InputError(f"the stub does not apply: {run.reason}", where=f"stub of {name}")
            sound = run.results.sound()
            passed[name] = tuple(one for one in cases.fail_to_pass if sound.get(one) is Status.PASSED)
        return passed


def _judge(name: str, expected: ExpectedCases, plain: Sequence[Round]) -> ValidatedTarget:
    problem = ""
    broken = [
        run for run in (one.gold[name].run for one in plain) if run.end is not End.FINISHED or not run.results.statuses
    ]
    if broken:
        problem = f"gold: {broken[0].reason or broken[0].end.value}"
    elif any(one.base[name].run.end not in (End.FINISHED, End.TIMEOUT) for one in plain):
        problem = "base did not run"
    elif not expected.fail_to_pass:
        problem = "no test fails at base and passes with gold"
        if expected.unstable:
            problem += f"; {len(expected.unstable)} unstable tests were set aside"
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


def format_evidence(found: Validation, *, subject: Digest) -> bytes:
    """Return the evidence as the file beside the lock keeps it, bound to what was validated."""
    targets: dict[str, dict[str, Any]] = {}
    for name, evidence in found.evidence.items():
        cases = found.expected[name]
        targets[name] = {
            "counts": {"FAIL_TO_PASS": len(cases.fail_to_pass), "PASS_TO_PASS": len(cases.pass_to_pass)},
            "unstable": {
                test: {"by": list(one.by), "base": list(one.base), "gold": list(one.gold)}
                for test, one in evidence.unstable.items()
            },
            "base_failure": list(evidence.base_failure),
            "uncollected_at_base": list(evidence.uncollected),
            "not_borne": dict(evidence.not_borne),
            "left_out": dict(cases.left_out),
        }
        if name in found.stub_passes:
            targets[name]["stub_passes"] = list(found.stub_passes[name])
        if name in found.released:
            targets[name]["released"] = found.released[name].plain()
    return format_readable(
        {
            "schema": EVIDENCE_SCHEMA,
            "subject": subject,
            "runs": found.runs,
            "rounds": list(found.rounds),
            "varied": dict(found.varied),
            "not_varied": dict(found.not_varied),
            "targets": targets,
        }
    )


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
