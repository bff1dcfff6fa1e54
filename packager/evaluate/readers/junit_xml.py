"""JUnit XML as pytest, vitest, rspec, surefire and googletest write it.

A test id is file::classname::name, of which those that the testcase carries.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from packager.evaluate.results import Gathering, Results, Status, joined

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_ROOTS = {"testsuites", "testsuite"}
_BY_CHILD = {"error": Status.ERROR, "failure": Status.FAILED, "skipped": Status.SKIPPED}
_BY_ATTRIBUTE = {
    "notrun": Status.SKIPPED,
    "disabled": Status.SKIPPED,
    "skipped": Status.SKIPPED,
    "suppressed": Status.SKIPPED,
    "fail": Status.FAILED,
    "failed": Status.FAILED,
    "failure": Status.FAILED,
    "error": Status.ERROR,
    "errored": Status.ERROR,
}
_WORST_FIRST = (Status.ERROR, Status.FAILED, Status.SKIPPED)


def read_junit_xml(data: bytes) -> Results:
    """Read one report; a document type, an entity or broken XML anywhere means no results at all."""
    gathering = Gathering()
    try:
        reason = _walk(data.lstrip(), gathering)
    except DefusedXmlException as error:
        return Results(reason=f"refused XML: {type(error).__name__}")
    except (ParseError, ValueError, LookupError) as error:
        return Results(reason=f"not XML: {error}")
    return Results(reason=reason) if reason else gathering.results(reason="the report names no test")


def _walk(data: bytes, gathering: Gathering) -> str:
    """Gather every testcase; return why this is no report, or nothing."""
    open_elements: list[Element] = []
    for event, element in iterparse(io.BytesIO(data), events=("start", "end"), forbid_dtd=True):
        if event == "start":
            if not open_elements and _plain(element.tag) not in _ROOTS:
                return f"expected testsuites or testsuite, found {_plain(element.tag)[:80]!r}"
            open_elements.append(element)
            continue
        open_elements.pop()
        if _plain(element.tag) == "testcase":
            gathering.add(_name(element), _status(element))
        if not any(_plain(parent.tag) == "testcase" for parent in open_elements[-1:]):
            element.clear()
            if open_elements:
                open_elements[-1].remove(element)
    return ""


def _plain(tag: str) -> str:
    return tag.rpartition("}")[2]


def _name(element: Element) -> str:
    return joined(element.get(key) for key in ("file", "classname", "name")) or "<unnamed>"


def _status(element: Element) -> Status:
    found = {_BY_CHILD.get(_plain(child.tag)) for child in element}
    found |= {_BY_ATTRIBUTE.get(element.get(key, "").lower()) for key in ("status", "result")}
    return next((status for status in _WORST_FIRST if status in found), Status.PASSED)
