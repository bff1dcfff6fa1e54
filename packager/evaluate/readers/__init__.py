"""Readers of test reports: bytes in, a status for each test id out; a report that cannot be read has no results."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.evaluate.results import Results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

READERS: Mapping[str, str] = MappingProxyType({"gotest-json": "gotest_json", "junit-xml": "junit_xml", "tap": "tap"})
"""The module of each kind of report; it is loaded when a report is there, after the tests have run."""


def read_results(kind: str, data: bytes) -> Results:
    """Read a report of one kind; broken and empty reports give no results and a reason, an unknown kind InputError."""
    name = READERS.get(kind)
    if name is None:
        raise InputError(f"expected one of {', '.join(READERS)}, found {kind[:80]!r}", where="results")
    if not data.strip():
        return Results(reason="the report is empty")
    reader: Callable[[bytes], Results] = getattr(importlib.import_module(f"{__name__}.{name}"), f"read_{name}")
    try:
        return reader(data)
    except InputError as error:
        return Results(reason=error.reason)
