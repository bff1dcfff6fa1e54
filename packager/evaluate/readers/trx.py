"""TRX, the report of `dotnet test --logger trx` (namespace TeamTest/2010); a test id is class::test name.

A run that was aborted is a failed `<bail out>`, one with fewer results than its counters say a failed `<plan>`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.evaluate.readers.xml_elements import plain_tag, walk_xml
from packager.evaluate.results import Gathering, Results, Status, joined

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_STATUSES = {
    "Passed": Status.PASSED,
    "Warning": Status.PASSED,
    "NotExecuted": Status.SKIPPED,
    "NotRunnable": Status.SKIPPED,
    "Inconclusive": Status.SKIPPED,
    "Error": Status.ERROR,
}
"""What is none of these failed (Failed, Timeout, Aborted, PassedButRunAborted, Disconnected …)."""


@dataclass
class _Run:
    results: list[tuple[str, str, Status]] = field(default_factory=list)
    classes: dict[str, str] = field(default_factory=dict)
    outcome: str = ""
    total: int = 0

    def take(self, element: Element) -> None:
        """Note an element that has just ended."""
        tag = plain_tag(element)
        if tag == "UnitTestResult":
            status = _STATUSES.get(element.get("outcome", ""), Status.FAILED)
            self.results.append((element.get("testId", ""), element.get("testName", ""), status))
        elif tag == "UnitTest":
            methods = [one for one in element if plain_tag(one) == "TestMethod"]
            if methods:
                name = methods[0].get("className", "").partition(",")[0]
                self.classes[element.get("id", "")] = sys.intern(name)
        elif tag == "Counters":
            total = element.get("total", "")
            self.total = int(total) if total.isascii() and total.isdigit() and len(total) < 10 else 0  # noqa: PLR2004
        elif tag == "ResultSummary":
            self.outcome = element.get("outcome", "")


def read_trx(data: bytes) -> Results:
    """Read one report; a document type, an entity or broken XML anywhere means no results at all."""
    run = _Run()
    walk_xml(data, {"TestRun"}, run.take, kept={"UnitTest"})
    gathering = Gathering()
    count = len(run.results)
    has_bad = any(status.is_bad for _, _, status in run.results)
    run.results.reverse()
    while run.results:  # a million of them need not be held twice
        number, name, status = run.results.pop()
        gathering.add(joined((run.classes.get(number), name)) or "<unnamed>", status)
    if not run.outcome or (run.outcome not in {"Completed", "Passed", "Warning"} and not has_bad):
        gathering.add("<bail out>", Status.FAILED)
    if count < run.total:
        gathering.add("<plan>", Status.FAILED)
    if not count and not run.total and run.outcome in {"Completed", "Passed"}:
        return Results(reason="the report names no test")
    return gathering.results(reason="the report names no test")
