"""Captures what an agent changed: the difference of two directories as a git-format patch that `apply_patch` takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.evaluate.binary_patch import blob_id, format_binary_hunk
from packager.evaluate.line_diff import Span, compare_lines
from packager.evaluate.patch_names import MAX_PATCH_BYTES, check_path, is_repository, quote
from packager.evaluate.patches import split_lines
from packager.evaluate.trees import DirectoryTree, Kind, join
from packager.recipe.globs import matches_any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.evaluate.trees import Tree

_CONTEXT = 3
_SNIFFED_BYTES = 8000
_MAX_TEXT_BYTES = 8 << 20

_NO_ID = b"0" * 40
_END = b"\\ No newline at end of file\n"


@dataclass(frozen=True)
class FileState:
    """What a file is, and what is in it."""

    kind: Kind
    content: bytes


def capture_target(base: Path, workspace: Path, target: str, *, leave_out: tuple[str, ...] = ()) -> bytes:
    """Return the patch of one target: what its folder in a workspace became of its folder in the image's workspace.

    A target whose folder is gone, or is a link or file now, is an InputError: nothing outside is ever read.
    """
    changed = workspace / target
    if changed.is_symlink() or not changed.is_dir():
        found = "something else" if changed.is_symlink() or changed.exists() else "nothing"
        hint = f"the workspace is the folder that holds {target}/, as /workspace does"
        raise InputError(f"expected the folder of target {target}, found {found}", where=str(changed), hint=hint)
    return capture_patch(base / target, changed, target, leave_out=leave_out)


def capture_patch(base_tree: Path, changed_tree: Path, name: str, *, leave_out: tuple[str, ...] = ()) -> bytes:
    """Return a git-format patch that turns the files of one directory into those of the other; empty if they are equal.

    Covers new, deleted and changed files, ignored ones too, modes, symbolic links and binary content. Everything named
    .git is passed over, as are empty directories, devices, sockets and pipes, which git does not know either, and new
    files that match a glob of `leave_out`; what the base has is never left out. `name` is the target, for messages.
    """
    parts: list[bytes] = []
    size = 0
    with DirectoryTree(base_tree) as base, DirectoryTree(changed_tree) as changed:
        for part in _differences(base, changed, name, leave_out):
            size += len(part)
            if size > MAX_PATCH_BYTES:
                raise InputError(f"the changes make a patch of more than {MAX_PATCH_BYTES} bytes", where=name)
            parts.append(part)
    return b"".join(parts)


def _differences(base: Tree, changed: Tree, name: str, leave_out: tuple[str, ...]) -> Iterator[bytes]:
    before, after = _listed(base), _listed(changed)
    for path in sorted(set(before) | set(after)):
        if leave_out and path not in before and matches_any(leave_out, path.decode("utf-8", "surrogateescape")):
            continue
        check_path(path, where=name)
        old = FileState(before[path], base.read(path)) if path in before else None
        new = FileState(after[path], changed.read(path)) if path in after else None
        yield format_change(path, old, new)


def _listed(tree: Tree) -> dict[bytes, Kind]:
    """Return every file and link of a tree."""
    found: dict[bytes, Kind] = {}
    waiting = [b""]
    while waiting:
        place = waiting.pop()
        for inner in tree.names(place):
            path = join(place, inner)
            kind = tree.look(path)
            if is_repository(inner) or kind is None:
                continue
            if kind is Kind.DIRECTORY:
                waiting.append(path)
            elif kind is not Kind.OTHER:
                found[path] = kind
    return found


def format_change(path: bytes, old: FileState | None, new: FileState | None) -> bytes:
    """Return the file patch that turns `old` into `new`; a file that becomes a link is removed and made anew."""
    if old == new:
        return b""
    if old is not None and new is not None and (old.kind is Kind.SYMLINK) != (new.kind is Kind.SYMLINK):
        return format_change(path, old, None) + format_change(path, None, new)
    head = [b"diff --git %s %s\n" % (quote(b"a/" + path), quote(b"b/" + path))]
    if old is None and new is not None:
        head.append(b"new file mode %o\n" % new.kind)
    elif new is None and old is not None:
        head.append(b"deleted file mode %o\n" % old.kind)
    elif old is not None and new is not None and old.kind is not new.kind:
        head.append(b"old mode %o\nnew mode %o\n" % (old.kind, new.kind))
    before, after = old.content if old else b"", new.content if new else b""
    if old is not None and new is not None and before == after:
        return b"".join(head)
    ids = (_NO_ID if old is None else blob_id(before), _NO_ID if new is None else blob_id(after))
    kind = b" %o" % old.kind if old is not None and new is not None and old.kind is new.kind else b""
    head.append(b"index %s..%s%s\n" % (*ids, kind))
    if before == after:
        return b"".join(head)
    if _is_binary(before) or _is_binary(after):
        return b"".join([*head, b"GIT binary patch\n", format_binary_hunk(after)])
    head.append(b"--- %s\n" % _name(b"a/", path, old))
    head.append(b"+++ %s\n" % _name(b"b/", path, new))
    return b"".join([*head, *_hunks(split_lines(before), split_lines(after))])


def _name(prefix: bytes, path: bytes, file: FileState | None) -> bytes:
    if file is None:
        return b"/dev/null"
    quoted = quote(prefix + path)
    return quoted + b"\t" if b" " in quoted and not quoted.startswith(b'"') else quoted


def _is_binary(content: bytes) -> bool:
    return b"\0" in content[:_SNIFFED_BYTES] or len(content) > _MAX_TEXT_BYTES


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    for group in _groups(compare_lines(old, new)):
        first, last = group[0], group[-1]
        old_range, new_range = _range(first.old_start, last.old_end), _range(first.new_start, last.new_end)
        yield b"@@ -%s +%s @@\n" % (old_range, new_range)
        for span in group:
            if span.is_equal:
                yield from (_marked(b" ", line) for line in old[span.old_start : span.old_end])
                continue
            yield from (_marked(b"-", line) for line in old[span.old_start : span.old_end])
            yield from (_marked(b"+", line) for line in new[span.new_start : span.new_end])


def _marked(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + b"\n" + _END


def _range(start: int, end: int) -> bytes:
    size = end - start
    return b"%d,%d" % (start + 1 if size else start, size)


def _groups(spans: list[Span]) -> Iterator[list[Span]]:
    """Split spans into hunks with three lines of context; changes at most six lines apart share one."""
    group: list[Span] = []
    for span in spans:
        size = span.old_end - span.old_start
        if span.is_equal and size > 2 * _CONTEXT and any(not one.is_equal for one in group):
            yield [*group, _first_lines(span)]
            group = []
        group.append(span if group or not span.is_equal else _last_lines(span))
    if group and group[-1].is_equal:
        group[-1] = _first_lines(group[-1])
    if any(not span.is_equal for span in group):
        yield group


def _first_lines(span: Span) -> Span:
    size = min(_CONTEXT, span.old_end - span.old_start)
    return replace(span, old_end=span.old_start + size, new_end=span.new_start + size)


def _last_lines(span: Span) -> Span:
    size = min(_CONTEXT, span.old_end - span.old_start)
    return replace(span, old_start=span.old_end - size, new_start=span.new_end - size)
