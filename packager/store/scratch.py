"""Working folders below the store; what a killed command leaves there is deleted by the next command."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from packager.base.files import disk_trouble
from packager.store.trees import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def scratch_folder(store_root: Path) -> Iterator[Path]:
    """Make an empty folder on the store's file system; it is gone when the context ends.

    It is locked meanwhile, so that the collection can tell it from what a killed command left.
    """
    parent = store_root / "tmp"
    folder = parent / f"scratch-{os.urandom(8).hex()}"
    with disk_trouble(parent):
        parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    mark = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(mark, fcntl.LOCK_EX)
        yield folder
    finally:
        remove_tree(folder)
        os.close(mark)
