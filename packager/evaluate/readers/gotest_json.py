"""The event stream of `go test -json` (cmd/internal/test2json); a test id is package::Test/subtest.

A package that does not build is `package::<build>`; one that fails without a failing test, or whose end is not told,
is `package::<package>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from packager.evaluate.readers.lines import parse_object, text_lines, text_of
from packager.evaluate.results import Gathering, Results, Status

_ENDS = {"pass": Status.PASSED, "fail": Status.FAILED, "skip": Status.SKIPPED}
_BUILD_FAILED = re.compile(r"FAIL\t(\S+) \[(?:build|setup) failed\]", re.MULTILINE)


@dataclass
class _Package:
    running: dict[str, None] = field(default_factory=dict)
    has_bad_test: bool = False
    is_failed: bool = False
    is_ended: bool = False
    is_begun: bool = False
    is_unbuilt: bool = False

    @property
    def is_cut_off(self) -> bool:
        return self.is_begun and not self.is_ended


def read_gotest_json(data: bytes) -> Results:
    """Read one stream; lines that are no events are passed over, and a test that began but never ended failed."""
    gathering = Gathering()
    packages: dict[str, _Package] = {}
    builds: set[str] = set()
    for line in text_lines(data):
        event = _parse(line)
        if event is None:
            for match in _BUILD_FAILED.finditer(line):
                packages.setdefault(match[1], _Package()).is_unbuilt = True
        elif event["Action"] == "build-fail":
            builds.add(text_of(event, "ImportPath").partition(" ")[0])
        elif package := text_of(event, "Package"):
            _take(event, package, packages.setdefault(package, _Package()), gathering)
    for name in builds if not any(package.is_unbuilt for package in packages.values()) else ():
        packages.setdefault(name, _Package()).is_unbuilt = True
    _finish(packages, gathering)
    return gathering.results(reason="the stream holds no event of a test")


def _parse(line: str) -> dict[str, Any] | None:
    event = parse_object(line)
    return event if event is not None and isinstance(event.get("Action"), str) else None


def _take(event: dict[str, Any], name: str, package: _Package, gathering: Gathering) -> None:
    action, test = event["Action"], text_of(event, "Test")
    package.is_begun |= bool(test)
    package.is_ended |= action in _ENDS and not test
    if action == "run" and test:
        if test in package.running:
            gathering.add(f"{name}::{test}", Status.FAILED)
        package.running[test] = None
    elif action in _ENDS and test:
        package.running.pop(test, None)
        package.has_bad_test |= _ENDS[action].is_bad
        gathering.add(f"{name}::{test}", _ENDS[action])
    elif action == "fail":
        package.is_failed = True
        package.is_unbuilt |= bool(text_of(event, "FailedBuild"))
    elif action == "output" and not test:
        package.is_unbuilt |= any(match[1] == name for match in _BUILD_FAILED.finditer(text_of(event, "Output")))


def _finish(packages: dict[str, _Package], gathering: Gathering) -> None:
    for name, package in packages.items():
        for test in package.running:
            gathering.add(f"{name}::{test}", Status.FAILED)
        if package.is_unbuilt:
            gathering.add(f"{name}::<build>", Status.FAILED)
        elif package.is_cut_off or (package.is_failed and not package.has_bad_test and not package.running):
            gathering.add(f"{name}::<package>", Status.FAILED)
