"""What changed between two trees, by content; the tree as an engine left it becomes the entries of a layer."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.digests import BLOCK_BYTES
from packager.base.errors import InputError
from packager.oci.capability import read_capability
from packager.oci.dropped import DROPPED, NOTHING_DROPPED, Dropped
from packager.oci.entries import WHITEOUT_PREFIX, Entry, InOrder, Kind, missing_ancestors, show_path, sort_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_FILE_BYTES = 64 << 30
"""No layer with a larger file could be unpacked again (unpack.DEFAULT_LIMIT)."""

OPAQUE_ATTRIBUTES = ("trusted.overlay.opaque", "user.overlay.opaque")
_REFUSED_ATTRIBUTES = tuple(
    f"{space}.overlay.{name}" for space in ("trusted", "user") for name in ("redirect", "metacopy")
)


@dataclass(frozen=True, slots=True)
class _Node:
    """A path of a tree on disk and its status."""

    path: bytes
    place: bytes
    status: os.stat_result


def scan_tree(root: Path, dropped: Dropped = DROPPED) -> InOrder:
    """Return every entry of a tree in canonical order, without the root and without what `dropped` names."""
    links: dict[tuple[int, int], bytes] = {}
    nodes = _walk(os.fsencode(root), b"", dropped)
    return InOrder(_entry_of(node, node.place, links) for node in nodes)


def scan_layer(root: Path) -> InOrder:
    """Return every entry of a layer as it lies unpacked for overlayfs: its whiteouts are devices without a number."""
    links: dict[tuple[int, int], bytes] = {}
    nodes = _walk(os.fsencode(root), b"", NOTHING_DROPPED)
    return InOrder(
        Entry(node.path, Kind.WHITEOUT) if _is_overlay_whiteout(node.status) else _entry_of(node, node.place, links)
        for node in nodes
    )


def diff_trees(lower: Path | None, merged: Path, *, upper: Path | None = None) -> list[Entry]:
    """Return what a layer over `lower` must hold so that it becomes `merged`, in canonical order.

    Entries whose kind, mode, owner, link, content or capability changed, explicit whiteouts, and all their ancestor
    directories. With `upper` (overlayfs) only what was written is walked; without it both trees are.
    """
    if lower is None:
        return list(scan_tree(merged))
    comparison = _Comparison(os.fsencode(lower), os.fsencode(merged))
    if upper is None:
        comparison.compare_trees(b"")
    else:
        comparison.compare_upper(os.fsencode(upper), b"", hidden=False)
    return comparison.result()


def scan_unpacked(layer: Path, below: Sequence[Path]) -> list[Entry]:
    """Return every entry of an unpacked layer in overlayfs form, deletions included; `below` lies under it.

    An opaque directory becomes deletions of all names that the layers below have there.
    """
    root = os.fsencode(layer)
    links: dict[tuple[int, int], bytes] = {}
    found: list[Entry] = []
    for node in _walk(root, b"", NOTHING_DROPPED):
        if _is_overlay_whiteout(node.status):
            found.append(Entry(node.path, Kind.WHITEOUT))
            continue
        found.append(_entry_of(node, node.place, links))
        if stat.S_ISDIR(node.status.st_mode) and _is_opaque(node.place):
            found.extend(_hidden_below(node, below))
    return sorted(found, key=sort_key)


def _hidden_below(node: _Node, below: Sequence[Path]) -> Iterator[Entry]:
    names: set[bytes] = set()
    for layer in below:
        place = os.fsencode(layer) + b"/" + node.path
        if os.path.isdir(place) and not os.path.islink(place):  # noqa: PTH112, PTH114 - paths are bytes
            names.update(os.listdir(place))  # noqa: PTH208
    for name in sorted(names - set(os.listdir(node.place))):  # noqa: PTH208
        yield Entry(node.path + b"/" + name, Kind.WHITEOUT)


class _Comparison:
    """Gathers the differences of two trees."""

    def __init__(self, lower: bytes, merged: bytes) -> None:
        self._lower = lower
        self._merged = merged
        self._changed: dict[bytes, _Node | None] = {}

    def compare_trees(self, path: bytes) -> None:
        """Compare a directory that both trees have."""
        before = _children(self._lower, path, DROPPED)
        after = _children(self._merged, path, DROPPED)
        self._delete(before, after)
        for name in sorted(after):
            node = after[name]
            old = before.get(name)
            if self._note(old, node) and stat.S_ISDIR(node.status.st_mode):
                self.compare_trees(node.path)

    def compare_upper(self, upper: bytes, path: bytes, *, hidden: bool) -> None:
        """Compare a directory of the overlay's upper tree; `hidden`: nothing of the lower one shows through."""
        before = _children(self._lower, path, DROPPED)
        after = _children(upper, path, DROPPED)
        hidden = hidden or _is_opaque(upper + b"/" + path if path else upper)
        gone = {name for name, node in after.items() if _is_overlay_whiteout(node.status)}
        if hidden:
            gone.update(name for name in before if name not in after)
        self._changed.update((before[name].path, None) for name in gone if name in before)
        for name in sorted(after.keys() - gone):
            node = after[name]
            if self._note(before.get(name), node) and stat.S_ISDIR(node.status.st_mode):
                self.compare_upper(upper, node.path, hidden=hidden)

    def _delete(self, before: dict[bytes, _Node], after: dict[bytes, _Node]) -> None:
        self._changed.update((node.path, None) for name, node in before.items() if name not in after)

    def _note(self, old: _Node | None, node: _Node) -> bool:
        """Record a node that is new or changed, whole if there was no directory; say whether to look inside."""
        if old is None or stat.S_IFMT(old.status.st_mode) != stat.S_IFMT(node.status.st_mode):
            self._changed[node.path] = node
            if stat.S_ISDIR(node.status.st_mode):
                root = node.place[: len(node.place) - len(node.path) - 1]
                self._changed.update((inner.path, inner) for inner in _walk(root, node.path, DROPPED))
            return False
        if not _same(old, node):
            self._changed[node.path] = node
        return True

    def result(self) -> list[Entry]:
        """Return the entries, ancestors included."""
        for parent in missing_ancestors(self._changed):
            place = self._merged + b"/" + parent
            self._changed[parent] = _Node(parent, place, os.lstat(place))
        links: dict[tuple[int, int], bytes] = {}
        found = [Entry(path, Kind.WHITEOUT) for path, node in self._changed.items() if node is None]
        nodes = [node for node in self._changed.values() if node is not None]
        nodes.sort(key=lambda node: node.path.replace(b"/", b"\0"))
        found.extend(
            _entry_of(node, self._merged + b"/" + node.path, links)
            for node in nodes
            if not _is_overlay_whiteout(node.status)
        )
        return sorted(found, key=sort_key)


def _children(root: bytes, path: bytes, dropped: Dropped) -> dict[bytes, _Node]:
    """Return the entries of a directory by name, without what is dropped and without sockets."""
    place = root + b"/" + path if path else root
    before = path + b"/" if path else b""
    found: dict[bytes, _Node] = {}
    if dropped.inside(path):
        return found
    with os.scandir(place) as entries:
        for entry in entries:
            name = entry.name
            inner = before + name
            if dropped.names(inner, path):
                continue
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISSOCK(status.st_mode):
                found[name] = _Node(inner, entry.path, status)
    return found


def _walk(root: bytes, path: bytes, dropped: Dropped) -> Iterator[_Node]:
    """Yield everything below a directory in canonical order."""
    children = _children(root, path, dropped)
    pending = [children[name] for name in sorted(children, reverse=True)]
    while pending:
        node = pending.pop()
        yield node
        if stat.S_ISDIR(node.status.st_mode):
            children = _children(root, node.path, dropped)
            pending.extend(children[name] for name in sorted(children, reverse=True))


def _entry_of(node: _Node, place: bytes, links: dict[tuple[int, int], bytes]) -> Entry:
    """Return the entry of a node whose content is read at `place` (an overlay's upper tree may hold less than it)."""
    status = node.status
    path, mode = node.path, status.st_mode
    if path.rpartition(b"/")[2].startswith(WHITEOUT_PREFIX):
        raise InputError(
            "a name that starts with .wh. means a deletion in a layer and cannot be stored",
            where=show_path(path),
            hint="remove the file in the step that makes it, or give it another name",
        )
    bits = stat.S_IMODE(mode)
    if stat.S_ISREG(mode):
        if status.st_size > MAX_FILE_BYTES:
            raise InputError(
                f"expected a file of at most {MAX_FILE_BYTES >> 30} GiB, found one of {status.st_size >> 30} GiB",
                where=show_path(path),
                hint="a sparse file has its whole length in a layer: delete it in the step that makes it",
            )
        if status.st_nlink > 1:
            first = links.setdefault((status.st_dev, status.st_ino), path)
            if first != path:
                return Entry(path, Kind.HARDLINK, bits, status.st_uid, status.st_gid, link=first)
        return Entry(
            path,
            Kind.FILE,
            bits,
            status.st_uid,
            status.st_gid,
            status.st_size,
            capability=read_capability(place),
            content=Path(os.fsdecode(place)),
        )
    if stat.S_ISDIR(mode):
        return Entry(path, Kind.DIR, bits, status.st_uid, status.st_gid)
    if stat.S_ISLNK(mode):
        return Entry(path, Kind.SYMLINK, 0o777, status.st_uid, status.st_gid, link=os.readlink(place))  # noqa: PTH115 - paths are bytes
    raise InputError(
        f"expected files, directories and links, found a {_kind_name(mode)}",
        where=show_path(path),
        hint="remove it in the step that makes it; devices and pipes have no place in a task's image",
    )


def _kind_name(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "named pipe"
    return "character device" if stat.S_ISCHR(mode) else "block device"


def _same(old: _Node, new: _Node) -> bool:
    a, b = old.status, new.status
    if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino):
        return True
    if (a.st_uid, a.st_gid) != (b.st_uid, b.st_gid):
        return False
    if stat.S_ISLNK(a.st_mode):
        return os.readlink(old.place) == os.readlink(new.place)  # noqa: PTH115 - paths are bytes
    if stat.S_IMODE(a.st_mode) != stat.S_IMODE(b.st_mode):
        return False
    if not stat.S_ISREG(a.st_mode):
        return stat.S_ISDIR(a.st_mode)
    return (
        a.st_size == b.st_size
        and read_capability(old.place) == read_capability(new.place)
        and _same_bytes(old.place, new.place)
    )


def _same_bytes(one: bytes, other: bytes) -> bool:
    with open(one, "rb", buffering=0) as a, open(other, "rb", buffering=0) as b:  # noqa: PTH123 - paths are bytes
        while True:
            block = a.read(BLOCK_BYTES)
            if block != b.read(BLOCK_BYTES):
                return False
            if not block:
                return True


def _is_overlay_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _is_opaque(place: bytes) -> bool:
    names = os.listxattr(place, follow_symlinks=False)
    refused = [name for name in names if name in _REFUSED_ATTRIBUTES]
    if refused:
        raise InputError(
            f"the overlay left {refused[0]}, so its upper tree is not whole",
            where=os.fsdecode(place),
            hint="mount it with redirect_dir=off,metacopy=off,index=off,xino=off",
        )
    return any(name in names for name in OPAQUE_ATTRIBUTES)
