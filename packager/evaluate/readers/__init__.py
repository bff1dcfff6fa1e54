"""Readers of test reports: bytes in, a status for each test id out; a report that cannot be read has no results."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.evaluate.readers.gotest_json import read_gotest_json
from packager.evaluate.readers.junit_xml import read_junit_xml
from packager.evaluate.readers.tap import read_tap
from packager.evaluate.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

READERS: Mapping[str, Callable[[bytes], Results]] = MappingProxyType(
    {"gotest-json": read_gotest_json, "junit-xml": read_junit_xml, "tap": read_tap}
)


def read_results(kind: str, data: bytes) -> Results:
    """Read a report of one kind; broken and empty reports give no results and a reason, an unknown kind InputError."""
    reader = READERS.get(kind)
    if reader is None:
        raise InputError(f"expected one of {', '.join(READERS)}, found {kind[:80]!r}", where="results")
    if not data.strip():
        return Results(reason="the report is empty")
    try:
        return reader(data)
    except InputError as error:
        return Results(reason=error.reason)
