"""The event stream of Rust's libtest, also as nextest writes it (--message-format libtest-json); one object a line.

A test id of nextest is crate::binary::test; of `cargo test 2>&1` it is that of `cargo_text`: binary/source::test.
A test that never ended failed; a suite that never ended, or counts other tests than it names, is a failed `<plan>`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from packager.evaluate.readers.cargo_text import running_of, without_line
from packager.evaluate.readers.lines import parse_object, text_lines, text_of
from packager.evaluate.results import Gathering, Results, Status, joined

_ENDS = {"ok": Status.PASSED, "failed": Status.FAILED, "ignored": Status.SKIPPED, "timeout": Status.FAILED}
_COUNTS = ("passed", "failed", "ignored", "measured")


@dataclass
class _Suite:
    binary: str = ""
    wanted: Any = None
    ended: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    is_open: bool = False
    name: str = ""

    def plan(self, found: dict[str, Any]) -> bool:
        """Say whether a suite's last event fits what was seen."""
        counts = [found.get(key, 0) for key in _COUNTS]
        return (
            all(isinstance(count, int) for count in counts) and sum(counts) == sum(self.ended.values()) == self.wanted
        )


def read_libtest_json(data: bytes) -> Results:
    """Read one stream; lines that are no events are passed over, but for those that say which binary runs."""
    gathering = Gathering()
    suite = _Suite()
    for line in text_lines(data):
        event = parse_object(line)
        if event is None:
            if (binary := running_of(line)) is not None:
                _close(suite, gathering)
                suite = _Suite(binary)
        elif event.get("type") == "suite":
            suite = _take_suite(event, suite, gathering)
        elif event.get("type") == "test":
            _take_test(event, suite, gathering)
    _close(suite, gathering)
    return gathering.results(reason="the stream holds no event of a test")


def _take_suite(event: dict[str, Any], suite: _Suite, gathering: Gathering) -> _Suite:
    if event.get("event") == "started":
        _close(suite, gathering)
        said = event.get("nextest")
        names = (text_of(said, "crate"), text_of(said, "test_binary")) if isinstance(said, dict) else (suite.binary,)
        return _Suite(suite.binary, wanted=event.get("test_count"), is_open=True, name=joined(names))
    suite.is_open &= not suite.plan(event)
    _close(suite, gathering)
    return _Suite(suite.binary)


def _take_test(event: dict[str, Any], suite: _Suite, gathering: Gathering) -> None:
    name, said = text_of(event, "name"), text_of(event, "event")
    if name and said == "started":
        suite.running[name] = suite.running.get(name, 0) + 1
    elif name and said in _ENDS:
        if suite.running.get(name, 0) > 0:
            suite.running[name] -= 1
        suite.ended[name] = suite.ended.get(name, 0) + 1
        gathering.add(_name(suite, name), _ENDS[said])


def _name(suite: _Suite, name: str) -> str:
    crate, dollar, test = ("", "", "") if suite.binary else name.partition("$")
    return joined((crate, test)) if dollar else joined((suite.binary, without_line(name)))


def _close(suite: _Suite, gathering: Gathering) -> None:
    for name, count in suite.running.items():
        for _ in range(count):
            gathering.add(_name(suite, name), Status.FAILED)
    if suite.is_open:
        gathering.add(joined((suite.name, "<plan>")), Status.FAILED)
