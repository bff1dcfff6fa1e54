"""Reads git-format patches (git: apply.c, diff-format.txt) into values; what is doubtful is refused, not guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from packager.base.errors import InputError
from packager.evaluate.binary_patch import BinaryHunk, read_binary_hunk
from packager.evaluate.patch_names import MAX_PATCH_BYTES, split_quoted, strip_parts, unquote
from packager.evaluate.trees import Kind, shown

MAX_PATCH_LINES = 5_000_000
_MAX_HEADER = 20_000

_HUNK = re.compile(rb"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(?:[ \r].*)?", re.DOTALL)
_INDEX = re.compile(rb"([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?")
_DIFF = b"diff --git "
_NULL = b"/dev/null"
_ID_DIGITS = 40


@dataclass(frozen=True)
class Hunk:
    """One hunk of text: where it stands (lines from 1), what it expects, and what it puts there; lines keep their ends.

    `leading` and `trailing` count the context lines before the first and after the last change.
    """

    line: int
    old_start: int
    new_start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    leading: int
    trailing: int


@dataclass
class FilePatch:
    """What a patch does to one file; `line` is where it begins in the patch."""

    line: int
    old_path: bytes | None = None
    new_path: bytes | None = None
    is_new: bool = False
    is_deleted: bool = False
    is_copy: bool = False
    is_rename: bool = False
    old_kind: Kind | None = None
    new_kind: Kind | None = None
    old_id: bytes | None = None
    new_id: bytes | None = None
    hunks: list[Hunk] = field(default_factory=list)
    binary: BinaryHunk | None = None

    @property
    def where(self) -> str:
        """The file and the line of the patch, for people."""
        return f"{shown(self.new_path or self.old_path or b'?')} (line {self.line} of the patch)"


def parse_patch(data: bytes, *, strip: int = 1) -> list[FilePatch]:
    """Read a patch; text around the file patches, as in a mail, is passed over.

    A patch of blanks changes nothing; one that holds text but no `diff --git` is refused. `strip` components are
    dropped from each path.
    """
    if len(data) > MAX_PATCH_BYTES:
        raise InputError(f"expected at most {MAX_PATCH_BYTES} bytes, found {len(data)}", where="patch")
    if data.count(b"\n") > MAX_PATCH_LINES:
        raise InputError(f"expected at most {MAX_PATCH_LINES} lines", where="patch")
    if not data.strip():
        return []
    lines = data.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1] + b"\n"] if lines[-1] else [])
    return _Parser(lines, strip).files()


class _Parser:
    def __init__(self, lines: list[bytes], strip: int) -> None:
        self._lines = lines
        self._strip = strip
        self._at = 0

    def files(self) -> list[FilePatch]:
        found: list[FilePatch] = []
        while self._at < len(self._lines):
            if self._lines[self._at].startswith(_DIFF):
                found.append(self._file())
                self._refuse_leftover()
            else:
                self._refuse_foreign()
                self._at += 1
        if not found:
            raise InputError("expected `diff --git` lines, found none", where="patch", hint="write it with git diff")
        return found

    def _refuse_leftover(self) -> None:
        """Refuse lines of a hunk that its header does not count: dropping them would apply half of a change."""
        line = self._lines[self._at] if self._at < len(self._lines) else b""
        if line[:1] in {b" ", b"+", b"-", b"\\"} and line.rstrip(b"\n") != b"-- ":
            raise InputError(f"more lines than the hunk's header counts: {line[:60]!r}", where=self._place())

    def _refuse_foreign(self) -> None:
        line = self._lines[self._at]
        following = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else b""
        if line.startswith(b"--- ") and following.startswith(b"+++ "):
            hint = "write it with git diff"
            raise InputError("--- and +++ without a `diff --git` line", where=self._place(), hint=hint)
        if line.startswith(b"@@ -"):
            raise InputError("a hunk without a file", where=self._place())

    def _place(self) -> str:
        return f"line {self._at + 1} of the patch"

    def _file(self) -> FilePatch:
        patch = FilePatch(self._at + 1)
        default = self._default_path(self._lines[self._at].removeprefix(_DIFF).rstrip(b"\n"))
        self._at += 1
        while self._at < len(self._lines) and self._extended(patch, self._lines[self._at].rstrip(b"\n")):
            self._at += 1
        self._body(patch)
        _settle(patch, default)
        return patch

    def _default_path(self, names: bytes) -> bytes | None:
        """Return the path of a header whose two names are equal but for their prefixes, else None."""
        if len(names) > _MAX_HEADER:
            raise InputError("the names of the header are too long", where=self._place())
        if names.startswith(b'"'):
            first = split_quoted(names)
            pairs = [] if first is None else [(first[0], unquote(first[1][1:], where=self._place()))]
        elif names.endswith(b'"'):
            start = names.find(b' "')
            pairs = [(names[:start], unquote(names[start + 1 :], where=self._place()))]
        else:
            blanks = [index for index, byte in enumerate(names) if byte == ord(" ")]
            pairs = [(names[:index], names[index + 1 :]) for index in blanks]
        for left, right in pairs:
            tails = [_tail(side, self._strip) for side in (left, right)]
            if tails[0] and tails[0] == tails[1]:
                return strip_parts(left, self._strip, where=self._place())
        return None

    def _extended(self, patch: FilePatch, line: bytes) -> bool:
        """Take one line of the extended header; say whether it was one."""
        for prefix, take in _EXTENDED.items():
            if line.startswith(prefix):
                take(self, patch, line.removeprefix(prefix))
                return True
        return False

    def take_old_mode(self, patch: FilePatch, text: bytes) -> None:
        patch.old_kind = self._kind(text)

    def take_new_mode(self, patch: FilePatch, text: bytes) -> None:
        patch.new_kind = self._kind(text)

    def take_deleted(self, patch: FilePatch, text: bytes) -> None:
        patch.is_deleted, patch.old_kind = True, self._kind(text)

    def take_new(self, patch: FilePatch, text: bytes) -> None:
        patch.is_new, patch.new_kind = True, self._kind(text)

    def take_rename_from(self, patch: FilePatch, text: bytes) -> None:
        patch.is_rename, patch.old_path = True, self._bare(text)

    def take_copy_from(self, patch: FilePatch, text: bytes) -> None:
        patch.is_copy, patch.old_path = True, self._bare(text)

    def take_to(self, patch: FilePatch, text: bytes) -> None:
        patch.new_path = self._bare(text)

    def take_index(self, patch: FilePatch, text: bytes) -> None:
        match = _INDEX.fullmatch(text)
        if match is None:
            raise InputError(f"not an index line: {text[:80]!r}", where=self._place())
        patch.old_id, patch.new_id = match[1], match[2]
        if match[3] is not None:
            patch.old_kind = self._kind(match[3])

    def take_nothing(self, patch: FilePatch, text: bytes) -> None:
        """Pass over similarity and dissimilarity: they say nothing that the rest does not."""

    def _kind(self, text: bytes) -> Kind:
        if text == b"160000":
            raise InputError("submodules cannot be changed by a patch", where=self._place())
        known = {b"100644": Kind.FILE, b"100755": Kind.PROGRAM, b"120000": Kind.SYMLINK}
        if text not in known:
            raise InputError(f"expected mode 100644, 100755 or 120000, found {text[:20]!r}", where=self._place())
        return known[text]

    def _bare(self, text: bytes) -> bytes:
        return strip_parts(unquote(text, where=self._place()), self._strip - 1, where=self._place())

    def _body(self, patch: FilePatch) -> None:
        line = self._lines[self._at] if self._at < len(self._lines) else b""
        if line.startswith(b"GIT binary patch"):
            self._binary(patch)
        elif line.startswith(b"Binary files "):
            hint = "write it with git diff --binary"
            raise InputError("the patch says that a binary file differs, but not how", where=self._place(), hint=hint)
        elif line.startswith(b"--- "):
            self._named(patch)

    def _binary(self, patch: FilePatch) -> None:
        where = self._place()
        found = read_binary_hunk(self._lines, self._at + 1, where=where)
        if found is None:
            raise InputError("expected literal or delta data", where=where)
        patch.binary, self._at = found
        back = read_binary_hunk(self._lines, self._at, where=where)
        if back is not None:
            self._at = back[1]
        if any(name is None or len(name) != _ID_DIGITS for name in (patch.old_id, patch.new_id)):
            raise InputError("binary data without the full index line", where=where, hint="git diff --binary")

    def _named(self, patch: FilePatch) -> None:
        names: list[bytes | None] = []
        for prefix in (b"--- ", b"+++ "):
            line = self._lines[self._at] if self._at < len(self._lines) else b""
            if not line.startswith(prefix):
                raise InputError(f"expected a line with {prefix.decode()}", where=self._place())
            name = unquote(line.removeprefix(prefix).rstrip(b"\n"), where=self._place())
            names.append(None if name == _NULL else strip_parts(name, self._strip, where=self._place()))
            self._at += 1
        known = ((patch.old_path, patch.is_new), (patch.new_path, patch.is_deleted))
        for found, (path, is_gone) in zip(names, known, strict=True):
            if (found is None) != is_gone or (path is not None and found != path):
                raise InputError("the names of the header do not agree", where=patch.where)
        patch.old_path, patch.new_path = names
        while self._at < len(self._lines) and self._lines[self._at].startswith(b"@@ -"):
            patch.hunks.append(self._hunk())
        if not patch.hunks:
            raise InputError("expected a hunk", where=self._place())

    def _hunk(self) -> Hunk:
        where = self._place()
        head = _HUNK.fullmatch(self._lines[self._at].rstrip(b"\n"))
        if head is None:
            raise InputError(f"not the header of a hunk: {self._lines[self._at][:80]!r}", where=where)
        left, right = int(head[2] or 1), int(head[4] or 1)
        started = self._at + 1
        self._at += 1
        reading = _Reading()
        while left or right or (self._at < len(self._lines) and self._lines[self._at].startswith(b"\\ ")):
            line = self._lines[self._at] if self._at < len(self._lines) else b""
            took_old, took_new = reading.take(line, where=where)
            left, right = left - took_old, right - took_new
            if left < 0 or right < 0:
                raise InputError("more lines than the hunk's header counts", where=self._place())
            self._at += 1
        return reading.hunk(started, int(head[1]), int(head[3]))


@dataclass
class _Reading:
    """The lines of one hunk, as they come."""

    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)
    leading: int = 0
    trailing: int = 0
    changed: bool = False
    last: bytes = b""

    def take(self, line: bytes, *, where: str) -> tuple[bool, bool]:
        """Take one line; say whether it counts as old and as new."""
        mark = line[:1] if line != b"\n" else b" "
        text = line[1:] if line != b"\n" else line
        if mark == b"\\" and self.last:
            for side, marks in ((self.old, b" -"), (self.new, b" +")):
                if self.last in marks:
                    side[-1] = side[-1].removesuffix(b"\n")
            self.last = b""
            return False, False
        if mark not in {b" ", b"+", b"-"}:
            found = repr(line[:60]) if line else "the end of the patch"
            raise InputError(f"fewer lines than the hunk's header counts: found {found}", where=where)
        is_old, is_new = mark != b"+", mark != b"-"
        self.old.extend([text] * is_old)
        self.new.extend([text] * is_new)
        self.changed |= not (is_old and is_new)
        self.leading += not self.changed
        self.trailing = self.trailing + 1 if is_old and is_new else 0
        self.last = mark
        return is_old, is_new

    def hunk(self, line: int, old_start: int, new_start: int) -> Hunk:
        return Hunk(line, old_start, new_start, tuple(self.old), tuple(self.new), self.leading, self.trailing)


_EXTENDED = {
    b"old mode ": _Parser.take_old_mode,
    b"new mode ": _Parser.take_new_mode,
    b"deleted file mode ": _Parser.take_deleted,
    b"new file mode ": _Parser.take_new,
    b"copy from ": _Parser.take_copy_from,
    b"copy to ": _Parser.take_to,
    b"rename from ": _Parser.take_rename_from,
    b"rename to ": _Parser.take_to,
    b"similarity index ": _Parser.take_nothing,
    b"dissimilarity index ": _Parser.take_nothing,
    b"index ": _Parser.take_index,
}


def _tail(path: bytes, count: int) -> bytes:
    return path.split(b"/", count)[count] if path.count(b"/") >= count else b""


def _settle(patch: FilePatch, default: bytes | None) -> None:
    """Fill in the paths that only the first line names, and refuse a header that contradicts itself."""
    moves = patch.is_rename or patch.is_copy
    if patch.is_new + patch.is_deleted + patch.is_rename + patch.is_copy > 1:
        raise InputError("expected one of new, deleted, renamed and copied", where=patch.where)
    if not moves:
        paths = {path for path in (patch.old_path, patch.new_path, default) if path is not None}
        if len(paths) != 1:
            raise InputError("the names of the header do not agree", where=patch.where)
        (path,) = paths
        patch.old_path = None if patch.is_new else path
        patch.new_path = None if patch.is_deleted else path
    if moves and (patch.old_path is None or patch.new_path is None):
        raise InputError("a rename or copy without its two names", where=patch.where)
    changes_mode = patch.new_kind is not None and patch.new_kind is not patch.old_kind
    if not (moves or patch.is_new or patch.is_deleted or patch.hunks or patch.binary or changes_mode):
        raise InputError("a file patch that changes nothing", where=patch.where)
