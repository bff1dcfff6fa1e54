"""Result readers: each is shown good, failing, empty, broken and hostile reports."""

from __future__ import annotations

import json
import time

import pytest

from packager.base.errors import InputError
from packager.evaluate.readers import READERS, read_results

BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "x"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
    b'<testsuite><testcase name="&b;"/></testsuite>'
)
LONG = "l" * 600


def read(kind: str, data: bytes | str) -> dict[str, str]:
    results = read_results(kind, data.encode() if isinstance(data, str) else data)
    return {name: status.value for name, status in results.statuses.items()}


def reason(kind: str, data: bytes | str) -> str:
    results = read_results(kind, data.encode() if isinstance(data, str) else data)
    assert results.statuses == {}
    return results.reason


def case(inner: str = "", **attributes: str) -> str:
    listed = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f"<testcase {listed}>{inner}</testcase>"


def suite(*cases: str) -> str:
    return f'<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite>{"".join(cases)}</testsuite></testsuites>'


def go(*events: dict[str, str] | str) -> str:
    return "".join((event if isinstance(event, str) else json.dumps(event)) + "\n" for event in events)


def ran(action: str, test: str = "", package: str = "e.org/g") -> dict[str, str]:
    event = {"Action": action, "Package": package}
    return {**event, "Test": test} if test else event


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        read_results("xunit", b"x")
    assert str(caught.value) == (
        "results: expected one of cargo-text, dart-json, django-text, exit-status, gotest-json, jest-json, junit-xml, "
        "libtest-json, prove, tap, trx, unittest-text, vitest-json, found 'xunit'"
    )


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("data", [b"", b"  \n\t\n"])
def test_an_empty_report_has_no_results(kind: str, data: bytes) -> None:
    assert reason(kind, data) == "the report is empty"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("cargo-text", "the text names no test"),
        ("dart-json", "the stream holds no event of a test"),
        ("django-text", "the text names no test (is -v missing?)"),
        ("gotest-json", "the stream holds no event of a test"),
        ("jest-json", "expected one JSON object with testResults, found 0"),
        ("junit-xml", "not XML: syntax error: line 1, column 0"),
        ("libtest-json", "the stream holds no event of a test"),
        ("prove", "the text names no file of tests"),
        ("tap", "the stream holds no line of TAP"),
        ("trx", "not XML: syntax error: line 1, column 0"),
    ],
)
def test_the_log_of_another_kind_has_no_results(kind: str, expected: str) -> None:
    assert reason(kind, "Traceback (most recent call last):\nImportError: no module\nokay, done\n") == expected


@pytest.mark.parametrize("kind", ["junit-xml", "gotest-json", "tap"])
def test_random_bytes_and_every_prefix_of_a_report_never_raise(kind: str) -> None:
    whole = {
        "junit-xml": suite(case(classname="a", name="b"), case("<failure/>", name="c")).encode(),
        "gotest-json": go(ran("run", "TestA"), ran("pass", "TestA"), ran("pass")).encode(),
        "tap": b"1..2\nok 1 - a\n    ok 1 - x\n    1..1\nnot ok 2 - b\n  ---\n  x: 1\n  ...\n",
    }[kind]
    for end in range(len(whole)):
        read_results(kind, whole[:end])
        read_results(kind, whole[:end] + b"\xff\x00" + whole[end:])


# JUnit XML


def test_ids_of_pytest_rspec_and_vitest_are_those_of_the_released_cases() -> None:
    strange = "test_continue[sentry-trace_id=771a, org=1234-https://k@o1.ingest.example/1-None-False-True]"
    described = "Sentry::DSN#csp_report_uri returns the correct uri"
    text = suite(
        case(classname="tests.test_tracing_utils", name=strange),
        case(file="./spec/sentry/dsn_spec.rb", classname="spec.sentry.dsn_spec", name=described),
        case(classname="test/Tool.test.ts", name="Tool &gt; has a name"),
    )
    assert read("junit-xml", text) == {
        f"tests.test_tracing_utils::{strange}": "passed",
        f"./spec/sentry/dsn_spec.rb::spec.sentry.dsn_spec::{described}": "passed",
        "test/Tool.test.ts::Tool > has a name": "passed",
    }


def test_failures_errors_skips_and_statuses_are_told_apart() -> None:
    text = suite(
        case('<failure message="assert 0">\x09trace</failure>', name="failed"),
        case("<error>boom</error>", name="error"),
        case('<skipped type="pytest.skip"/>', name="skipped"),
        case("<skipped/><failure/>", name="both"),
        case("<system-out>failure</system-out><properties><property name='failure'/></properties>", name="noisy"),
        case("<flakyFailure/>", name="flaky"),
        case(name="notrun", status="notrun"),
        case(name="by status", status="fail"),
        case(name="ran", status="run", result="completed"),
        case("<system-out><failure/></system-out>", name="nested"),
    )
    assert read("junit-xml", text) == {
        "both": "failed",
        "by status": "failed",
        "error": "error",
        "failed": "failed",
        "flaky": "passed",
        "nested": "passed",
        "noisy": "passed",
        "notrun": "skipped",
        "ran": "passed",
        "skipped": "skipped",
    }


def test_a_collection_failure_of_pytest_is_an_error_of_the_module() -> None:
    assert read(
        "junit-xml", suite(case('<error message="collection failure">x</error>', classname="", name="t.b"))
    ) == {"t.b": "error"}


def test_strange_names_survive_in_junit() -> None:
    text = suite(
        case(name="a::b"),
        case(name="x/y[z]"),
        case(name="n&#10;l"),
        case(name="#x1B[31mred"),
        case(name=LONG),
        case(name="é\U0001f600"),
        case(),
    )
    assert set(read("junit-xml", text)) == {
        "a::b",
        "x/y[z]",
        "n\nl",
        "#x1B[31mred",
        LONG,
        "é\U0001f600",
        "<unnamed>",
    }


def test_a_second_result_of_one_name_is_numbered_and_can_hide_nothing() -> None:
    results = read_results("junit-xml", suite(case(name="a"), case("<failure/>", name="a"), case(name="a")).encode())
    assert {name: status.value for name, status in results.statuses.items()} == {
        "a": "passed",
        "a::#2": "failed",
        "a::#3": "passed",
    }
    assert results.judged()["a"].value == "failed"


def test_a_name_that_looks_numbered_keeps_its_own_result() -> None:
    assert read("junit-xml", suite(case("<failure/>", name="a::#2"), case(name="a"), case(name="a"))) == {
        "a": "passed",
        "a::#2": "failed",
        "a::#3": "passed",
    }


def test_namespaces_a_byte_order_mark_and_a_bare_testsuite_are_read() -> None:
    assert read("junit-xml", '\ufeff<testsuite xmlns="urn:x"><testcase name="a"><failure/></testcase></testsuite>') == {
        "a": "failed"
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (BOMB, "refused XML: DTDForbidden"),
        (b'<!DOCTYPE a SYSTEM "http://example.org/x"><testsuite/>', "refused XML: DTDForbidden"),
        (b"<html><testcase name='a'/></html>", "expected testsuites or testsuite, found 'html'"),
        (b"<testsuite><testcase name='a'/>", "not XML: no element found: line 1, column 31"),
        (b"<testsuite><testcase name='a'/></testsuite><testsuite/>", "not XML: junk after document element: line 1, column 43"),
        (b"<testsuite/>", "the report names no test"),
        (b"<?xml version='1.0' encoding='klingon'?><testsuite/>", "not XML: unknown encoding: klingon"),
    ],
)  # fmt: skip
def test_bombs_cut_reports_and_other_xml_have_no_results(data: bytes, expected: str) -> None:
    assert reason("junit-xml", data) == expected


def test_a_deep_report_is_read_without_recursion() -> None:
    deep = "<properties>" * 20_000 + "</properties>" * 20_000
    assert read("junit-xml", f"<testsuite>{deep}{case(name='a')}</testsuite>") == {"a": "passed"}


def test_many_streams_that_broke_off_are_no_burden() -> None:
    cases = [case(name=f"s{number} &gt; t") for number in range(30_000)]
    broken = [case("<failure/>", name=f"s{number} &gt; &lt;plan&gt;") for number in range(30_000)]
    begun = time.process_time()
    sound = read_results("junit-xml", suite(case(name="alone"), *cases, *broken).encode()).sound()
    assert [name for name, status in sound.items() if not status.is_bad] == ["alone"]
    assert time.process_time() - begun < 10


def test_what_broke_off_inside_of_what_broke_off_is_counted_once() -> None:
    text = suite(
        *(case("<failure/>", name=f"{'a::' * depth}&lt;build&gt;") for depth in range(1, 4)),
        case(name="a::b"),
        case(name="ab"),
    )
    sound = read_results("junit-xml", text.encode()).sound()
    assert [name for name, status in sound.items() if not status.is_bad] == ["ab"]


# go test -json


def test_go_tests_and_subtests_carry_their_package() -> None:
    text = go(
        ran("start"),
        ran("run", "TestA"),
        {**ran("output", "TestA"), "Output": '{"Action":"pass","Package":"e.org/g","Test":"TestForged"}\n'},
        ran("run", "TestA/a_b::c,=[x]"),
        ran("pause", "TestA/a_b::c,=[x]"),
        ran("cont", "TestA/a_b::c,=[x]"),
        ran("pass", "TestA/a_b::c,=[x]"),
        ran("pass", "TestA"),
        ran("run", "TestB"),
        ran("fail", "TestB"),
        ran("run", "TestC"),
        ran("skip", "TestC"),
        ran("fail"),
    )
    assert read("gotest-json", text) == {
        "e.org/g::TestA": "passed",
        "e.org/g::TestA/a_b::c,=[x]": "passed",
        "e.org/g::TestB": "failed",
        "e.org/g::TestC": "skipped",
    }


def test_a_go_package_that_does_not_build_is_a_failed_build() -> None:
    text = go(
        {"ImportPath": "e.org/g [e.org/g.test]", "Action": "build-output", "Output": "undefined: x\n"},
        {"ImportPath": "e.org/g [e.org/g.test]", "Action": "build-fail"},
        ran("start"),
        {**ran("output"), "Output": "FAIL\te.org/g [build failed]\n"},
        {**ran("fail"), "FailedBuild": "e.org/g [e.org/g.test]"},
    )
    assert read("gotest-json", text) == {"e.org/g::<build>": "failed"}


def test_older_go_says_so_in_lines_that_are_no_json() -> None:
    text = "# e.org/g [e.org/g.test]\n./a_test.go:3:1: undefined: x\nFAIL\te.org/g [build failed]\n"
    assert read("gotest-json", text) == {"e.org/g::<build>": "failed"}
    assert read("gotest-json", "FAIL\te.org/g [setup failed]\n") == {"e.org/g::<build>": "failed"}


def test_a_build_failure_without_a_package_event_is_still_a_failure() -> None:
    assert read("gotest-json", go({"ImportPath": "e.org/g [x]", "Action": "build-fail"})) == {
        "e.org/g::<build>": "failed"
    }


def test_a_go_test_that_never_ended_failed() -> None:
    text = go(ran("run", "TestA"), ran("pass", "TestA"), ran("run", "TestB"), ran("run", "TestB/x"), ran("fail"))
    assert read("gotest-json", text) == {
        "e.org/g::TestA": "passed",
        "e.org/g::TestB": "failed",
        "e.org/g::TestB/x": "failed",
    }


def test_a_go_package_that_fails_without_a_failing_test_is_named() -> None:
    assert read("gotest-json", go(ran("run", "TestA"), ran("pass", "TestA"), ran("fail"))) == {
        "e.org/g::<package>": "failed",
        "e.org/g::TestA": "passed",
    }


def test_a_go_package_without_tests_gives_no_results() -> None:
    assert reason("gotest-json", go(ran("start"), ran("skip"), ran("pass", package="e.org/h"))) == (
        "the stream holds no event of a test"
    )


def test_lines_between_go_events_are_passed_over() -> None:
    text = go(
        "go: downloading x",
        "{not json",
        '{"Action": 3, "Package": "p", "Test": "T"}',
        '{"Action": "pass", "Package": ["p"], "Test": "T"}',
        '{"a": ' + "[" * 100_000,
        '["Action"]',
        "\x1b[31mred\x1b[0m",
        {**ran("pass", "TestA")},
        ran("pass"),
    )
    assert read("gotest-json", text) == {"e.org/g::TestA": "passed"}


def test_a_go_package_whose_end_is_not_told_passes_nothing() -> None:
    results = read_results("gotest-json", go(ran("run", "TestA"), ran("pass", "TestA")).encode())
    assert {name: status.value for name, status in results.sound().items()} == {
        "e.org/g::<package>": "failed",
        "e.org/g::TestA": "failed",
    }


def test_go_runs_with_count_two_are_numbered() -> None:
    text = go(ran("run", "TestA"), ran("pass", "TestA"), ran("run", "TestA"), ran("fail", "TestA"), ran("fail"))
    assert read("gotest-json", text) == {"e.org/g::TestA": "passed", "e.org/g::TestA::#2": "failed"}


def test_a_go_name_that_is_no_unicode_gets_the_replacement_character() -> None:
    text = b'{"Action":"pass","Package":"p","Test":"T/\xff"}\n{"Action":"pass","Package":"p","Test":"U/\\ud800"}\n'
    text += b'{"Action":"pass","Package":"p"}\n'
    assert read("gotest-json", text) == {"p::T/\ufffd": "passed", "p::U/\ufffd": "passed"}


# TAP

TAP = r"""TAP version 14
1..9
ok 1 - plain
not ok 2 - bad
  ---
  message: |
    ok 99 - not a result
  ...
ok 3 without dash
ok 4 - skipped # SKIP no reason
not ok 5 - planned # TODO later
ok 6 - done early # TODO later
ok 7 - a \# hash and \\ slash
# Subtest: outer
    ok 1 - one
    not ok 2 - two
        ok 1 - deep
        1..1
    ok 3 - three
    1..3
not ok 8 - outer
ok 9
"""


def test_tap_with_subtests_directives_and_diagnostics() -> None:
    assert read("tap", TAP) == {
        "<9>": "passed",
        "a # hash and \\ slash": "passed",
        "bad": "failed",
        "done early": "passed",
        "outer": "failed",
        "outer > one": "passed",
        "outer > three": "passed",
        "outer > three > deep": "passed",
        "outer > two": "failed",
        "plain": "passed",
        "planned": "skipped",
        "skipped": "skipped",
        "without dash": "passed",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1..2\nok 1 - a\n", {"<plan>": "failed", "a": "passed"}),
        ("1..1\nok 1 - a\nok 2 - b\n", {"<plan>": "failed", "a": "passed", "b": "passed"}),
        ("ok 1 - a\n", {"<plan>": "failed", "a": "passed"}),
        ("ok 1 - a\n1..1\n1..1\n", {"<plan>": "failed", "a": "passed"}),
        ("1..2\n", {"<plan>": "failed"}),
        ("1..2\nok 1 - a\nBail out! no database\nok 2 - b\n", {"<bail out>": "failed", "<plan>": "failed", "a": "passed"}),
        ("Bail out!\n", {"<bail out>": "failed", "<plan>": "failed"}),
        ("    ok 1 - x\n1..1\nok 1 - p\n", {"p": "passed", "p > <plan>": "failed", "p > x": "passed"}),
        ("1..1\n    ok 1 - x\n    1..1\n", {"<plan>": "failed", "<unclosed>": "failed", "<unclosed> > x": "passed"}),
        ("ok 1 - x\n1..1\n  ---\nnot ok 2 - y\n", {"<unclosed>": "failed", "x": "passed"}),
    ],
)  # fmt: skip
def test_a_stream_that_does_not_hold_together_fails_under_its_own_name(text: str, expected: dict[str, str]) -> None:
    assert read("tap", text) == expected


def test_a_plan_that_skips_all_gives_no_results() -> None:
    assert reason("tap", "TAP version 13\n1..0 # SKIP no database\n") == "the plan says that nothing runs"


def test_strange_names_survive_in_tap() -> None:
    text = f"1..6\r\nok 1 - a::b\r\n\x1b[32mok\x1b[0m 2 - \x1b[1mbold\x1b[0m\nok 3 - x/y[z]\nok 4 - {LONG}\nok 5 - #5 tag\n"
    assert read("tap", text.encode() + b"ok 6 - \xff\xfe\n") == dict.fromkeys(
        ["#5 tag", "a::b", "bold", LONG, "x/y[z]", "\ufffd\ufffd"], "passed"
    )


def test_lines_that_only_look_like_tap_are_no_results() -> None:
    assert read("tap", "1..1\nokay\n  ok 7 - two blanks\nok 1 - a\nnot okay\nnotok\n# ok 2\n") == {"a": "passed"}


def test_one_description_twice_is_numbered() -> None:
    assert read("tap", "1..2\nok 1 - a\nnot ok 2 - a\n") == {"a": "passed", "a::#2": "failed"}
