"""A report of a million tests is read in one pass and within half a gigabyte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MOST_MEGABYTES = 500
SHAPES = {
    "tap": ("", "ok {0} - t{0}\n", "1..{1}\n"),
    "junit-xml": ("<testsuite>", '<testcase classname="c" name="t{0}" time="0.1"/>\n', "</testsuite>"),
    "cargo-text": ("running {1} tests\n", "test t{0} ... ok\n", "test result: ok. {1} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n"),
    "unittest-text": ("", "t{0} (m.C.t{0}) ... ok\n", "Ran {1} tests in 1s\n\nOK\n"),
}  # fmt: skip
CHILD = """\
import io, resource, sys
from packager.evaluate.readers import read_results
kind, first, each, last = sys.argv[1:]
stream = io.BytesIO(first.format(0, 1_000_000).encode())
stream.seek(0, 2)
for number in range(1, 1_000_001):
    stream.write(each.format(number).encode())
stream.write(last.format(0, 1_000_000).encode())
results = read_results(kind, stream.getvalue())
print(sum(status.value == "passed" for status in results.sound().values()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHAPES)
def test_a_million_tests(kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, kind, *SHAPES[kind]], cwd=ROOT, check=True, capture_output=True)
    passed, megabytes = map(int, done.stdout.split())
    assert passed == 1_000_000
    assert megabytes < MOST_MEGABYTES
