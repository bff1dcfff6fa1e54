"""TAP 12 to 14 (testanything.org); a test id is the description, of a subtest `parent > child`.

Bytes that are not UTF-8 become U+FFFD. A test without description is `<3>`, by its number. What the producer broke
fails under a name of its own: `<plan>` (none, more than one, or another number of tests), `<bail out>`, `<unclosed>`
(the stream ends inside a subtest or a block of YAML, which may have swallowed results).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from packager.evaluate.readers.lines import text_lines
from packager.evaluate.results import Gathering, Results, Status

_INDENT = 4
_MAX_DEPTH = 50
_POINT = re.compile(r"(not )?ok(?:\s+([0-9]{1,9}))?(?:\s+(.*))?", re.DOTALL | re.ASCII)
_DIRECTIVE = re.compile(r"(?:^|\s)(?<!\\)#\s*(skip\S*|todo)\b.*", re.IGNORECASE | re.DOTALL)
_PLAN = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})(?:\s*#.*)?", re.ASCII)
_ESCAPED = re.compile(r"\\([\\#])")
_UNCLOSED = "<unclosed>"


@dataclass
class _Level:
    """One stream: the outermost, or that of a subtest."""

    found: list[tuple[str, Status]] = field(default_factory=list)
    points: int = 0
    plans: list[int] = field(default_factory=list)

    def all_found(self) -> list[tuple[str, Status]]:
        """Return the results, with a failed plan if the plan does not hold."""
        holds = self.plans == [self.points]
        return self.found if holds else [*self.found, ("<plan>", Status.FAILED)]


def read_tap(data: bytes) -> Results:
    """Read one stream; lines that are not TAP are passed over."""
    reader = TapReader()
    for line in text_lines(data):
        if reader.take(line):
            break
    return reader.results()


class TapReader:
    """Reads one stream, line by line."""

    def __init__(self) -> None:
        self._levels = [_Level()]
        self._block: str | None = None
        self._bailed = False

    def take(self, line: str) -> bool:
        """Take one line; say whether the stream ends with it."""
        blanks = len(line) - len(line.lstrip(" "))
        text = line.strip()
        if self._block is not None:
            if text == "..." and line.startswith(self._block):
                self._block = None
        elif text == "---" and blanks % _INDENT:
            self._block = " " * blanks
        elif text.startswith("Bail out!"):
            self._bailed = True
        elif blanks % _INDENT == 0 and blanks // _INDENT < _MAX_DEPTH:
            self._take_level(text, blanks // _INDENT)
        return self._bailed

    def _take_level(self, text: str, depth: int) -> None:
        if (point := _POINT.fullmatch(text)) is not None:
            name, status = _read_point(point, self._level(depth).points + 1)
            self._close(depth, name)
            level = self._level(depth)
            level.points += 1
            level.found.append((name, status))
        elif (plan := _PLAN.fullmatch(text)) is not None:
            level = self._level(depth)
            level.plans.append(int(plan[2]) - int(plan[1]) + 1)

    def _level(self, depth: int) -> _Level:
        while len(self._levels) <= depth:
            self._levels.append(_Level())
        return self._levels[depth]

    def _close(self, depth: int, name: str) -> None:
        """Hand the results of the subtest that just ended to the level above it, under its name."""
        while len(self._levels) > depth + 1:
            inner = self._levels.pop().all_found()
            parent = name if len(self._levels) == depth + 1 else _UNCLOSED
            self._levels[-1].found.extend((f"{parent} > {child}", status) for child, status in inner)

    def results(self) -> Results:
        """Return everything that was read."""
        is_unclosed = self._block is not None or len(self._levels) > 1
        self._close(0, _UNCLOSED)
        outermost = self._levels[0]
        skips_all = outermost.plans == [0] and not outermost.found
        if skips_all and not self._bailed:
            return Results(reason="the plan says that nothing runs")
        if not outermost.found and not outermost.plans and not self._bailed:
            return Results(reason="the stream holds no line of TAP")
        gathering = Gathering()
        for name, status in outermost.all_found():
            gathering.add(name, status)
        if self._bailed:
            gathering.add("<bail out>", Status.FAILED)
        elif is_unclosed:
            gathering.add(_UNCLOSED, Status.FAILED)
        return gathering.results(reason="")


def _read_point(point: re.Match[str], number: int) -> tuple[str, Status]:
    rest = point[3] or ""
    directive = _DIRECTIVE.search(rest)
    status = Status.FAILED if point[1] else Status.PASSED
    if directive is not None:
        is_skip = directive[1].lower().startswith("skip")
        status = Status.SKIPPED if is_skip or point[1] else status
        rest = rest[: directive.start()]
    name = re.sub(r"^-\s*", "", rest.strip())
    return _ESCAPED.sub(r"\1", name).strip() or f"<{point[2] or number}>", status
