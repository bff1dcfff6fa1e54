"""What stands in for `defusedxml` says of every document what that says."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

import defusedxml.ElementTree
import pytest
from defusedxml import DefusedXmlException

from packager.export import plain_xml

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTS = {
    "plain": b"<testsuite><testcase name='a'/><testcase name='b'><failure>x</failure></testcase></testsuite>",
    "two after each other": b"<?xml version='1.0'?><testsuite><testcase name='a'/></testsuite>\n" * 2,
    "cut off": b"<testsuite><testcase name='a'/>",
    "no XML": b"all tests passed",
    "nothing": b"",
    "doctype": b"<!DOCTYPE t [<!ENTITY a 'b'>]><testsuite><testcase name='&a;'/></testsuite>",
    "doctype without entities": b"<!DOCTYPE t><testsuite/>",
    "doctype from elsewhere": b"<!DOCTYPE t SYSTEM 'file:///etc/passwd'><testsuite/>",
    "many entities": b"<!DOCTYPE t [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><testsuite>&b;</testsuite>",
    "doctype in UTF-16": "<!DOCTYPE t><testsuite/>".encode("utf-16"),
    "an unknown entity": b"<testsuite>&b;</testsuite>",
    "latin-1": b"<?xml version='1.0' encoding='iso-8859-1'?><testsuite><testcase name='\xe9'/></testsuite>",
    "an unknown encoding": b"<?xml version='1.0' encoding='klingon'?><testsuite/>",
    "a doctype in an unknown encoding": b"<?xml version='1.0' encoding='klingon'?><!DOCTYPE t><testsuite/>",
}
REFUSED = {name for name in DOCUMENTS if "doctype" in name or "entities" in name} - {"a doctype in an unknown encoding"}


def said(iterparse: Callable[..., Any], data: bytes) -> list[object]:
    found: list[object] = []
    stream = io.BytesIO(b"before" + data)
    stream.seek(len(b"before"))
    try:
        for event, element in iterparse(stream, events=("start", "end"), forbid_dtd=True):
            found.append((event, element.tag, dict(element.attrib)))
    except ParseError as error:
        found.append(("not XML", error.position))
    except (DefusedXmlException, plain_xml.DefusedXmlException) as error:
        return [type(error).__name__]
    except (ValueError, LookupError) as error:
        found.append(type(error).__name__)
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_says_the_same(name: str) -> None:
    ours = said(plain_xml.iterparse, DOCUMENTS[name])
    assert ours == said(defusedxml.ElementTree.iterparse, DOCUMENTS[name])
    assert (ours == ["DTDForbidden"]) == (name in REFUSED)
