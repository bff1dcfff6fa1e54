"""YAML with positions: plain values, the line of each key, and every trap of YAML 1.1 as a problem."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from packager.recipe.checks import Fault, Key

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_BYTES = 1 << 20
_MAX_VALUES = 20_000
_MAX_DEPTH = 24
_TAG = "tag:yaml.org,2002:"
_SHOWN = 60

_STYLE_HINT = 'quote it to keep the text: "{text}"'
_KINDS = {
    "bool": "reads as true or false in YAML 1.1",
    "float": "is a number in YAML: 1.10 becomes 1.1",
    "timestamp": "is a date in YAML, not text",
    "null": "is empty: YAML reads null",
    "merge": "merge keys are not part of a recipe",
}
_INTEGER_KINDS = (
    (re.compile(r"[-+]?[0-9_]*:[0-9:_]+"), "is a number of base 60 in YAML 1.1"),
    (re.compile(r"[-+]?0[0-7_]+"), "is an octal number in YAML 1.1"),
)


@dataclass
class Document:
    """One YAML document: its plain value, the line of each key, and what is wrong with it as (line, fault)."""

    value: Any = None
    lines: dict[Key, int] = field(default_factory=dict)
    faults: list[tuple[int, Fault]] = field(default_factory=list)

    def line_of(self, key: Key) -> int:
        """Return the line of `key`, or of the nearest thing around it."""
        for length in range(len(key), -1, -1):
            if key[:length] in self.lines:
                return self.lines[key[:length]]
        return 0

    def is_faulty(self, key: Key) -> bool:
        """Say whether a trap was already reported at exactly this key."""
        return any(fault.key == key for _, fault in self.faults)


def read_document(data: bytes) -> Document:
    """Read one YAML document; what is wrong with it is in `faults`, and its value is as good as can be had."""
    document = Document()
    if len(data) > LIMIT_BYTES:
        document.faults.append((0, Fault((), f"expected at most {LIMIT_BYTES} bytes, found {len(data)}")))
        return document
    try:
        root = yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        document.faults.append((line, Fault((), "not UTF-8", "save the file as UTF-8")))
    except RecursionError:
        document.faults.append((0, Fault((), "nested too deeply to be read")))
    except (ValueError, OverflowError):
        document.faults.append((0, Fault((), "not YAML: an escape that is no character")))
    except yaml.YAMLError as error:
        document.faults.extend(_syntax_faults(error, data))
    else:
        _fill(document, root)
    return document


def _fill(document: Document, root: yaml.Node | None) -> None:
    if root is None:
        document.faults.append((0, Fault((), "the file is empty")))
        return
    walk = _Walk(document)
    try:
        document.value = walk.value(root, ())
    except _TooMuchError as error:
        document.value = None
        document.faults = [(error.line, Fault((), str(error), "write the values out, without anchors"))]


def _syntax_faults(error: yaml.YAMLError, data: bytes) -> Iterator[tuple[int, Fault]]:
    tabbed = [number for number, line in enumerate(data.split(b"\n"), 1) if re.match(rb" *\t", line)]
    yield from ((number, Fault((), "a tab in the indentation", "indent with blanks")) for number in tabbed)
    mark = getattr(error, "problem_mark", None)
    line = 0 if mark is None else mark.line + 1
    if line in tabbed:
        return
    said = getattr(error, "problem", None) or str(error).splitlines()[0]
    context = getattr(error, "context", None)
    yield line, Fault((), f"not YAML: {said if context is None else f'{context}, {said}'}")


class _TooMuchError(Exception):
    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class _Walk:
    """Turns nodes into values; aliases are followed, but the whole stays bounded."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._left = _MAX_VALUES

    def value(self, node: yaml.Node, key: Key) -> Any:  # noqa: ANN401 - YAML has no narrower type
        self._left -= 1
        line = node.start_mark.line + 1
        if self._left < 0:
            raise _TooMuchError(f"more than {_MAX_VALUES} values", line)
        if len(key) > _MAX_DEPTH:
            raise _TooMuchError(f"nested deeper than {_MAX_DEPTH}, or an alias that contains itself", line)
        self._document.lines.setdefault(key, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key)
        if isinstance(node, yaml.SequenceNode):
            self._expect_tag(node, key, "seq")
            return [self.value(child, (*key, index)) for index, child in enumerate(node.value)]
        return self._scalar(node, key)

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, Any]:
        self._expect_tag(node, key, "map")
        found: dict[str, Any] = {}
        for name_node, child in node.value:
            line = name_node.start_mark.line + 1
            if not isinstance(name_node, yaml.ScalarNode):
                self._fault(line, key, "expected a word as key, found a list or mapping")
                continue
            name = name_node.value
            if name_node.tag != _TAG + "str":
                self._fault(line, (*key, name), *_trap(name_node, "the key"))
                if name_node.tag == _TAG + "merge":
                    continue
            if name in found:
                first = self._document.lines[(*key, name)]
                self._fault(line, (*key, name), f"duplicate key, first at line {first}", "keep one of them")
                continue
            self._document.lines[(*key, name)] = line
            found[name] = self.value(child, (*key, name))
        return found

    def _scalar(self, node: yaml.Node, key: Key) -> Any:  # noqa: ANN401 - text, number or truth
        raw, line = str(node.value), node.start_mark.line + 1
        plain = isinstance(node, yaml.ScalarNode) and node.style is None
        if node.tag == _TAG + "str":
            return self._text(raw, line, key)
        if plain and node.tag == _TAG + "bool" and raw in {"true", "false"}:
            return raw == "true"
        if plain and node.tag == _TAG + "int" and re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", raw):
            return int(raw)
        self._fault(line, key, *_trap(node, "the value"))
        return raw

    def _text(self, raw: str, line: int, key: Key) -> str:
        try:
            raw.encode()
        except UnicodeEncodeError:
            self._fault(line, key, "a surrogate escape is no character")
            return raw.encode(errors="replace").decode()
        return raw

    def _expect_tag(self, node: yaml.Node, key: Key, kind: str) -> None:
        if node.tag != _TAG + kind:
            self._fault(node.start_mark.line + 1, key, f"tags are not part of a recipe: {node.tag[:_SHOWN]}")

    def _fault(self, line: int, key: Key, message: str, hint: str = "") -> None:
        self._document.faults.append((line, Fault(key, message, hint)))


def _trap(node: yaml.Node, what: str) -> tuple[str, str]:
    raw = str(node.value)
    kind = node.tag.removeprefix(_TAG)
    shown = raw if len(raw) <= _SHOWN else raw[:_SHOWN] + "…"
    if kind == "null":
        return f"{what} {_KINDS['null']}", "remove the key, or give it a value"
    if kind == "merge":
        return _KINDS["merge"], "write the values out"
    hint = _STYLE_HINT.format(text=shown)
    plain = isinstance(node, yaml.ScalarNode) and node.style is None
    if plain and kind in _KINDS:
        return f"{what} {shown} {_KINDS[kind]}", hint
    if plain and kind == "int":
        said = next((said for pattern, said in _INTEGER_KINDS if pattern.fullmatch(raw)), "is a number in YAML")
        return f"{what} {shown} {said}", hint
    return f"tags are not part of a recipe: {node.tag[:_SHOWN]}", "remove it"
