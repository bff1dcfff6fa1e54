"""Makes the store small enough: what was not used for longest goes first; the caller holds the store for itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.store.garbage import Garbage, sweep_temporaries
from packager.store.trees import discard_tree
from packager.store.uses import forget_uses, last_use_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet
    from pathlib import Path

_SOURCES = ("git", "git/packs")
"""Folders whose own folders can be made or fetched again: repositories, and packs written from them."""


@dataclass(frozen=True, order=True)
class _Item:
    """Something that can be had again: when it was last used, where it is, its size, and its kind."""

    used_s: float
    path: Path
    size_bytes: int
    kind: str


def shrink(root: Path, keep: AbstractSet[str], *, max_bytes: int, spare: str) -> Garbage:
    """Delete blobs, trees, repositories and what was set aside until no more than `max_bytes` are left.

    What `keep` names stays, whatever its size. Names in `tmp/` that begin with `spare` are downloads to be continued.
    """
    temporaries = sweep_temporaries(root / "tmp", spare=spare)
    left = measure(root)
    done = {"blobs": 0, "trees": 0, "others": 0}
    freed = 0
    for item in sorted(_items(root, keep)):
        if left <= max_bytes:
            break
        if not _delete(item, scratch=root / "tmp"):
            continue
        forget_uses(root, item.path)
        done[item.kind] += 1
        freed += item.size_bytes
        left -= item.size_bytes
    return Garbage(size_bytes=freed, temporaries=temporaries, left_bytes=left, **done)


def measure(path: Path) -> int:
    """Return the bytes of all files below a folder; a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    size = 0
    for status in _statuses(os.fspath(path)):
        if status.st_nlink == 1 or (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            size += status.st_size
    return size


def _statuses(folder: str) -> Iterator[os.stat_result]:
    """Yield the status of everything below a folder but folders; what may not be read is passed over."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = list(entries)
        except OSError:
            continue
        waiting.extend(entry.path for entry in found if entry.is_dir(follow_symlinks=False))
        yield from (entry.stat(follow_symlinks=False) for entry in found if not entry.is_dir(follow_symlinks=False))


def _items(root: Path, keep: AbstractSet[str]) -> Iterator[_Item]:
    yield from _below(root, "blobs/sha256", "blobs", lambda path: f"sha256:{path.name}" not in keep)
    yield from _below(root, "trees", "trees", lambda path: path.name not in keep)
    yield from _below(root, "quarantine", "others", lambda _: True)
    for folder in _SOURCES:
        yield from _below(root, folder, "others", lambda path: path.is_dir() and path.name != "packs")


def _below(root: Path, folder: str, kind: str, wanted: Callable[[Path], bool]) -> Iterator[_Item]:
    place = root / folder
    for path in place.iterdir() if place.is_dir() else ():
        if wanted(path):
            size = measure(path) if path.is_dir() else path.lstat().st_size
            yield _Item(last_use_s(root, path), path, size, kind)


def _delete(item: _Item, *, scratch: Path) -> bool:
    if item.path.is_dir():
        return discard_tree(item.path, scratch=scratch)
    item.path.unlink(missing_ok=True)
    return True
