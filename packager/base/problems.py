"""Faults in what a person wrote, gathered so that one run reports them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, order=True)
class Problem:
    """One fault: file and line (1-based, 0 if unknown), the key's path, what is wrong, and what to do."""

    file: str
    line: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"
        return f"{text} (hint: {self.hint})" if self.hint else text


def refuse(problems: Iterable[Problem]) -> None:
    """Raise one InputError that lists all problems in order; return if there are none."""
    found = sorted(set(problems))
    if not found:
        return
    count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
    raise InputError(f"{count}\n" + "\n".join(str(problem) for problem in found))
