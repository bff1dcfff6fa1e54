"""The attestation that a task was validated: base fails, gold passes, so many runs; counts, and no name of a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.digests import hex_of
from packager.base.errors import InputError
from packager.trust.strict import expect_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.digests import Digest

PASSED = "PASSED"
_EXTENSION = "validation"
_MOST = 1 << 31


@dataclass(frozen=True)
class TargetCounts:
    """How many tests judge one target."""

    fail_to_pass: int
    pass_to_pass: int


@dataclass(frozen=True)
class Validated:
    """How often base and gold ran, and what the runs agreed on by target."""

    runs: int
    targets: Mapping[str, TargetCounts]


def make_result(validated: Validated, *, sealed: Digest) -> dict[str, Any]:
    """Return the predicate (in-toto, spec/predicates/test-result.md); the sealed file is what the tests are kept in."""
    counts = {
        name: {"failToPass": target.fail_to_pass, "passToPass": target.pass_to_pass}
        for name, target in sorted(validated.targets.items())
    }
    return {
        "result": PASSED,
        "configuration": [{"name": "opt/wideswe/sealed.age", "digest": {"sha256": hex_of(sealed)}}],
        _EXTENSION: {"baseFails": True, "goldPasses": True, "runs": validated.runs, "targets": counts},
    }


def parse_result(predicate: Mapping[str, Any], *, where: str = "test-result") -> Validated | str:
    """Return what a test-result says: the validation, or the result if that is no pass; else InputError."""
    result = predicate.get("result")
    if result != PASSED:
        return str(result)[:40]
    wanted = {"baseFails", "goldPasses", "runs", "targets"}
    said = expect_fields(predicate.get(_EXTENSION), wanted, where=f"{where}.{_EXTENSION}")
    if said["baseFails"] is not True or said["goldPasses"] is not True:
        return "base did not fail or gold did not pass"
    targets = said["targets"]
    if not isinstance(targets, dict) or not targets:
        raise InputError("expected at least one target", where=f"{where}.{_EXTENSION}.targets")
    found = {name: _counts(target, where=f"{where}.{_EXTENSION}.targets") for name, target in targets.items()}
    if not all(target.fail_to_pass for target in found.values()):
        raise InputError("expected a test that must turn from failing to passing in each target", where=where)
    return Validated(_count(said["runs"], least=1, where=f"{where}.{_EXTENSION}.runs"), found)


def _counts(value: object, *, where: str) -> TargetCounts:
    fields = expect_fields(value, {"failToPass", "passToPass"}, where=where)
    return TargetCounts(_count(fields["failToPass"], where=where), _count(fields["passToPass"], where=where))


def _count(value: object, *, least: int = 0, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
        raise InputError(f"expected a number from {least}, found {str(value)[:40]}", where=where)
    return value
