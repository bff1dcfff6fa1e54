"""The JSON report of jest and of vitest (aggregated results, `--json`, `--reporter=json`); a test id is file::fullName.

Files are named as they are in the checkout. A file that failed without a failing test is `file::<collection>`: it could
not be loaded, or a hook around its tests failed.
"""

from __future__ import annotations

from typing import Any

from packager.base.errors import InputError
from packager.evaluate.readers.lines import in_checkout, parse_object, text_lines, text_of
from packager.evaluate.results import Gathering, Results, Status, joined

_STATUSES = {
    "passed": Status.PASSED,
    "pending": Status.SKIPPED,
    "skipped": Status.SKIPPED,
    "todo": Status.SKIPPED,
    "disabled": Status.SKIPPED,
}
"""What is none of these failed."""

LIMIT_BYTES = 64 << 20
"""It is read as a whole, and in memory it is several times as large."""


def read_jest_json(data: bytes) -> Results:
    """Read one report; lines around it are passed over, two reports are refused."""
    report = _report(data)
    gathering = Gathering()
    for item in report["testResults"]:
        if not isinstance(item, dict):
            raise InputError("expected an object for each file of the report")
        _take(item, gathering)
    return gathering.results(reason="the report names no test")


def _report(data: bytes) -> dict[str, Any]:
    if len(data) > LIMIT_BYTES:
        raise InputError(f"the report is larger than {LIMIT_BYTES} bytes")
    whole = parse_object(data.decode("utf-8", errors="replace").removeprefix("\ufeff"))
    candidates = [parse_object(line) for line in text_lines(data)] if whole is None else [whole]
    reports = [one for one in candidates if one is not None and isinstance(one.get("testResults"), list)]
    if len(reports) != 1:
        raise InputError(f"expected one JSON object with testResults, found {len(reports)}")
    return reports[0]


def _take(item: dict[str, Any], gathering: Gathering) -> None:
    file = in_checkout(text_of(item, "name") or text_of(item, "testFilePath"))
    tests = item.get("assertionResults", item.get("testResults"))
    has_bad = False
    for test in tests if isinstance(tests, list) else ():
        if isinstance(test, dict):
            status = _STATUSES.get(text_of(test, "status"), Status.FAILED)
            has_bad |= status.is_bad
            gathering.add(joined((file, _name(test))), status)
    is_failed = text_of(item, "status") == "failed" or item.get("failureMessage") or item.get("testExecError")
    if is_failed and not has_bad:
        gathering.add(joined((file, "<collection>")), Status.FAILED)


def _name(test: dict[str, Any]) -> str:
    if full := text_of(test, "fullName").strip():
        return full
    parents = test.get("ancestorTitles")
    titles = [one for one in parents if isinstance(one, str)] if isinstance(parents, list) else []
    return " ".join([*titles, text_of(test, "title")]).strip() or "<unnamed>"
