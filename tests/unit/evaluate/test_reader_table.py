"""Every reader is shown every kind of trouble: a table of test programs against what reports do to readers."""

from __future__ import annotations

import itertools
import random
import time
from typing import TYPE_CHECKING

import pytest

from packager.evaluate.readers import READERS, read_results
from packager.evaluate.results import Status
from tests.support.report_writers import DIALECTS, Around, Dialect, Ran

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = {
    "spaces": "a b  c",
    "brackets": "a[b]{c}<d>&e;",
    "quotes": 'it\'s "b" `c`',
    "colons": "a::b:c",
    "slashes": "a/b\\c//d",
    "newline": "a\nb",
    "600 characters": "x" * 600,
    "no ASCII": "é \U0001f600 \u202e日",
    "arrows": "a > b -> c",
    "percent": "100 % {0} $HOME",
    "equals": "a=b, c=1-None",
}
MIXED = [Ran("one"), Ran("two", "failed"), Ran("three", "skipped"), Ran("four")]
GOOD = [Ran("one"), Ran("two"), Ran("three"), Ran("four")]
BOMB = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "x"><!ENTITY b "&a;&a;&a;&a;">]><{0}><testcase name="&b;"/></{0}>'
HOSTILE = (
    "test " + "a ... " * 20_000,
    "x (a.b) (" + ") (" * 50_000,
    " Running " + " (/-" * 50_000,
    "a" + " .." * 50_000,
    "ok " + "# " * 50_000 + "skip",
    '{"a": ' + "[" * 100_000,
    '{"a": ' + "9" * 100_000 + "}",
    "\x1b[" + "1;" * 50_000,
    f"running {'9' * 5_000} tests\ntest result: ok. {'9' * 5_000} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
    f"a (b.c) ... \nRan {'9' * 5_000} tests in 1s\n\nOK",
    f"1..{'9' * 5_000}\nok {'9' * 5_000} - ",
    f'<TestRun><ResultSummary outcome="Failed"><Counters total="{"9" * 5_000}"/></ResultSummary></TestRun>',
    " " * 100_000 + "ok 1",
)


def read(dialect: Dialect, data: bytes) -> dict[str, str]:
    return {name: status.value for name, status in read_results(dialect.kind, data).statuses.items()}


def wanted(dialect: Dialect, tests: list[Ran]) -> dict[str, str]:
    return {dialect.id_of(one.name): one.status for one in tests}


def passed(dialect: Dialect, data: bytes) -> set[str]:
    return {name for name, status in read_results(dialect.kind, data).sound().items() if status is Status.PASSED}


def a_failing_log(dialect: Dialect) -> None:
    assert read(dialect, dialect.write(MIXED)) == wanted(dialect, MIXED)
    assert read(dialect, dialect.write(GOOD)) == wanted(dialect, GOOD)


def colour(dialect: Dialect) -> None:
    data = dialect.write(MIXED, Around(output="[31mred" if not dialect.is_lines else "\x1b[31mred\x1b[0m"))
    if dialect.is_lines:
        data = b"".join(b"\x1b[1;32m" + line + b"\x1b[0m\n" for line in data.splitlines())
    assert read(dialect, data) == wanted(dialect, MIXED)


def interleaving(dialect: Dialect) -> None:
    data = dialect.write(MIXED, Around(output="WARNING: between\n<x> & \"y\" 'z' ]]>"))
    if dialect.is_lines:
        data = b"".join(line + b"\nWARNING: between \xff\n" for line in data.splitlines())
    assert read(dialect, data) == wanted(dialect, MIXED)


def bytes_that_are_not_utf8(dialect: Dialect) -> None:
    data = dialect.write([Ran("a\udcff\udcfeb"), Ran("c", "failed")])
    if dialect.kind in {"junit-xml", "trx"}:
        results = read_results(dialect.kind, data)
        assert (dict(results.statuses), results.reason.partition(":")[0]) == ({}, "not XML")
    else:
        assert read(dialect, data) == {dialect.id_of("a\ufffd\ufffdb"): "passed", dialect.id_of("c"): "failed"}


def duplicates(dialect: Dialect) -> None:
    for order in itertools.permutations(["passed", "failed"]):
        data = dialect.write([Ran("a", order[0]), Ran("a", order[1]), Ran("b")])
        name = dialect.id_of("a")
        assert read(dialect, data) == {name: order[0], f"{name}::#2": order[1], dialect.id_of("b"): "passed"}
        assert passed(dialect, data) == {dialect.id_of("b")} | ({f"{name}::#2"} if order[1] == "passed" else set())


def cut_off_anywhere(dialect: Dialect) -> None:
    whole = dialect.write(GOOD, Around(output="noise"))
    everything = set(wanted(dialect, GOOD))
    assert passed(dialect, whole) == everything
    cut = {dialect.id_of(name) for name in ("fou", "fo", "f", "", "<4>")}
    for end in range(len(whole.rstrip())):
        assert not passed(dialect, whole[:end]) >= everything
        assert passed(dialect, whole[:end] + b"\n") <= everything | cut


def emptiness(dialect: Dialect) -> None:
    for data in (b"", b" \r\n\t\n"):
        results = read_results(dialect.kind, data)
        assert (dict(results.statuses), results.reason) == ({}, "the report is empty")
    results = read_results(dialect.kind, b"nothing of the kind\n")
    assert (dict(results.statuses), bool(results.reason)) == ({}, True)


def no_tests(dialect: Dialect) -> None:
    assert passed(dialect, dialect.write([])) == set()


def bombs(dialect: Dialect) -> None:
    begun = time.process_time()
    for line in HOSTILE:
        assert passed(dialect, line.encode() + b"\n" + line.encode()) == set()
    for root in ("testsuite", "TestRun"):
        assert passed(dialect, BOMB.format(root).encode()) == set()
    assert time.process_time() - begun < 5


def another_order(dialect: Dialect) -> None:
    tests = [Ran(f"t{number}", ("passed", "failed", "skipped")[number % 3]) for number in range(30)]
    shuffled = random.Random(5).sample(tests, len(tests))
    assert read(dialect, dialect.write(shuffled)) == read(dialect, dialect.write(tests)) == wanted(dialect, tests)


def other_times(dialect: Dialect) -> None:
    slow = dialect.write(MIXED, Around(seconds=7.125))
    assert slow != dialect.write(MIXED)
    assert read(dialect, slow) == read(dialect, dialect.write(MIXED))


def other_line_ends(dialect: Dialect) -> None:
    assert read(dialect, dialect.write(MIXED).replace(b"\n", b"\r\n")) == wanted(dialect, MIXED)


def random_damage(dialect: Dialect) -> None:
    dice = random.Random(7)
    whole = dialect.write(MIXED)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        read_results(dialect.kind, bytes(damaged)).sound()


def many_tests(dialect: Dialect) -> None:
    tests = [Ran(f"t{number}") for number in range(5_000)]
    assert len(passed(dialect, dialect.write(tests))) == 5_000


def the_reports_of_others(dialect: Dialect) -> None:
    others = [other for other in DIALECTS.values() if _family(other.kind) != _family(dialect.kind)]
    for other in others:
        assert passed(dialect, other.write(GOOD)) == set(), other.kind


def _family(kind: str) -> str:
    pairs = {"vitest-json": "jest-json", "django-text": "unittest-text", "prove": "tap"}
    return pairs.get(kind, kind)


def named(name: str) -> Callable[[Dialect], None]:
    def check(dialect: Dialect) -> None:
        tests = [Ran(name), Ran(f"{name}2", "failed")]
        assert read(dialect, dialect.write(tests)) == wanted(dialect, tests)

    return check


TROUBLE: dict[str, Callable[[Dialect], None]] = {
    "a failing log": a_failing_log,
    "colour": colour,
    "interleaving": interleaving,
    "bytes that are not UTF-8": bytes_that_are_not_utf8,
    "duplicates": duplicates,
    "cut off anywhere": cut_off_anywhere,
    "emptiness": emptiness,
    "no tests": no_tests,
    "bombs": bombs,
    "another order": another_order,
    "other times": other_times,
    "other line ends": other_line_ends,
    "random damage": random_damage,
    "many tests": many_tests,
    "the reports of others": the_reports_of_others,
    **{f"names with {what}": named(name) for what, name in NAMES.items()},
}
TABLE = [(program, trouble) for program in DIALECTS for trouble in TROUBLE]


@pytest.mark.parametrize(("program", "trouble"), TABLE, ids=[" | ".join(pair) for pair in TABLE])
def test_readers_stand(program: str, trouble: str) -> None:
    TROUBLE[trouble](DIALECTS[program])


def test_every_reader_is_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert {dialect.kind for dialect in DIALECTS.values()} == set(READERS)
    with capsys.disabled():
        print(f"\nreaders: {len(DIALECTS)} programs, {len(TROUBLE)} kinds of trouble, {len(TABLE)} cases")
