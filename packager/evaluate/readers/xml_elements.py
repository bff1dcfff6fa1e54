"""XML that anybody may have written, element by element: no document type, no entity, and never the whole of it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from xml.etree.ElementTree import Element

_MISPLACED_DECLARATION = 30
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
    data = data.lstrip()
    rest = 0
    while rest < len(data):
        rest = _walk_one(data, rest, roots, (take, kept))


def _walk_one(
    data: bytes, begin: int, roots: Collection[str], how: tuple[Callable[[Element], object], Collection[str]]
) -> int:
    """Walk one document; return where the next one begins."""
    take, kept = how
    stream = io.BytesIO(data)
    stream.seek(begin)
    open_elements: list[Element] = []
    is_whole = False
    try:
        for event, element in iterparse(stream, events=("start", "end"), forbid_dtd=True):
            if event == "start":
                if not open_elements and plain_tag(element) not in roots:
                    expected = " or ".join(sorted(roots, reverse=True))
                    raise InputError(f"expected {expected}, found {plain_tag(element)[:80]!r}")
                open_elements.append(element)
                continue
            open_elements.pop()
            is_whole = not open_elements
            take(element)
            if not any(plain_tag(parent) in kept for parent in open_elements[-1:]):
                element.clear()
                for parent in open_elements[-1:]:
                    parent.remove(element)
    except DefusedXmlException as error:
        raise InputError(f"refused XML: {type(error).__name__}") from error
    except ParseError as error:
        following = _following(data, begin, error) if is_whole else None
        if following is None:
            raise InputError(f"not XML: {error}") from error
        return following
    except (ValueError, LookupError) as error:
        raise InputError(f"not XML: {error}") from error
    return len(data)


def _following(data: bytes, begin: int, error: ParseError) -> int | None:
    """Return where a further document begins, if that is what the parser stumbled over."""
    if error.code != _MISPLACED_DECLARATION:
        return None
    line, column = error.position
    place = begin
    for _ in range(line - 1):
        place = data.find(b"\n", place) + 1
        if place == 0:
            return None
    found = data.find(_DECLARATION, place + column)
    return found if found == place + column else None
