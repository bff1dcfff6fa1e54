"""Numbered checks: steps that are asked in order until the first no; what a verification says is this list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError, IntegrityError, TrustError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True)
class Answer:
    """Yes or no, and why; `signer` is the fingerprint of the key that a signature was made with."""

    ok: bool
    reason: str
    signer: str = ""


@dataclass(frozen=True)
class Check:
    """One line of a verification; of a no, `reason` says what was expected and found."""

    number: int
    name: str
    ok: bool
    reason: str


def ask_all(steps: Iterable[tuple[str, Callable[[], Answer]]]) -> list[Check]:
    """Ask the steps in order and return their answers up to the first no; an error of bytes or trust is a no."""
    checks: list[Check] = []
    for number, (name, step) in enumerate(steps, start=1):
        answer = _ask(step)
        checks.append(Check(number, name, answer.ok, answer.reason))
        if not answer.ok:
            break
    return checks


def is_verified(checks: Sequence[Check]) -> bool:
    """Tell whether a list of checks is a yes; an empty one is a no."""
    return bool(checks) and all(check.ok for check in checks)


def _ask(step: Callable[[], Answer]) -> Answer:
    try:
        return step()
    except (IntegrityError, InputError, TrustError) as error:
        return Answer(ok=False, reason=error.complaint)
