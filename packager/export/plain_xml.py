"""What the readers of reports use of `defusedxml`, from the standard library alone: elements, and no document type.

It is never used where `defusedxml` is there. Without a document type no entity can be declared.
"""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET
from xml.parsers import expat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element


_Event = Literal["start", "end"]


class DefusedXmlException(ValueError):  # noqa: N818 - defusedxml's name
    """What is refused."""


class DTDForbidden(DefusedXmlException):
    """A document type."""


def iterparse(stream: IO[bytes], events: Sequence[_Event], *, forbid_dtd: bool) -> Iterator[tuple[str, Element]]:
    """Yield events and elements of one document; a document type anywhere in it is refused first."""
    place = stream.tell()
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse if forbid_dtd else None
    with contextlib.suppress(expat.ExpatError):  # said again below, where it belongs
        parser.Parse(stream.read(), True)  # noqa: FBT003 - expat's signature
    stream.seek(place)
    yield from ET.iterparse(stream, events)  # noqa: S314 - no document type is in it


def _refuse(*_declaration: object) -> None:
    raise DTDForbidden("a document type")
