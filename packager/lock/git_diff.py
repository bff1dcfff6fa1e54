"""The patch between two trees: we say which files differ, git writes the hunks of text under fixed settings.

Binary files are written by ourselves, as whole `literal` hunks of stored zlib blocks: git's own would show the
version of its compressor.
"""

from __future__ import annotations

import base64
import stat
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.lock.git_objects import MissingObjectError, ObjectId, ObjectReader, TreeItem
from packager.lock.git_pack import stored_stream
from packager.oci.entries import show_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.lock.git_globs import Globs
    from packager.lock.git_runner import GitDirectory

_OPTIONS = (
    "-r", "-p", "--text", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "-U3",
    "--inter-hunk-context=0", "--diff-algorithm=myers", "--no-indent-heuristic", "--src-prefix=a/", "--dst-prefix=b/",
    "--submodule=short", "--ignore-submodules=none", "--no-relative",
)  # fmt: skip

_AT_ONCE = 200  # paths a call: the arguments of one process are bounded
_BINARY_PROBE_BYTES = 8000  # as git: a NUL byte so early makes a file binary
_LINE_BYTES = 52
_NO_ID = ObjectId("0" * 40)
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}

Sides = tuple[TreeItem | None, TreeItem | None]


def diff_trees(directory: GitDirectory, old: ObjectId, new: ObjectId, globs: Globs) -> bytes:
    """Return a patch with full object ids and without renames, files sorted by path."""
    out: list[bytes] = []
    waiting: list[bytes] = []

    def flush() -> None:
        if waiting:
            out.append(directory.run_ok("diff-tree", *_OPTIONS, old, new, "--", pathspecs=waiting))
            waiting.clear()

    with ObjectReader(directory) as reader:
        changed = {path: sides for path, sides in list_changes(reader, old, new) if globs.match(path)}
        for path, sides in sorted(changed.items()):
            contents = _read_sides(reader, path, sides)
            if _is_binary(sides, contents):
                flush()
                out.append(_format_binary(path, sides, contents))
                continue
            waiting.append(path)
            if len(waiting) == _AT_ONCE:
                flush()
        flush()
    return b"".join(out)


def list_changes(reader: ObjectReader, old: ObjectId, new: ObjectId) -> Iterator[tuple[bytes, Sides]]:
    """Yield each file or submodule that two trees do not share; equal folders are not read."""
    pending: list[tuple[bytes, ObjectId | None, ObjectId | None]] = [(b"", old, new)]
    while pending:
        prefix, *ids = pending.pop()
        ours, theirs = ({item.name: item for item in reader.tree(name)} if name else {} for name in ids)
        for name in ours.keys() | theirs.keys():
            one, two = ours.get(name), theirs.get(name)
            if one == two:
                continue
            folders = [item.id if item and item.is_tree else None for item in (one, two)]
            if any(folders):
                pending.append((prefix + name + b"/", folders[0], folders[1]))
            sides = (one if one and not one.is_tree else None, two if two and not two.is_tree else None)
            if any(sides):
                yield prefix + name, sides


def _read_sides(reader: ObjectReader, path: bytes, sides: Sides) -> tuple[bytes, bytes]:
    """Return both contents; so git, which reads them again, works on bytes that were hashed."""
    contents = []
    for item in sides:
        try:
            contents.append(b"" if item is None or item.is_submodule else reader.read(item.id, "blob"))
        except MissingObjectError as error:
            raise WorldError(f"the source lacks blob {error.name} of {show_path(path)}", where="git source") from error
    return contents[0], contents[1]


def _is_binary(sides: Sides, contents: tuple[bytes, bytes]) -> bool:
    kinds = {stat.S_IFMT(item.mode) for item in sides if item}
    return kinds == {stat.S_IFREG} and any(b"\0" in content[:_BINARY_PROBE_BYTES] for content in contents)


def _format_binary(path: bytes, sides: Sides, contents: tuple[bytes, bytes]) -> bytes:
    one, two = sides
    names = [_quote(prefix + path) for prefix in (b"a/", b"b/")]
    lines = [f"diff --git {names[0]} {names[1]}"]
    modes = [item and (0o100755 if item.mode & 0o100 else 0o100644) for item in sides]
    same_mode = ""
    if one is None:
        lines.append(f"new file mode {modes[1]:o}")
    elif two is None:
        lines.append(f"deleted file mode {modes[0]:o}")
    elif modes[0] != modes[1]:
        lines += [f"old mode {modes[0]:o}", f"new mode {modes[1]:o}"]
    else:
        same_mode = f" {modes[0]:o}"
    ids = [item.id if item else _NO_ID for item in sides]
    if ids[0] == ids[1]:
        return ("\n".join(lines) + "\n").encode()
    lines += [f"index {ids[0]}..{ids[1]}{same_mode}", "GIT binary patch"]
    return ("\n".join(lines) + "\n").encode() + _literal(contents[1]) + _literal(contents[0])


def _literal(content: bytes) -> bytes:
    packed = b"".join(stored_stream([content], len(content)))
    out = [b"literal %d\n" % len(content)]
    for place in range(0, len(packed), _LINE_BYTES):
        piece = packed[place : place + _LINE_BYTES]
        length = len(piece) + (64 if len(piece) <= 26 else 70)  # noqa: PLR2004 - A to Z, then a to z
        out.append(bytes([length]) + base64.b85encode(piece, pad=True) + b"\n")
    return b"".join(out) + b"\n"


def _quote(path: bytes) -> str:
    """Return a path as git prints it under core.quotePath: plain, or in quotes with C escapes."""
    out = []
    for byte in path:
        if byte in _ESCAPES:
            out.append("\\" + _ESCAPES[byte])
        else:
            out.append(chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")  # noqa: PLR2004 - printable ASCII
    text = "".join(out)
    return f'"{text}"' if "\\" in text else text
