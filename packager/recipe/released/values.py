"""What an import found in one released case: its parts as values, and what it says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Counts = tuple[int, int, int, int]
"""Native FAIL_TO_PASS, MISSING_TO_PASS, both together, PASS_TO_PASS."""


@dataclass(frozen=True)
class ImportedTarget:
    """A target of an imported case: the counts of its frozen lists, and the command that a rule found, if any."""

    name: str
    native_fail_to_pass: int
    missing_to_pass: int
    fail_to_pass: int
    pass_to_pass: int
    command: str = ""


@dataclass(frozen=True)
class ImportedCase:
    """What became of one case: `complete`, `incomplete` (a person must write what `todo` lists) or `refused`."""

    case: str
    task: str
    state: str
    recipe: str
    targets: tuple[ImportedTarget, ...] = ()
    contexts: int = 0
    aliases: tuple[str, ...] = ()
    registries: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Imported:
    """What became of all cases that were asked for."""

    cases: tuple[ImportedCase, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is left for a person to write."""
        return all(case.state == "complete" for case in self.cases)


@dataclass(frozen=True)
class Draft:
    """A recipe as plain values, the files that go beside it, and what is known about it."""

    plain: dict[str, Any]
    files: dict[str, bytes]
    origin: dict[str, dict[str, Any]]
    report: ImportedCase


class Findings:
    """What is gathered while a case is read: what a person must do, what was met on the way, which registries."""

    def __init__(self) -> None:
        self.todo: list[str] = []
        self.notes: list[str] = []
        self.registries: set[str] = set()

    def need(self, words: str) -> None:
        """Remember something that a person must write."""
        if words not in self.todo:
            self.todo.append(words)

    def note(self, words: str) -> None:
        """Remember something that was met and survived."""
        if words not in self.notes:
            self.notes.append(words)
