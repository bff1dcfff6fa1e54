"""Writes reports as the real test programs do, from names and statuses; each also says which ids a reader must find."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Ran(NamedTuple):
    """One test: its name and `passed`, `failed` or `skipped`."""

    name: str
    status: str = "passed"


class Around(NamedTuple):
    """What else is in a report: the tests' output, and how long each took."""

    output: str = ""
    seconds: float = 0.25


@dataclass(frozen=True)
class Dialect:
    """A test program: the kind of its report, what it writes, and the id of a name as it spells it."""

    kind: str
    text: Callable[[Sequence[Ran], Around], str]
    before: str
    is_lines: bool = False
    holds_newlines: bool = True

    def write(self, tests: Sequence[Ran], around: Around = Around()) -> bytes:  # noqa: B008 - frozen
        """Return a report; a lone surrogate in a name is the byte that it stands for."""
        shown = tests if self.holds_newlines else [Ran(one.name.replace("\n", " "), one.status) for one in tests]
        return self.text(shown, around).encode("utf-8", "surrogateescape")

    def id_of(self, name: str) -> str:
        """Return the id that the reader must give."""
        return self.before + (name if self.holds_newlines else name.replace("\n", " "))


def _xml(text: str) -> str:
    return escape(text)


def _attribute(text: str) -> str:
    return quoteattr(text, {"\n": "&#10;"})


_FAILURE = {"failed": '<failure message="no" type="E">trace &lt;x&gt;</failure>', "skipped": "<skipped/>", "passed": ""}


def _junit(**fixed: str) -> Callable[[Sequence[Ran], Around], str]:
    """Return a writer of JUnit XML whose testcases carry these attributes, name and time."""
    listed = "".join(f" {key}={_attribute(value)}" for key, value in fixed.items())

    def write(tests: Sequence[Ran], around: Around) -> str:
        out = f"<system-out>{_xml(around.output)}</system-out>" if around.output else ""
        cases = "\n".join(
            f'    <testcase name={_attribute(one.name)}{listed} time="{around.seconds}">{_FAILURE[one.status]}{out}</testcase>'
            for one in tests
        )
        bad = sum(one.status == "failed" for one in tests)
        head = f'<testsuite name="s" tests="{len(tests)}" failures="{bad}" errors="0" time="{around.seconds}">'
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n  {head}\n{cases}\n  </testsuite>\n</testsuites>\n'
        )

    return write


def _jest_junit(tests: Sequence[Ran], around: Around) -> str:
    return _junit(classname="outer")(tests, around)


def _gtest(tests: Sequence[Ran], around: Around) -> str:
    return _junit(file="/src/t.cc", line="3", status="run", result="completed", classname="Gauge")(tests, around)


_CTEST = {
    "passed": ("run", ""),
    "failed": ("fail", '<failure message=""/>'),
    "skipped": ("notrun", '<skipped message="x"/>'),
}


def _ctest(tests: Sequence[Ran], around: Around) -> str:
    cases = "".join(
        f'\t<testcase name={_attribute(one.name)} classname="c" time="{around.seconds}" status="{_CTEST[one.status][0]}">'
        f"{_CTEST[one.status][1]}<system-out>{_xml(around.output)}</system-out></testcase>\n"
        for one in tests
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="Linux" tests="{len(tests)}">\n{cases}</testsuite>\n'
    )


_TRX = {"passed": "Passed", "failed": "Failed", "skipped": "NotExecuted"}
_TRX_HEAD = '<?xml version="1.0"?>\n<TestRun xmlns="http://microsoft.com/schemas/VisualStudio/TeamTest/2010"><Results>'


def _trx(tests: Sequence[Ran], around: Around) -> str:
    results = "\n".join(
        f'<UnitTestResult testId="{number}" testName={_attribute(one.name)} outcome="{_TRX[one.status]}" '
        f'duration="00:00:0{around.seconds}"><Output><StdOut>{_xml(around.output)}</StdOut></Output></UnitTestResult>'
        for number, one in enumerate(tests)
    )
    definitions = "\n".join(
        f'<UnitTest id="{number}" name="x"><TestMethod className="N.C, A, Version=1.0" name="m"/></UnitTest>'
        for number in range(len(tests))
    )
    outcome = "Failed" if any(one.status == "failed" for one in tests) else "Completed"
    summary = f'<ResultSummary outcome="{outcome}"><Counters total="{len(tests)}"/></ResultSummary></TestRun>\n'
    return f"{_TRX_HEAD}{results}</Results><TestDefinitions>{definitions}</TestDefinitions>{summary}"


_JEST = {"passed": "passed", "failed": "failed", "skipped": "pending"}


def _jest(tests: Sequence[Ran], around: Around) -> str:
    found = [
        {
            "ancestorTitles": ["outer"],
            "duration": around.seconds,
            "failureMessages": [around.output],
            "fullName": f"outer {one.name}",
            "status": _JEST[one.status],
            "title": one.name,
        }
        for one in tests
    ]
    bad = any(one.status == "failed" for one in tests)
    file = {"assertionResults": found, "message": around.output, "name": "/workspace/t/a.test.js"}
    file["status"] = "failed" if bad else "passed"
    return (
        json.dumps({"numTotalTests": len(tests), "success": not bad, "testResults": [file]}, ensure_ascii=False) + "\n"
    )


def _objects(events: Sequence[dict[str, object]]) -> str:
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)


_GO = {"passed": "pass", "failed": "fail", "skipped": "skip"}


def _go(tests: Sequence[Ran], around: Around) -> str:
    events: list[dict[str, object]] = [{"Action": "start", "Package": "e.org/g"}]
    for one in tests:
        about = {"Package": "e.org/g", "Test": one.name}
        events.append({"Action": "run", **about})
        events.append({"Action": "output", **about, "Output": around.output + "\n"})
        events.append({"Action": _GO[one.status], **about, "Elapsed": around.seconds})
    bad = any(one.status == "failed" for one in tests)
    events.append({"Action": "fail" if bad else "pass", "Package": "e.org/g", "Elapsed": around.seconds})
    return _objects(events)


_RUST = {"passed": "ok", "failed": "failed", "skipped": "ignored"}


def _counts(tests: Sequence[Ran]) -> tuple[int, int, int]:
    passed, failed, skipped = (sum(one.status == status for one in tests) for status in ("passed", "failed", "skipped"))
    return passed, failed, skipped


def _libtest(tests: Sequence[Ran], around: Around, *, names: str = "") -> str:
    start: dict[str, object] = {"type": "suite", "event": "started", "test_count": len(tests)}
    if names:
        start["nextest"] = {"crate": "gauge", "test_binary": "it", "kind": "test"}
    events = [start]
    for one in tests:
        events.append({"type": "test", "event": "started", "name": names + one.name})
        ended = {"type": "test", "event": _RUST[one.status], "name": names + one.name, "exec_time": around.seconds}
        events.append(ended | ({"stdout": around.output} if around.output else {}))
    passed, failed, ignored = _counts(tests)
    last: dict[str, object] = {
        "type": "suite",
        "event": "failed" if failed else "ok",
        "passed": passed,
        "failed": failed,
    }
    return _objects(
        [*events, last | {"ignored": ignored, "measured": 0, "filtered_out": 0, "exec_time": around.seconds}]
    )


def _cargo_libtest(tests: Sequence[Ran], around: Around) -> str:
    return "     Running tests/it.rs (target/debug/deps/it-0123456789abcdef)\n" + _libtest(tests, around)


def _nextest(tests: Sequence[Ran], around: Around) -> str:
    return _libtest(tests, around, names="gauge::it$")


_CARGO = {"passed": "ok", "failed": "FAILED", "skipped": "ignored"}


def _cargo(tests: Sequence[Ran], around: Around) -> str:
    passed, failed, ignored = _counts(tests)
    lines = "".join(f"test {one.name} ... {_CARGO[one.status]}\n" for one in tests)
    lines += f"\nfailures:\n\n---- x stdout ----\n{around.output}\n" if failed else ""
    word = "FAILED" if failed else "ok"
    last = f"test result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out"
    head = f"   Compiling it v0.1.0\n    Finished `test` profile in {around.seconds}s\n     Running tests/it.rs (target/debug/deps/it-0123456789abcdef)\n\n"
    return f"{head}running {len(tests)} tests\n{lines}\n{last}\n\n"


_TAP = {"passed": ("ok", ""), "failed": ("not ok", ""), "skipped": ("ok", " # SKIP")}


def _tap(tests: Sequence[Ran], around: Around) -> str:
    lines = "".join(
        f"{_TAP[one.status][0]} {number} - {one.name.translate(_ESCAPES)}{_TAP[one.status][1]}\n"
        f"  ---\n  duration_ms: {around.seconds}\n  ...\n"
        for number, one in enumerate(tests, 1)
    )
    return f"TAP version 13\n{lines}# {around.output}\n1..{len(tests)}\n"


_ESCAPES = str.maketrans({"\\": "\\\\", "#": "\\#"})


def _prove(tests: Sequence[Ran], around: Around) -> str:
    inner = "".join(
        f"{_TAP[one.status][0]} {number} - {one.name.translate(_ESCAPES)}{_TAP[one.status][1]}\n"
        for number, one in enumerate(tests, 1)
    )
    bad = sum(one.status == "failed" for one in tests)
    verdict = f"Failed {bad}/{len(tests)} subtests " if bad else "ok"
    whole = f"Files=1, Tests={len(tests)}, {around.seconds} wallclock secs\nResult: {'FAIL' if bad else 'PASS'}\n"
    return f"t/a.t .. \n1..{len(tests)}\n{inner}# {around.output}\n{verdict}\n\n{whole}"


_DART = {"passed": "success", "failed": "failure", "skipped": "success"}


def _dart(tests: Sequence[Ran], around: Around) -> str:
    time = round(around.seconds * 1000)
    events: list[dict[str, object]] = [
        {"protocolVersion": "0.1.1", "pid": time, "type": "start", "time": 0},
        {"suite": {"id": 0, "platform": "vm", "path": "/workspace/t/test/a_test.dart"}, "type": "suite", "time": 0},
        {"test": {"id": 1, "name": "loading /workspace/t/test/a_test.dart", "suiteID": 0}, "type": "testStart"},
        {"testID": 1, "result": "success", "skipped": False, "hidden": True, "type": "testDone"},
    ]
    for number, one in enumerate(tests, 3):
        events.append({"test": {"id": number, "name": one.name, "suiteID": 0}, "type": "testStart", "time": time})
        events.append({"testID": number, "messageType": "print", "message": around.output, "type": "print"})
        ended: dict[str, object] = {"testID": number, "result": _DART[one.status], "skipped": one.status == "skipped"}
        events.append({**ended, "hidden": False, "type": "testDone", "time": time})
    good = all(one.status != "failed" for one in tests)
    return _objects([*events, {"success": good, "type": "done", "time": time}])


_UNITTEST = {"passed": "ok", "failed": "FAIL", "skipped": "skipped 'why'"}


def _unittest(tests: Sequence[Ran], around: Around, *, path: str = "m.C.{}") -> str:
    lines = "".join(f"{one.name} ({path.format('x')}) ... {_UNITTEST[one.status]}\n" for one in tests)
    bad = [one for one in tests if one.status == "failed"]
    for one in bad:
        lines += f"\n{'=' * 70}\nFAIL: {one.name} ({path.format('x')})\n{'-' * 70}\n{around.output}\n"
    word = f"FAILED (failures={len(bad)})" if bad else "OK"
    return f"{lines}\n{'-' * 70}\nRan {len(tests)} tests in {around.seconds}s\n\n{word}\n"


def _django(tests: Sequence[Ran], around: Around) -> str:
    head = f"Found {len(tests)} test(s).\nSystem check identified no issues (0 silenced).\n"
    return head + _unittest(tests, around, path="app.tests.C")


DIALECTS = {
    "pytest": Dialect("junit-xml", _junit(classname="tests.test_a.C"), "tests.test_a.C::"),
    "vitest junit": Dialect("junit-xml", _junit(classname="test/a.test.ts"), "test/a.test.ts::"),
    "jest-junit": Dialect("junit-xml", _jest_junit, "outer::"),
    "surefire": Dialect("junit-xml", _junit(classname="g.GaugeTest"), "g.GaugeTest::"),
    "gradle": Dialect("junit-xml", _junit(classname="g.GaugeTest$Inner"), "g.GaugeTest$Inner::"),
    "rspec": Dialect("junit-xml", _junit(classname="spec.a", file="./spec/a.rb"), "./spec/a.rb::spec.a::"),
    "phpunit": Dialect("junit-xml", _junit(classname="T", file="/workspace/t/tests/T.php"), "tests/T.php::T::"),
    "gtest": Dialect("junit-xml", _gtest, "/src/t.cc::Gauge::"),
    "ctest": Dialect("junit-xml", _ctest, "c::"),
    "nextest junit": Dialect("junit-xml", _junit(classname="gauge::it"), "gauge::it::"),
    "go test": Dialect("gotest-json", _go, "e.org/g::", is_lines=True),
    "cargo test": Dialect("cargo-text", _cargo, "it/tests/it.rs::", is_lines=True, holds_newlines=False),
    "libtest": Dialect("libtest-json", _cargo_libtest, "it/tests/it.rs::", is_lines=True),
    "nextest": Dialect("libtest-json", _nextest, "gauge::it::", is_lines=True),
    "node:test": Dialect("tap", _tap, "", is_lines=True, holds_newlines=False),
    "prove": Dialect("prove", _prove, "t/a.t::", is_lines=True, holds_newlines=False),
    "jest": Dialect("jest-json", _jest, "a.test.js::outer "),
    "vitest": Dialect("vitest-json", _jest, "a.test.js::outer "),
    "dotnet test": Dialect("trx", _trx, "N.C::"),
    "dart test": Dialect("dart-json", _dart, "test/a_test.dart::", is_lines=True),
    "unittest": Dialect("unittest-text", _unittest, "m.C.x::", is_lines=True, holds_newlines=False),
    "django": Dialect("django-text", _django, "app.tests.C::", is_lines=True, holds_newlines=False),
}
