"""XML that anybody may have written, element by element: no document type, no entity, and never the whole of it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from xml.etree.ElementTree import Element

_DECLARATION = b"<?xml"


def plain_tag(element: Element) -> str:
    """Return the tag of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def walk_xml(
    data: bytes, roots: Collection[str], take: Callable[[Element], object], *, kept: Collection[str] = ()
) -> None:
    """Hand on each element when it ends, with what is inside it only if its tag is `kept`.

    Several documents may follow each other, each with its own XML declaration, as `cat` joins report files. What is
    broken or refused anywhere is an InputError.
    """
    walk = _Walk(data.lstrip(), roots, take, kept)
    begin = 0
    while begin < len(walk.data):
        begin = walk.document(begin)


@dataclass(frozen=True)
class _Walk:
    data: bytes
    roots: Collection[str]
    take: Callable[[Element], object]
    kept: Collection[str]

    def document(self, begin: int) -> int:
        """Walk one document; return where the next one begins."""
        stream = io.BytesIO(self.data)
        stream.seek(begin)
        open_elements: list[Element] = []
        is_begun = False
        try:
            for event, element in iterparse(stream, events=("start", "end"), forbid_dtd=True):
                is_begun = True
                self.step(event, element, open_elements)
        except DefusedXmlException as error:
            raise InputError(f"refused XML: {type(error).__name__}") from error
        except ParseError as error:
            following = None if open_elements or not is_begun else self.following(begin, error)
            if following is None:
                raise InputError(f"not XML: {error}") from error
            return following
        except (ValueError, LookupError) as error:
            raise InputError(f"not XML: {error}") from error
        return len(self.data)

    def step(self, event: str, element: Element, open_elements: list[Element]) -> None:
        """Open or close one element; what nobody needs any more is dropped."""
        if event == "start":
            if not open_elements and plain_tag(element) not in self.roots:
                expected = " or ".join(sorted(self.roots, reverse=True))
                raise InputError(f"expected {expected}, found {plain_tag(element)[:80]!r}")
            open_elements.append(element)
            return
        open_elements.pop()
        self.take(element)
        parents = open_elements[-1:]
        if not any(plain_tag(parent) in self.kept for parent in parents):
            element.clear()
            for parent in parents:
                parent.remove(element)

    def following(self, begin: int, error: ParseError) -> int | None:
        """Return where a further document begins, if that is what the parser stumbled over."""
        line, column = error.position
        place = begin
        for _ in range(line - 1):
            place = self.data.find(b"\n", place) + 1
            if place == 0:
                return None
        text = self.data[place : place + 4 * column].decode("utf-8", errors="replace")[:column]
        place += len(text.encode())
        return place if self.data.startswith(_DECLARATION, place) else None
