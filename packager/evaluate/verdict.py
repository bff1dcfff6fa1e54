"""The verdict: the graded result of one evaluation, bound to the bytes that it speaks about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_canonical, format_readable, parse_json
from packager.base.digests import Digest, digest_of, parse_digest
from packager.base.errors import InputError, IntegrityError
from packager.evaluate.grade import Counted, Outcome, TargetGrade, TaskGrade
from packager.evaluate.run_record import RunRecord, parse_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.evaluate.run_record import Mode

SCHEMA = "wideswe-verdict/1"


@dataclass(frozen=True)
class Verdict:
    """A task's grade with the digests of the image's manifest and of each target's patch (None: no patch).

    `suite` is the version of the suite by which the image was judged, if there was a trust policy, and whether it had
    expired. `at_gold` names the targets that had the sealed gold patch and were not graded, None in a joint run.
    `durations_ms`, `run` (how the patch came about), `logs` (the end of what the tests of a target that is not resolved
    wrote) and `ended` (by target, how each of its failing tests ended: failed, error, skipped, absent, or passed if it
    was reported too often) are kept beside the bound part: two runs with the same outcome have the same digest.
    """

    task: str
    image: Digest
    tool: str
    grade: TaskGrade
    patches: Mapping[str, Digest | None]
    durations_ms: Mapping[str, int] = field(default_factory=dict)
    suite: Mapping[str, Any] | None = None
    at_gold: tuple[str, ...] | None = None
    run: RunRecord | None = None
    logs: Mapping[str, str] = field(default_factory=dict)
    ended: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if set(self.patches) != set(self.grade.targets):
            raise InputError("expected one patch digest, or None, for each graded target", where="verdict")
        if self.at_gold is not None and set(self.at_gold) & set(self.patches):
            raise InputError("expected no target both graded and at gold", where="verdict")
        if self.run is not None and (self.run.mode == "independent") != (self.at_gold is not None):
            raise InputError(f"expected the record of a run that is {self.mode}, found {self.run.mode}", where="run")

    @property
    def mode(self) -> Mode:
        """Whether the whole task was judged, or one target with the others at gold."""
        return "joint" if self.at_gold is None else "independent"

    @property
    def digest(self) -> Digest:
        """Digest of the canonical JSON of the bound part."""
        return digest_of(format_canonical(self.bound()))

    def bound(self) -> dict[str, Any]:
        """Return what the digest covers, as JSON values."""
        by: dict[str, Any] = {} if self.suite is None else {"suite": dict(self.suite)}
        if self.at_gold is not None:
            by["at_gold"] = list(self.at_gold)
        return by | {
            "schema": SCHEMA,
            "task": self.task,
            "image": self.image,
            "tool": self.tool,
            "outcome": self.grade.outcome.value,
            "reason": self.grade.reason,
            "targets": {
                name: {
                    "patch": self.patches[name],
                    "outcome": grade.outcome.value,
                    "reason": grade.reason,
                    "FAIL_TO_PASS": _plain_count(grade.fail_to_pass),
                    "PASS_TO_PASS": _plain_count(grade.pass_to_pass),
                    "failing": list(grade.failing),
                }
                for name, grade in self.grade.targets.items()
            },
        }

    def document(self) -> dict[str, Any]:
        """Return the bound part, its digest, and what is not bound, as JSON values."""
        beside: dict[str, Any] = {} if self.run is None else {"run": self.run.plain()}
        if self.logs:
            beside["logs"] = dict(sorted(self.logs.items()))
        if self.ended:
            beside["ended"] = {name: dict(sorted(tests.items())) for name, tests in sorted(self.ended.items())}
        durations_ms = dict(sorted(self.durations_ms.items()))
        return {"bound": self.bound(), "digest": self.digest, "durations_ms": durations_ms, **beside}


def format_verdict(verdict: Verdict) -> bytes:
    """Return a verdict as JSON for people and machines."""
    return format_readable(verdict.document())


def parse_verdict(data: bytes, *, where: str = "verdict") -> Verdict:
    """Read a verdict; IntegrityError if its digest is not that of its bound part."""
    plain = parse_json(data, where=where, limit=64 << 20)
    try:
        bound = plain["bound"]
        if bound["schema"] != SCHEMA:
            raise InputError(f"expected schema {SCHEMA}, found {str(bound['schema'])[:80]!r}", where=where)
        found = digest_of(format_canonical(bound))
        if found != plain["digest"]:
            raise IntegrityError(f"expected {str(plain['digest'])[:80]}, found {found}", where=where)
        verdict = replace(
            _parse_bound(bound, plain["durations_ms"]),
            run=None if plain.get("run") is None else parse_run(plain["run"], where=f"{where}: run"),
            logs={str(name): str(text) for name, text in plain.get("logs", {}).items()},
            ended={
                name: {test: str(status) for test, status in tests.items()}
                for name, tests in plain.get("ended", {}).items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"not a verdict: {error!r}", where=where) from error
    if verdict.bound() != bound:
        raise InputError("expected exactly the keys of a verdict", where=where)
    return verdict


def _parse_bound(bound: dict[str, Any], durations_ms: dict[str, int]) -> Verdict:
    targets = {
        name: TargetGrade(
            Outcome(one["outcome"]),
            str(one["reason"]),
            _parse_count(one["FAIL_TO_PASS"]),
            _parse_count(one["PASS_TO_PASS"]),
            tuple(map(str, one["failing"])),
        )
        for name, one in bound["targets"].items()
    }
    return Verdict(
        task=str(bound["task"]),
        image=parse_digest(bound["image"], where="image"),
        tool=str(bound["tool"]),
        grade=TaskGrade(Outcome(bound["outcome"]), str(bound["reason"]), targets),
        patches={
            name: None if one["patch"] is None else parse_digest(one["patch"], where="patch")
            for name, one in bound["targets"].items()
        },
        durations_ms={str(key): int(value) for key, value in durations_ms.items()},
        suite=bound.get("suite"),
        at_gold=None if bound.get("at_gold") is None else tuple(map(str, bound["at_gold"])),
    )


def _plain_count(counted: Counted) -> dict[str, int]:
    return {"passed": counted.passed, "total": counted.total}


def _parse_count(plain: dict[str, int]) -> Counted:
    return Counted(int(plain["passed"]), int(plain["total"]))
