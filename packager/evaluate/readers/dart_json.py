"""The events of `dart test --reporter json` and `flutter test --machine`, one object a line.

Their format: package:test, json_reporter.md. A test id is suite path::test name; paths are those in the checkout.
Hidden events that succeed (loading, tearDownAll) are no tests. A test that never ended failed; a run that did not say
that it is done is a failed `<unclosed>`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from packager.evaluate.readers.lines import in_checkout, json_objects, text_of
from packager.evaluate.results import Gathering, Results, Status, joined

_ENDS = {"success": Status.PASSED, "failure": Status.FAILED, "error": Status.ERROR}
_LOADING = "loading "


@dataclass
class _Run:
    suites: dict[Any, str] = field(default_factory=dict)
    running: dict[Any, str] = field(default_factory=dict)
    is_begun: bool = False
    is_done: bool = False

    def take(self, event: dict[str, Any], gathering: Gathering) -> None:
        """Take one event."""
        kind = event.get("type")
        if kind == "suite" and isinstance(suite := event.get("suite"), dict):
            self.suites[_number(suite, "id")] = in_checkout(text_of(suite, "path"))
        elif kind == "testStart" and isinstance(test := event.get("test"), dict):
            name = text_of(test, "name")
            if name.startswith(_LOADING):
                name = _LOADING + in_checkout(name.removeprefix(_LOADING))
            self.running[_number(test, "id")] = joined((self.suites.get(_number(test, "suiteID")), name)) or "<unnamed>"
        elif kind == "testDone" and _number(event, "testID") in self.running:
            self.end(event, gathering)
        elif kind == "done":
            self.is_done = isinstance(event.get("success"), bool)
        self.is_begun |= kind in {"start", "suite", "testStart"}

    def end(self, event: dict[str, Any], gathering: Gathering) -> None:
        """Note how a test ended."""
        name = self.running.pop(_number(event, "testID"))
        status = _ENDS.get(text_of(event, "result"), Status.ERROR)
        if event.get("skipped") is True and not status.is_bad:
            status = Status.SKIPPED
        if event.get("hidden") is not True or status.is_bad:
            gathering.add(name, status)


def _number(value: dict[str, Any], key: str) -> int:
    found = value.get(key)
    return found if isinstance(found, int) else -1


def read_dart_json(data: bytes) -> Results:
    """Read one stream; lines that are no events are passed over."""
    gathering = Gathering()
    run = _Run()
    for event in json_objects(data):
        run.take(event, gathering)
    for name in run.running.values():
        gathering.add(name, Status.FAILED)
    if run.is_begun and not run.is_done:
        gathering.add("<unclosed>", Status.FAILED)
    return gathering.results(reason="the stream holds no event of a test")
