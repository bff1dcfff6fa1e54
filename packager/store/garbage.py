"""Deletes what nothing names; the caller holds the store for itself."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.store.trees import discard_tree, remove_tree

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from pathlib import Path


@dataclass(frozen=True)
class Garbage:
    """What a collection deleted; `others`: repositories and what was set aside; `left_bytes`, if it was measured."""

    blobs: int = 0
    size_bytes: int = 0
    trees: int = 0
    temporaries: int = 0
    others: int = 0
    left_bytes: int | None = None


def collect(root: Path, keep: AbstractSet[str]) -> Garbage:
    """Delete blobs and trees not named by `keep`, and what killed commands left in `tmp/`."""
    blobs, size = _collect_blobs(root / "blobs" / "sha256", keep)
    trees = _collect_trees(root / "trees", keep, scratch=root / "tmp")
    return Garbage(blobs, size, trees, sweep_temporaries(root / "tmp"))


def sweep_temporaries(folder: Path, *, spare: str | None = None) -> int:
    """Delete temporary files whose writer is gone, and half-filled trees; return how many.

    Names that begin with `spare` stay: what they hold is continued.
    """
    count = 0
    for path in _list(folder):
        if (spare is not None and path.name.startswith(spare)) or not _is_abandoned(path):
            continue
        count += 1
        if path.is_dir():
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    return count


def _is_abandoned(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _collect_blobs(folder: Path, keep: AbstractSet[str]) -> tuple[int, int]:
    count, size = 0, 0
    for path in _list(folder):
        if f"sha256:{path.name}" in keep:
            continue
        size += path.stat().st_size
        path.unlink(missing_ok=True)
        count += 1
    return count, size


def _collect_trees(folder: Path, keep: AbstractSet[str], *, scratch: Path) -> int:
    gone = [path for path in _list(folder) if path.name not in keep]
    left = sum(not discard_tree(path, scratch=scratch) for path in gone)
    if left:
        raise WorldError(
            f"{left} of {len(gone)} trees could not be deleted",
            where=str(scratch),
            hint="run it as the user who unpacked them; what his subordinate ids own takes newuidmap to delete",
        )
    return len(gone)


def _list(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
