"""JUnit XML as pytest, vitest, jest-junit, rspec, surefire, gradle, PHPUnit, googletest, ctest and nextest write it.

A test id is file::classname::name, of which those that the testcase carries; a file is named as it is in the checkout.
Reports of several files may follow each other, each with its XML declaration, as `cat TEST-*.xml` joins them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.evaluate.readers.lines import in_checkout
from packager.evaluate.readers.xml_elements import plain_tag, walk_xml
from packager.evaluate.results import Gathering, Results, Status, joined

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_ROOTS = {"testsuites", "testsuite"}
_BY_CHILD = {"error": Status.ERROR, "failure": Status.FAILED, "skipped": Status.SKIPPED, "skip": Status.SKIPPED}
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

    def take(element: Element) -> None:
        if plain_tag(element) == "testcase":
            gathering.add(_name(element), _status(element))

    walk_xml(data, _ROOTS, take, kept={"testcase"})
    return gathering.results(reason="the report names no test")


def _name(element: Element) -> str:
    file = element.get("file")
    parts = (None if file is None else in_checkout(file), element.get("classname"), element.get("name"))
    return joined(parts) or "<unnamed>"


def _status(element: Element) -> Status:
    found = {_BY_CHILD.get(plain_tag(child)) for child in element}
    found |= {_BY_ATTRIBUTE.get(element.get(key, "").lower()) for key in ("status", "result")}
    return next((status for status in _WORST_FIRST if status in found), Status.PASSED)
