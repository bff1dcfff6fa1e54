"""Trees of files as values: written to a directory, read back, and drawn at random."""

# ruff: noqa: PTH114, PTH115, PTH118, PTH123 - names are bytes, and must stay so

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from packager.evaluate.trees import DirectoryTree, Kind

if TYPE_CHECKING:
    from pathlib import Path

Files = dict[bytes, tuple[Kind, bytes]]

_NAMES = st.sampled_from([b"a", b"b", b"c d", b"e.txt", b"\xc3\xa9", b"\xff\xfe", b'q"\\', b"t\tn", b"-x", b"nl\n"])
_LINES = st.lists(
    st.sampled_from([b"one\n", b"two\n", b"\n", b"three\r\n", b"+x\n", b"-y\n", b"\\ z\n", b"@@ -1 +1 @@\n", b" \n"]),
    max_size=25,
).map(b"".join)
_TEXT = st.builds(bytes.__add__, _LINES, st.sampled_from([b"", b"", b"no end", b"-", b"\r"]))
_BINARY = st.builds(bytes.__add__, st.just(b"\0"), st.binary(max_size=300))
_CONTENT = st.one_of(_TEXT, _TEXT, _TEXT, _BINARY, st.just(b""))
_FILE = st.tuples(st.sampled_from([Kind.FILE, Kind.FILE, Kind.PROGRAM]), _CONTENT)
_LINK = st.tuples(st.just(Kind.SYMLINK), st.sampled_from([b"a", b"../b", b"/etc/passwd", b"x\ny"]))
_PATH = st.lists(_NAMES, min_size=1, max_size=3).map(b"/".join)


@st.composite
def file_trees(draw: st.DrawFn) -> Files:
    """Draw a few files and links, none of which is a directory of another."""
    found = draw(st.dictionaries(_PATH, st.one_of(_FILE, _FILE, _LINK), max_size=6))
    return {path: one for path, one in found.items() if not any(path.startswith(other + b"/") for other in found)}


@st.composite
def edited(draw: st.DrawFn, files: Files) -> Files:
    """Draw a change of `files`: some edited, some moved, some gone, some new."""
    result: Files = {}
    for path, (kind, content) in files.items():
        action = draw(st.sampled_from(["keep", "keep", "edit", "edit", "mode", "delete", "move", "replace"]))
        if action == "edit" and kind is not Kind.SYMLINK:
            lines = content.splitlines(keepends=True)
            at = draw(st.integers(0, len(lines)))
            lines[at : at + draw(st.integers(0, 2))] = [draw(st.sampled_from([b"new\n", b"two\n", b"other"]))]
            result[path] = (kind, b"".join(lines))
        elif action == "mode" and kind is not Kind.SYMLINK:
            result[path] = (Kind.PROGRAM if kind is Kind.FILE else Kind.FILE, content)
        elif action == "move":
            result[path + b".moved"] = (kind, content)
        elif action == "replace":
            result[draw(_PATH)] = draw(st.one_of(_FILE, _LINK))
        elif action != "delete":
            result[path] = (kind, content)
    result.update(draw(file_trees()))
    return {path: one for path, one in result.items() if not any(path.startswith(other + b"/") for other in result)}


def write_files(root: Path, files: Files) -> Path:
    """Write files below `root`, which is made."""
    root.mkdir(parents=True, exist_ok=True)
    with DirectoryTree(root) as tree:
        for path, (kind, content) in files.items():
            tree.write(path, content, kind)
    return root


def read_files(root: Path) -> Files:
    """Read every file below `root` but .git, as git sees them."""
    found: Files = {}
    base = os.fsencode(root)
    for place, folders, names in os.walk(base):
        folders[:] = [one for one in folders if one != b".git"]
        for name in [*names, *(one for one in folders if os.path.islink(os.path.join(place, one)))]:
            full = os.path.join(place, name)
            relative = os.path.relpath(full, base)
            if os.path.islink(full):
                found[relative] = (Kind.SYMLINK, os.readlink(full))
                continue
            with open(full, "rb") as stream:
                is_program = bool(os.fstat(stream.fileno()).st_mode & 0o100)
                found[relative] = (Kind.PROGRAM if is_program else Kind.FILE, stream.read())
    return found
