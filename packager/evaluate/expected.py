"""Which tests a target must pass, and how base and gold runs decide that."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ExpectedCases:
    """The test ids of one target, sorted.

    `unstable` and `left_out` say by name why a test judges nothing; `missing_in_base` are those of `fail_to_pass`
    that no base run reported, as when the tests do not compile at base: they carry little signal.
    """

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    unstable: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    missing_in_base: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in ("fail_to_pass", "pass_to_pass", "missing_in_base"):
            object.__setattr__(self, key, tuple(sorted(set(getattr(self, key)))))
        for key in ("unstable", "left_out"):
            object.__setattr__(self, key, MappingProxyType(dict(sorted(getattr(self, key).items()))))
        both = sorted(set(self.fail_to_pass) & set(self.pass_to_pass))
        if both:
            raise InputError(f"in both FAIL_TO_PASS and PASS_TO_PASS: {both[0]!r}", where="expected tests")

    def plain(self) -> dict[str, list[str]]:
        """Return the two lists as the seal keeps them."""
        return {"FAIL_TO_PASS": list(self.fail_to_pass), "PASS_TO_PASS": list(self.pass_to_pass)}


def parse_expected(plain: Any, *, where: str = "expected tests") -> ExpectedCases:  # noqa: ANN401 - JSON
    """Return the expected tests of one target from the seal's two lists, or raise InputError."""
    keys = {"FAIL_TO_PASS", "PASS_TO_PASS"}
    if not isinstance(plain, dict) or set(plain) != keys:
        raise InputError("expected exactly FAIL_TO_PASS and PASS_TO_PASS", where=where)
    for key in sorted(keys):
        found = plain[key]
        if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
            raise InputError(f"expected a list of test ids in {key}", where=where)
    return ExpectedCases(tuple(plain["FAIL_TO_PASS"]), tuple(plain["PASS_TO_PASS"]))
