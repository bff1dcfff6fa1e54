"""Readers against what real test programs wrote over small programs of our own; `reports/` keeps their output."""

from __future__ import annotations

from pathlib import Path

import pytest

from packager.evaluate.readers import read_results

REPORTS = Path(__file__).parent / "reports"

RECORDED: dict[str, tuple[str, dict[str, str]]] = {
    "cargo.txt": (
        "cargo-text",
        {
            "gauge/<doc>::src/lib.rs - two": "passed",
            "gauge/src/lib.rs::tests::fails": "failed",
            "gauge/src/lib.rs::tests::later": "skipped",
            "gauge/src/lib.rs::tests::panics": "passed",
            "gauge/src/lib.rs::tests::passes": "passed",
            "gauge/src/main.rs::tests::passes": "passed",
            "it/tests/it.rs::passes": "passed",
        },
    ),
    "cargo-build.txt": ("cargo-text", {"<build>": "failed"}),
    "libtest.jsonl": (
        "libtest-json",
        {
            "gauge/<doc>::src/lib.rs - two": "passed",
            "gauge/src/lib.rs::tests::fails": "failed",
            "gauge/src/lib.rs::tests::later": "skipped",
            "gauge/src/lib.rs::tests::panics": "passed",
            "gauge/src/lib.rs::tests::passes": "passed",
            "gauge/src/main.rs::tests::passes": "passed",
            "it/tests/it.rs::passes": "passed",
        },
    ),
    "prove.txt": (
        "prove",
        {
            "./a.t::<3>": "skipped",
            "./a.t::<plan>": "failed",
            './a.t::a passes :: "q" [x]/y': "passed",
            "./a.t::a sub": "failed",
            "./a.t::a sub > inner": "passed",
            "./a.t::a sub > inner fails": "failed",
            "./a.t::planned": "skipped",
            "./b.t::<plan>": "failed",
            "./b.t::first": "passed",
            "./c.t::<file>": "skipped",
            "./d.t::first": "passed",
        },
    ),
    "unittest.txt": (
        "unittest-text",
        {
            "test_a.A::test_doc": "passed",
            "test_a.A::test_err": "error",
            "test_a.A::test_fails": "failed",
            "test_a.A::test_passes": "passed",
            "test_a.A::test_skip": "skipped",
            "test_a.A::test_subs": "failed",
            "test_a.A::test_xfail": "passed",
            "test_a.A::test_xpass": "failed",
            "test_a.B::setUpClass": "error",
            "unittest.loader._FailedTest::test_b": "error",
        },
    ),
    "django.txt": (
        "django-text",
        {
            "app.tests.A::test_doc": "passed",
            "app.tests.A::test_fails": "failed",
            "app.tests.A::test_passes": "passed",
            "app.tests.B::test_subs": "failed",
        },
    ),
    "gtest.xml": (
        "junit-xml",
        {
            "t.cc::All/P::Is/0": "passed",
            "t.cc::All/P::Is/1": "passed",
            "t.cc::Gauge::DISABLED_Never": "skipped",
            "t.cc::Gauge::Fails": "failed",
            "t.cc::Gauge::Later": "skipped",
            "t.cc::Gauge::Passes": "passed",
        },
    ),
    "ctest.xml": (
        "junit-xml",
        {
            "fails::fails": "failed",
            "later::later": "skipped",
            "never::never": "skipped",
            "passes a/b::passes a/b": "passed",
        },
    ),
    "vitest.xml": (
        "junit-xml",
        {
            "v/a.test.mjs::n 1 line": "passed",
            "v/a.test.mjs::n 2 line": "passed",
            "v/a.test.mjs::outer [x] > fails": "failed",
            "v/a.test.mjs::outer [x] > inner > deep 'é'": "passed",
            "v/a.test.mjs::outer [x] > later": "skipped",
            'v/a.test.mjs::outer [x] > passes :: a/b "q"': "passed",
            "v/broken.test.mjs::v/broken.test.mjs": "failed",
        },
    ),
    "jest-junit.xml": (
        "junit-xml",
        {
            " n 1 line:: n 1 line": "passed",
            " n 2 line:: n 2 line": "passed",
            "outer [x] fails::outer [x] fails": "failed",
            "outer [x] inner deep 'é'::outer [x] inner deep 'é'": "passed",
            "outer [x] later::outer [x] later": "skipped",
            'outer [x] passes :: a/b "q"::outer [x] passes :: a/b "q"': "passed",
        },
    ),
    "surefire.xml": (
        "junit-xml",
        {
            "g.GaugeTest$Inner::deep": "passed",
            "g.GaugeTest::breaks": "error",
            "g.GaugeTest::fails": "failed",
            "g.GaugeTest::later": "skipped",
            "g.GaugeTest::passes": "passed",
            "g.GaugeTest::takes(String)[1]": "passed",
            "g.GaugeTest::takes(String)[2]": "passed",
            "g.OtherTest::passes": "passed",
        },
    ),
    "jest.json": (
        "jest-json",
        {
            "a.test.js::n 1\nline": "passed",
            "a.test.js::n 2\nline": "passed",
            "a.test.js::outer [x] fails": "failed",
            "a.test.js::outer [x] inner deep 'é'": "passed",
            "a.test.js::outer [x] later": "skipped",
            'a.test.js::outer [x] passes :: a/b "q"': "passed",
            "broken.test.js::<collection>": "failed",
        },
    ),
    "vitest.json": (
        "vitest-json",
        {
            "v/a.test.mjs::n 1\nline": "passed",
            "v/a.test.mjs::n 2\nline": "passed",
            "v/a.test.mjs::outer [x] fails": "failed",
            "v/a.test.mjs::outer [x] inner deep 'é'": "passed",
            "v/a.test.mjs::outer [x] later": "skipped",
            'v/a.test.mjs::outer [x] passes :: a/b "q"': "passed",
            "v/broken.test.mjs::<collection>": "failed",
        },
    ),
}


@pytest.mark.parametrize("name", sorted(path.name for path in REPORTS.iterdir()))
def test_a_recorded_report_is_read(name: str) -> None:
    kind, expected = RECORDED[name]
    results = read_results(kind, (REPORTS / name).read_bytes())
    assert {test: status.value for test, status in results.statuses.items()} == expected
