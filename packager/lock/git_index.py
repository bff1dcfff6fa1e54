"""Our own `.git/index`, version 2 with the TREE extension and no stat data: what `git read-tree HEAD` writes."""

from __future__ import annotations

import hashlib
import stat
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.lock.git_objects import ObjectId
    from packager.lock.git_tree import TreeFile

_NAME_LIMIT = 0xFFF


def format_index(root: ObjectId, items: Sequence[TreeFile]) -> bytes:
    """Return the index of a tree; `items` holds its directories too, in the order of the index (gitformat-index(5))."""
    files = sorted((item for item in items if not item.is_tree), key=lambda item: item.path)
    body = b"DIRC" + struct.pack(">II", 2, len(files)) + b"".join(_format_entry(item) for item in files)
    tree = _format_tree_extension(root, items)
    body += b"TREE" + struct.pack(">I", len(tree)) + tree
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _format_entry(item: TreeFile) -> bytes:
    length = min(len(item.path), _NAME_LIMIT)
    head = bytes(24) + struct.pack(">I", _index_mode(item.mode)) + bytes(12)
    entry = head + bytes.fromhex(item.id) + struct.pack(">H", length) + item.path
    return entry + bytes(8 - len(entry) % 8)


def _index_mode(mode: int) -> int:
    if stat.S_ISREG(mode):
        return 0o100755 if mode & 0o100 else 0o100644
    return mode & 0o170000


def _format_tree_extension(root: ObjectId, items: Sequence[TreeFile]) -> bytes:
    counts: dict[bytes, int] = {b"": 0}
    children: dict[bytes, list[bytes]] = {b"": []}
    ids = {b"": root}
    for item in items:
        parent = item.path.rpartition(b"/")[0]
        if item.is_tree:
            counts[item.path], children[item.path], ids[item.path] = 0, [], item.id
            children[parent].append(item.path)
        else:
            counts[parent] += 1
    for path in sorted(counts, key=lambda text: -text.count(b"/")):
        if path:
            counts[path.rpartition(b"/")[0]] += counts[path]
    out, pending = [], [b""]
    while pending:
        path = pending.pop()
        name = path.rpartition(b"/")[2]
        out.append(name + b"\0%d %d\n" % (counts[path], len(children[path])) + bytes.fromhex(ids[path]))
        pending += sorted(children[path], key=lambda text: (len(text), text), reverse=True)
    return b"".join(out)
