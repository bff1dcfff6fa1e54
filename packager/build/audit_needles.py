"""What an audit looks for in text, and how it finds hundreds of needles in a gigabyte of files.

A *line* is a line that gold or a hidden test adds, blanks squeezed. It counts only if it is distinctive: at least
`LINE_BYTES` long, with two words or more, and nowhere in the public texts (all base trees, contexts, the prompt).
A file leaks if it holds one line of `STRONG_BYTES` or more, one with an identifier of the secret, or
`WEAK_LINES` lines (all of them, if the secret has fewer). An *identifier* is a compound name of `NAME_BYTES` or more
that the secret defines (not merely uses) and that no public text has; one is enough.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LINE_BYTES = 16
STRONG_BYTES = 48
WEAK_LINES = 3
NAME_BYTES = 9
LITERAL_BYTES = 20
LITERAL_LIMIT_BYTES = 200

_WORD_BYTES = 3
_MANY_WORDS = 2
_CLEAN_WORDS = 500_000
_SEPARATE = bytes(byte if (chr(byte).isalnum() and byte < 0x80) or byte == 0x5F else 0x20 for byte in range(256))  # noqa: PLR2004
_NAME = rb"[A-Za-z_][A-Za-z0-9_]{%d,}" % (NAME_BYTES - 1)
_KEYWORDS = (
    rb"def|class|func|fn|function|sub|type|struct|enum|interface|trait|module|const|let|var|my|our|static|val|package|macro"
    rb"|record"
)
_DEFINITIONS = re.compile(
    rb"\b(?:%(keywords)s)\s+(?:\([^)]*\)\s*)?(?:self\.)?[$@%%]?(?P<a>%(name)s)\b"
    rb"|^\s*(?:(?:export|public|private|protected|final|self|this|attr_\w+|@+)[\s.:]*)*(?P<b>%(name)s)\??(?:\s*:?=(?!=)|:(?=\s|$))"
    rb"|^\s*(?P<c>%(name)s)\s+[\w*\[\].]+\s*(?:`.*|//.*|,|;)?$"
    rb"|[\"':](?P<d>%(name)s)(?=[\"'\s,)\]}]|$)" % {b"keywords": _KEYWORDS, b"name": _NAME}
)
_LITERAL = re.compile(rb"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'")


@dataclass(frozen=True)
class Needles:
    """What to look for, each with the name of the secret it comes from (`gold of x`, `hidden tests of x`)."""

    lines: Mapping[bytes, str] = field(default_factory=dict)
    identifiers: Mapping[bytes, str] = field(default_factory=dict)
    literals: Mapping[bytes, str] = field(default_factory=dict)

    def without(self, texts: Iterable[bytes]) -> Needles:
        """Return the needles that occur in none of the texts."""
        finder = Finder(self)
        for text in texts:
            finder.forget(finder.find(text))
            finder.forget_literals(text)
        return finder.needles()


@dataclass
class Found:
    """The needles that one file holds."""

    lines: set[bytes] = field(default_factory=set)
    identifiers: set[bytes] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.lines or self.identifiers)

    def add(self, other: Found) -> None:
        """Take in what another part of the same file holds."""
        self.lines |= other.lines
        self.identifiers |= other.identifiers


def extract_needles(label: str, lines: Iterable[bytes]) -> Needles:
    """Return the candidates of one secret; public texts have not been taken away yet."""
    found: dict[bytes, str] = {}
    names: dict[bytes, str] = {}
    literals: dict[bytes, str] = {}
    for line in lines:
        squeezed = squeeze(line)
        if len(squeezed) >= LINE_BYTES and len(_words(squeezed)) >= _MANY_WORDS:
            found[squeezed] = label
        for match in _DEFINITIONS.finditer(line):
            name = next(group for group in match.groups() if group)
            if _is_compound(name):
                names[name] = label
        literals |= dict.fromkeys(filter(_is_telling, _string_constants(line)), label)
    return Needles(found, names, literals)


def merge_needles(parts: Iterable[Needles]) -> Needles:
    """Return all needles; the first secret keeps what several have."""
    merged = Needles({}, {}, {})
    for part in parts:
        merged = Needles(
            {**part.lines, **merged.lines},
            {**part.identifiers, **merged.identifiers},
            {**part.literals, **merged.literals},
        )
    return merged


def squeeze(text: bytes) -> bytes:
    """Return a text with every run of blanks and line ends made one blank."""
    return b" ".join(text.split())


class Finder:
    """Looks for needles: first by a set of words, then, in the few files that have all words of a line, by text."""

    def __init__(self, needles: Needles) -> None:
        self._lines = dict(needles.lines)
        self._identifiers = dict(needles.identifiers)
        self._literals = dict(needles.literals)
        self._words_of = {line: _words(line) for line in self._lines}
        self._by_longest: dict[bytes, list[bytes]] = {}
        for line, words in self._words_of.items():
            self._by_longest.setdefault(max(words, key=lambda word: (len(word), word)), []).append(line)
        self._inner = {text: frozenset(text.translate(_SEPARATE).split()[1:-1]) for text in self._literals}
        self._clean: set[bytes] = set()
        self._keys = set(self._identifiers).union(*self._words_of.values())
        self._totals: dict[str, int] = {}
        for label in self._lines.values():
            self._totals[label] = self._totals.get(label, 0) + 1

    def needles(self) -> Needles:
        """Return what is still looked for."""
        return Needles(dict(self._lines), dict(self._identifiers), dict(self._literals))

    def find(self, data: bytes) -> Found:
        """Return the needles in one block of text."""
        words = self._keys.intersection(data.translate(_SEPARATE).split())
        if not words:
            return Found()
        found = Found(identifiers={word for word in words if word in self._identifiers})
        candidates = [
            line for word in words for line in self._by_longest.get(word, ()) if self._words_of[line] <= words
        ]
        if candidates:
            text = squeeze(data)
            found.lines = {line for line in candidates if line in self._lines and line in text}
        return found

    def find_compiled(self, data: bytes) -> Found:
        """Return the names and string constants in compiled code, where a byte of a letter may stick to a name.

        Words that were seen before without a name in them are not looked at again.
        """
        words = set(data.translate(_SEPARATE).split())
        fresh = {word for word in words if len(word) >= NAME_BYTES} - self._clean
        text = b" ".join(fresh)
        names = {name for name in self._identifiers if name in text}
        if not names and len(self._clean) < _CLEAN_WORDS:
            self._clean |= fresh
        literals = {text for text, inner in self._inner.items() if inner <= words and text in data}
        return Found({text for text in literals if text in self._literals}, names)

    def forget(self, found: Found) -> None:
        """Stop looking for what turned out to be public."""
        for line in found.lines:
            self._lines.pop(line, None)
            self._literals.pop(line, None)
        for name in found.identifiers:
            self._identifiers.pop(name, None)

    def forget_literals(self, text: bytes) -> None:
        """Stop looking for string constants that a public text has."""
        for literal in [literal for literal in self._literals if literal in text]:
            del self._literals[literal]

    def judge(self, found: Found) -> dict[str, list[bytes]]:
        """Return, per secret, the needles that are together enough to call a file a leak."""
        verdict: dict[str, list[bytes]] = {}
        for name in sorted(found.identifiers):
            verdict.setdefault(self._identifiers.get(name, ""), []).append(name)
        by_label: dict[str, list[bytes]] = {}
        for line in sorted(found.lines):
            by_label.setdefault(self._lines.get(line) or self._literals.get(line, ""), []).append(line)
        for label, lines in by_label.items():
            if self._is_enough(label, lines):
                verdict.setdefault(label, []).extend(lines)
        return {label: needles for label, needles in verdict.items() if label}

    def _is_enough(self, label: str, lines: list[bytes]) -> bool:
        if any(line in self._literals or len(line) >= STRONG_BYTES for line in lines):
            return True
        if any(word in self._identifiers for line in lines for word in _words(line)):
            return True
        return len(lines) >= min(WEAK_LINES, self._totals.get(label, WEAK_LINES))


def _words(line: bytes) -> frozenset[bytes]:
    return frozenset(word for word in line.translate(_SEPARATE).split() if len(word) >= _WORD_BYTES)


def _string_constants(line: bytes) -> list[bytes]:
    """Return what stands between quotes; short ones are matched too, since what stands between two is none."""
    return [match[1] or match[2] or b"" for match in _LITERAL.finditer(line)]


def _is_telling(literal: bytes) -> bool:
    long_enough = len(squeeze(literal)) >= LITERAL_BYTES and len(literal) <= LITERAL_LIMIT_BYTES
    return long_enough and b"\\" not in literal and len(_words(literal)) >= _MANY_WORDS


def _is_compound(name: bytes) -> bool:
    core = name.strip(b"_")
    return b"_" in core or re.search(rb"[a-z0-9][A-Z]", core) is not None
