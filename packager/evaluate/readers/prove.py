"""What `prove -v` prints, several files of TAP one after another (no -j); a test id is file::description.

Descriptions are those of `tap`, with its `<plan>`, `<bail out>` and `<unclosed>` for each file. A file that prove calls
failed without a failing test is a failed `<plan>`; output that ends without a result of the whole is `<unclosed>`.
"""

from __future__ import annotations

import re

from packager.evaluate.readers.lines import text_lines
from packager.evaluate.readers.tap import TapReader
from packager.evaluate.results import Gathering, Results, Status

_FILE = re.compile(r"(?!ok|not ok|#|\s)(.+?) \.{2,}(?: (skipped: .*|skipped)?)?")
_END = re.compile(
    r"(ok|Dubious, test returned .*|Failed [0-9]+/[0-9]+ subtests.*|All [0-9]+ subtests passed.*|No subtests run.*)"
)
_WHOLE = re.compile(r"Result: (?:PASS|FAIL|NOTESTS)|Bailout called\..*|FAILED--.*")


class _File:
    def __init__(self, name: str) -> None:
        self.name = name
        self._tap = TapReader()
        self._has_lines = False
        self._verdict = ""

    def take(self, line: str) -> bool:
        """Take one line of the file's output; say whether it was prove's own verdict."""
        if _END.fullmatch(line):
            self._verdict = line
            return True
        self._has_lines = True
        self._tap.take(line)
        return False

    def close(self, gathering: Gathering) -> None:
        """Hand on what the file reported."""
        results = self._tap.results()
        for name, status in results.statuses.items():
            gathering.add(f"{self.name}::{name}", status)
        has_bad = any(status.is_bad for status in results.statuses.values())
        if not self._verdict:
            gathering.add(f"{self.name}::<unclosed>", Status.FAILED)
        elif not self._verdict.startswith(("ok", "All")) and not has_bad:
            gathering.add(f"{self.name}::<plan>", Status.FAILED)


def read_prove(data: bytes) -> Results:
    """Read the output of one call of prove; what stands outside of its files is passed over."""
    gathering = Gathering()
    file: _File | None = None
    is_seen = is_whole = False
    for line in text_lines(data):
        if (begun := _FILE.fullmatch(line)) is not None:
            if file is not None:
                file.close(gathering)
            is_seen = True
            file = None if begun[2] else _File(begun[1])
            if begun[2]:
                gathering.add(f"{begun[1]}::<file>", Status.SKIPPED)
        elif file is not None and file.take(line):
            file.close(gathering)
            file = None
        is_whole |= _WHOLE.fullmatch(line) is not None
    if file is not None:
        file.close(gathering)
    if is_seen and not is_whole:
        gathering.add("<unclosed>", Status.FAILED)
    return gathering.results(reason="the text names no file of tests")
