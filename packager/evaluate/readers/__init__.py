"""Readers of test reports: bytes in, a status for each test id out; a report that cannot be read has no results."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.evaluate.results import Results, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

READERS: Mapping[str, str] = MappingProxyType(
    {
        "cargo-text": "cargo_text",
        "dart-json": "dart_json",
        "django-text": "unittest_text",
        "gotest-json": "gotest_json",
        "jest-json": "jest_json",
        "junit-xml": "junit_xml",
        "libtest-json": "libtest_json",
        "prove": "prove",
        "tap": "tap",
        "trx": "trx",
        "unittest-text": "unittest_text",
        "vitest-json": "jest_json",
    }
)
"""The module of each kind of report; it is loaded when a report is there, after the tests have run. See README.md."""

EXIT_STATUS = "exit-status"
"""The kind of a target that has no report: its one test is `<command>`, which passes if the command ends with 0."""


def read_results(kind: str, data: bytes) -> Results:
    """Read a report of one kind; broken and empty reports give no results and a reason, an unknown kind InputError."""
    name = READERS.get(kind)
    if name is None:
        known = ", ".join(sorted((*READERS, EXIT_STATUS)))
        raise InputError(f"expected one of {known}, found {kind[:80]!r}", where="results")
    if not data.strip():
        return Results(reason="the report is empty")
    reader: Callable[[bytes], Results] = getattr(importlib.import_module(f"{__name__}.{name}"), f"read_{name}")
    try:
        return reader(data)
    except InputError as error:
        return Results(reason=error.reason)


def results_of_exit(exit_code: int) -> Results:
    """Return the results of a target whose tests say nothing but how they ended."""
    return Results({"<command>": Status.PASSED if exit_code == 0 else Status.FAILED})
