"""The text of `cargo test 2>&1`; a test id is binary/source::test, of documentation crate/<doc>::file - item.

Cargo names the binary on standard error alone: without it an id is the test's name, and binaries are not told apart.
The hash of a binary and the lines of documentation tests are left out. A binary whose summary is missing or counts
other tests than it names is a failed `<plan>`, what does not compile a failed `<build>`. Tests must not print.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from packager.evaluate.readers.lines import text_lines
from packager.evaluate.results import Gathering, Results, Status, joined

_ANNOUNCED = re.compile(r"\s+(Running|Doc-tests) (\S.*)")
_HASH = re.compile(r"-[0-9a-f]{16}(?:\.exe)?$|\.exe$")
_COUNT = re.compile(r"running ([0-9]{1,9}) tests?")
_TEST = re.compile(r"test (.+?) \.\.\. (.*)")
_SUMMARY = re.compile(
    r"test result: (ok|FAILED)\. ([0-9]{1,9}) passed; ([0-9]{1,9}) failed; ([0-9]{1,9}) ignored; "
    r"([0-9]{1,9}) measured; [0-9]+ filtered out(?:; finished in .*)?"
)
_BUILD_FAILED = re.compile(r"error(?:\[E[0-9]+\])?: could not compile .*|error: Unrecognized option.*")
_LINE = re.compile(r" \(line [0-9]+\)")
_ENDS = {"ok": Status.PASSED, "FAILED": Status.FAILED}


def running_of(line: str) -> str | None:
    """Return the binary that a line of cargo announces, as binary/source or crate/<doc>."""
    if (found := _ANNOUNCED.fullmatch(line)) is None:
        return None
    said = found[2].strip("` ").removeprefix("unittests ")
    if found[1] == "Doc-tests":
        return f"{said}/<doc>"
    source, opened, path = said.partition(" (")
    program = path.removesuffix(")") if opened else source.partition(" ")[0]
    name = _HASH.sub("", program.replace("\\", "/").rpartition("/")[2])
    return f"{name}/{source}" if opened else name


def without_line(test: str) -> str:
    """Return the name of a test without the line that documentation tests carry: it moves with every patch."""
    return _LINE.sub("", test.removesuffix(" - should panic"))


@dataclass
class _Binary:
    name: str = ""
    found: list[tuple[str, Status]] = field(default_factory=list)
    waiting: str = ""
    wanted: int | None = None
    summary: str = ""

    def take(self, line: str) -> None:
        if (count := _COUNT.fullmatch(line)) is not None:
            self.wanted = int(count[1])
        elif (test := _TEST.fullmatch(line)) is not None:
            self.settle()
            self.waiting = test[1]
            self.end(test[2])
        elif line in _ENDS:
            self.end(line)
        elif (summary := _SUMMARY.fullmatch(line)) is not None:
            self.settle()
            counts = sum(int(summary[number]) for number in (2, 3, 4, 5))
            self.summary = summary[1] if counts == len(self.found) == self.wanted else "other counts"

    def end(self, said: str) -> None:
        """Note how the test that waits ended, if that is what was said."""
        status = Status.SKIPPED if said == "ignored" or said.startswith("ignored, ") else _ENDS.get(said)
        if said.startswith("bench:"):
            status = Status.PASSED
        if self.waiting and status is not None:
            self.found.append((self.waiting, status))
            self.waiting = ""

    def settle(self) -> None:
        if self.waiting:
            self.found.append((self.waiting, Status.FAILED))
            self.waiting = ""

    def close(self, gathering: Gathering) -> None:
        """Hand on what was found."""
        self.settle()
        for test, status in self.found:
            gathering.add(joined((self.name, without_line(test))), status)
        has_bad = any(status.is_bad for _, status in self.found)
        is_begun = self.wanted is not None or bool(self.found)
        if (is_begun or self.name) and self.summary != ("FAILED" if has_bad else "ok"):
            gathering.add(joined((self.name, "<plan>")), Status.FAILED)


def read_cargo_text(data: bytes) -> Results:
    """Read what cargo and its test binaries print; other lines are passed over."""
    gathering = Gathering()
    binary = _Binary()
    is_unbuilt = False
    for line in text_lines(data):
        name = running_of(line)
        if name is not None or (_COUNT.fullmatch(line) and binary.wanted is not None):
            binary.close(gathering)
            binary = _Binary(name if name is not None else binary.name)
        if name is None:
            is_unbuilt |= _BUILD_FAILED.fullmatch(line) is not None
            binary.take(line)
    binary.close(gathering)
    if is_unbuilt:
        gathering.add("<build>", Status.FAILED)
    return gathering.results(reason="the text names no test")
