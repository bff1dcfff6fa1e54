"""What Python's unittest prints with -v, and Django's test runner with -v 2 (both to standard error: `2>&1`).

A test id is module.Class::method, the same for every Python. A failing subtest fails its test. Without `Ran N tests`
the run is a failed `<unclosed>`; if fewer tests are named than ran, or its last word denies them, a failed `<plan>`.
Whatever a test prints without a line end hides how it ended, and then it failed (use --buffer).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from packager.evaluate.readers.lines import text_lines
from packager.evaluate.results import Gathering, Results, Status, joined

_TEST = re.compile(r"( {2})?(\S.*?) \(([^()\s]+)\)")
_DOTS = " ... "
_ENDS = {
    "ok": Status.PASSED,
    "FAIL": Status.FAILED,
    "ERROR": Status.ERROR,
    "expected failure": Status.PASSED,
    "unexpected success": Status.FAILED,
}
_RULE = "=" * 70
_SUMMED = re.compile(r"(FAIL|ERROR|UNEXPECTED SUCCESS): (\S.*?) \(([^()\s]+)\).*")
_RAN = re.compile(r"Ran ([0-9]{1,9}) tests? in .*")
_CLOSED = re.compile(r"(OK|FAILED|NO TESTS RAN)(?: \(.*\))?")
_WORST = (Status.ERROR, Status.FAILED, Status.SKIPPED, Status.PASSED)


@dataclass
class _Run:
    found: list[tuple[str, list[Status]]] = field(default_factory=list)
    last: dict[str, list[Status]] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)
    waiting: str = ""
    tests: int = 0
    ran: int = 0
    closed: list[str] = field(default_factory=list)
    is_after_rule: bool = False
    is_summary: bool = False

    def take(self, line: str) -> None:
        """Take one line."""
        is_after_rule, self.is_after_rule = self.is_after_rule, line == _RULE
        if self.is_after_rule:
            self.settle()
            self.is_summary = True
        elif (ran := _RAN.fullmatch(line)) is not None:
            self.settle()
            self.ran += int(ran[1])
            self.is_summary = True
        elif self.is_summary and (closed := _CLOSED.fullmatch(line)) is not None:
            self.closed.append(closed[1])
            self.is_summary = False
        elif is_after_rule and (summed := _SUMMED.fullmatch(line)) is not None:
            if (name := _name(summed[2], summed[3])) not in self.bad:
                self._note(name, Status.ERROR if summed[1] == "ERROR" else Status.FAILED)
        elif not self.is_summary:
            self._take_test(line)

    def _take_test(self, line: str) -> None:
        test = _TEST.match(line)
        tail = "" if test is None else f"{line[test.end() :]} "
        if test is not None and "." in test[3] and (tail == " " or tail.startswith((_DOTS, " (", " ["))):
            name, is_part = _name(test[2], test[3]), bool(test[1])
            if not is_part:
                self.settle()
                self.waiting = name
                self.tests += 1
                self.last.pop(name, None)
            if _DOTS in tail:
                self._end(name, (tail.rpartition if is_part else tail.partition)(_DOTS)[2].rstrip(" "), is_part=is_part)
        elif self.waiting:
            self._end(self.waiting, line.rpartition(_DOTS)[2], is_part=False)

    def _end(self, name: str, said: str, *, is_part: bool) -> None:
        status = _end_of(said)
        if status is None or (is_part and not status.is_bad):
            return
        self._note(name, status)
        if not is_part:
            self.waiting = ""

    def _note(self, name: str, status: Status) -> None:
        if name not in self.last:
            self.last[name] = []
            self.found.append((name, self.last[name]))
        self.last[name].append(status)
        if status.is_bad:
            self.bad.add(name)

    def settle(self) -> None:
        """Note a test that never said how it ended."""
        if self.waiting:
            self._note(self.waiting, Status.FAILED)
            self.waiting = ""

    def results(self) -> Results:
        """Return everything that was read."""
        self.settle()
        gathering = Gathering()
        for name, statuses in self.found:
            gathering.add(name, next(status for status in _WORST if status in statuses))
        has_bad = any(status.is_bad for _, statuses in self.found for status in statuses)
        if not self.found:
            return Results(reason="the text names no test (is -v missing?)")
        if not self.closed or self.is_summary:
            gathering.add("<unclosed>", Status.FAILED)
        elif self.tests < self.ran or ("FAILED" in self.closed) != has_bad:
            gathering.add("<plan>", Status.FAILED)
        return gathering.results(reason="")


def _end_of(said: str) -> Status | None:
    if said.startswith(("skipped '", 'skipped "')) or said == "skipped":
        return Status.SKIPPED
    return _ENDS.get(said)


def _name(test: str, path: str) -> str:
    """Return class::method; Python 3.11 puts the method at the end of the path, too."""
    return joined((path.removesuffix(f".{test}"), test))


def read_unittest_text(data: bytes) -> Results:
    """Read the output of one or more runs; other lines are passed over."""
    run = _Run()
    for line in text_lines(data):
        run.take(line)
    return run.results()
