"""What a run of the tests said: a status for each test id."""

from __future__ import annotations

import enum
import re
from bisect import bisect_left
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SURROGATES = re.compile("[\ud800-\udfff]")
_COPY = re.compile(r"(.+)::#[0-9]+", re.DOTALL)
_BROKEN = re.compile(r"(?:(.+)( > |::))?<(?:plan|bail out|unclosed|build|package)>(?:::#[0-9]+)?", re.DOTALL)
_MOST_RESULTS = 1_000_000


class Status(enum.Enum):
    """How one test ended."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"

    @property
    def is_bad(self) -> bool:
        """Whether the test ran and did not pass."""
        return self in {Status.FAILED, Status.ERROR}


@dataclass(frozen=True)
class Results:
    """Status by test id, sorted; `reason` says why there is none when there is none.

    A test id that a report names again gets `::#2`, `::#3` … so that no result hides another.
    """

    statuses: Mapping[str, Status] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "statuses", MappingProxyType(dict(sorted(self.statuses.items()))))
        if not self.statuses and not self.reason:
            object.__setattr__(self, "reason", "no tests were reported")

    def judged(self) -> Mapping[str, Status]:
        """Return the statuses that grading uses: a test counts as passed only if its `::#2` … passed, too.

        Else a patch could report a test of the same name first and so hide the real one.
        """
        judged = dict(self.statuses)
        for name, status in self.statuses.items():
            original = original_of(name)
            if original in judged and status is not Status.PASSED and not judged[original].is_bad:
                judged[original] = status
        return judged

    def sound(self) -> Mapping[str, Status]:
        """Return `judged` without trust in what broke off: its tests count as failed.

        A `<plan>`, `<bail out>` or `<unclosed>` that failed spoils its stream, a `<build>` or `<package>` its package.
        """
        judged = dict(self.judged())
        matches = [_BROKEN.fullmatch(name) for name, status in judged.items() if status.is_bad]
        broken = [(match[1], match[2]) for match in matches if match is not None]
        judged.update((name, Status.FAILED) for name, _ in broken if name in judged)
        names, last = list(judged), None  # sorted, so that what begins alike stands together
        for inside in sorted({"" if name is None else f"{name}{separator}" for name, separator in broken}):
            if last is not None and inside.startswith(last):
                continue
            last = inside
            number = bisect_left(names, inside)
            while number < len(names) and names[number].startswith(inside):
                judged[names[number]] = Status.FAILED
                number += 1
        return judged


def original_of(name: str) -> str | None:
    """Return the test id of which `name` is a further report (`::#2` …), or None."""
    match = _COPY.fullmatch(name)
    return None if match is None else match[1]


class Gathering:
    """Takes results one after another and numbers what comes again."""

    def __init__(self) -> None:
        self._statuses: dict[str, Status] = {}
        self._counts: dict[str, int] = {}

    def add(self, name: str, status: Status) -> None:
        """Note one result; code points that cannot be written as UTF-8 become U+FFFD. Too many are an InputError."""
        if len(self._statuses) == _MOST_RESULTS:
            raise InputError(f"expected at most {_MOST_RESULTS} results in a report")
        name = _SURROGATES.sub("\ufffd", name)
        if name not in self._statuses:
            self._statuses[name] = status
            return
        number = self._counts.get(name, 1)
        while True:
            number += 1
            numbered = f"{name}::#{number}"
            if numbered not in self._statuses:
                break
        self._counts[name] = number
        self._statuses[numbered] = status

    def results(self, *, reason: str) -> Results:
        """Return what was gathered; `reason` is kept only if that is nothing."""
        return Results(self._statuses) if self._statuses else Results(reason=reason)


def joined(parts: Iterable[str | None]) -> str:
    """Return a test id of those parts that are there."""
    return "::".join(part for part in parts if part)


class End(enum.Enum):
    """How far the evaluation of one target came."""

    FINISHED = "finished"
    NO_PATCH = "no patch"
    PATCH_REFUSED = "patch refused"
    TIMEOUT = "timeout"
    INFRA = "infra"


@dataclass(frozen=True)
class TargetRun:
    """What happened to one target; `reason` explains every end but FINISHED.

    `distrust` says why results that would resolve the target do not.
    """

    end: End = End.FINISHED
    results: Results = field(default_factory=Results)
    reason: str = ""
    distrust: str = ""
