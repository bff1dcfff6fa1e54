"""The part of the Dockerfile language that templates use; anything else is refused by name and line."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP = re.compile(r"#\s*step:\s*(\S+)\s*")
_KINDS = ("FROM", "ADD", "COPY", "RUN", "ENV", "WORKDIR", "CMD", "ENTRYPOINT", "LABEL")


@dataclass(frozen=True)
class Instruction:
    """One instruction: kind in capitals, arguments as written, line (1-based), and its step's name if it has one."""

    kind: str
    arguments: str
    line: int
    step: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments split as a shell would."""
        return tuple(shlex.split(self.arguments))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The arguments of ENV and LABEL as (name, value)."""
        split = [word.partition("=") for word in self.words]
        if not split or any(not equals for _, equals, _ in split):
            raise InputError(f"expected NAME=VALUE, found {self.arguments[:80]!r}", where=f"Dockerfile:{self.line}")
        return tuple((name, value) for name, _, value in split)

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments of CMD and ENTRYPOINT, which must be a JSON list."""
        try:
            value = json.loads(self.arguments)
        except ValueError as error:
            raise InputError(f"{self.kind} takes a JSON list of strings", where=f"Dockerfile:{self.line}") from error
        return tuple(str(word) for word in value)


def parse_dockerfile(text: str) -> tuple[Instruction, ...]:
    """Return the instructions of a Dockerfile in order, or raise InputError with the line."""
    found: list[Instruction] = []
    step = ""
    for line, statement in _statements(text):
        named = _STEP.fullmatch(statement)
        if named is not None:
            step = named.group(1)
            continue
        if statement.startswith("#"):
            continue
        kind, _, arguments = statement.partition(" ")
        if kind.upper() not in _KINDS:
            hint = f"templates may use {', '.join(_KINDS)}"
            raise InputError(f"instruction {kind!r} is not supported", where=f"Dockerfile:{line}", hint=hint)
        found.append(Instruction(kind.upper(), arguments.strip(), line, step))
        step = ""
    if not found or found[0].kind != "FROM":
        raise InputError("the first instruction must be FROM", where="Dockerfile:1")
    return tuple(found)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, statement) with continuation lines joined and empty lines left out."""
    pending: list[str] = []
    start = 0
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if not pending and not stripped:
            continue
        start = start if pending else number
        pending.append(stripped.removesuffix("\\").rstrip())
        if stripped.endswith("\\") and not stripped.startswith("#"):
            continue
        yield start, " ".join(part for part in pending if part)
        pending = []
    if pending:
        yield start, " ".join(pending)
