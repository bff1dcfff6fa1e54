"""Recognises a build with nothing to do from the bytes of its files alone, without parsing any of them."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.canonical import format_canonical
from packager.base.digests import Digest, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PACKAGE = Path(__file__).parents[1]


def files_digest(names: Iterable[str], *, root: Path) -> str:
    """Return a digest over names (relative to `root`) and bytes of files; a missing one counts as such."""
    found = hashlib.sha256()
    for name in sorted(set(names)):
        try:
            with open(f"{root}/{name}", "rb", buffering=0) as stream:  # noqa: PTH123 - pathlib doubles the time
                content = hashlib.sha256(stream.readall()).hexdigest()
        except (FileNotFoundError, IsADirectoryError):
            content = "absent"
        found.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


@cache
def code_digest() -> str:
    """Return the digest of this package's own source: another version may build other bytes."""
    return files_digest((name for name in _below(_PACKAGE, "") if name.endswith(".py")), root=_PACKAGE)


def task_files(root: Path, task: str, platform: str) -> list[str]:
    """Return the files that a task's image depends on: recipe and its folder, templates, lock, expected tests."""
    place = platform.replace("/", "-")
    beside = (name for name in _below(root, f"recipes/{task}/") if "/bundles/" not in name)
    templates = (name for name in _below(root, "images/") if name.endswith(".j2") and name.count("/") == 1)
    locks = (f"lockfiles/{task}.{place}.{kind}.json" for kind in ("lock", "expected"))
    return [f"recipes/{task}.yaml", *beside, *templates, *locks]


def _below(root: Path, folder: str) -> Iterator[str]:
    """Yield the files below a folder by their names relative to `root`; caches of byte code are passed over."""
    try:
        found = os.scandir(f"{root}/{folder}")
    except FileNotFoundError:
        return
    with found:
        for entry in found:
            if entry.is_file():
                yield f"{folder}{entry.name}"
            elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                yield from _below(root, f"{folder}{entry.name}/")


def build_key(root: Path, task: str, *, platform: str, secret: bytes) -> Digest:
    """Return the key of a whole build; `secret` is what the seal is derived from and does not show in it."""
    parts = {
        "kind": "build",
        "task": task,
        "platform": platform,
        "files": files_digest(task_files(root, task, platform), root=root),
        "code": code_digest(),
        "secret": hashlib.sha256(b"build key\0" + secret).hexdigest(),
    }
    return digest_of(format_canonical(parts))
