"""Recognises a build with nothing to do from the bytes of its files alone, without parsing any of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.canonical import format_canonical
from packager.base.digests import Digest, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_PACKAGE = Path(__file__).parents[1]


def files_digest(files: Iterable[Path], *, root: Path) -> str:
    """Return a digest over the names (relative to `root`) and bytes of files; a missing one counts as such."""
    found = hashlib.sha256()
    for path in sorted(set(files)):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "absent"
        found.update(f"{path.relative_to(root)}\0{content}\n".encode())
    return found.hexdigest()


def code_digest() -> str:
    """Return the digest of this package's own source: another version may build other bytes."""
    return files_digest(_PACKAGE.rglob("*.py"), root=_PACKAGE)


def task_files(root: Path, task: str, platform: str) -> list[Path]:
    """Return the files that a task's image depends on: recipe and its folder, templates, lock, expected tests."""
    place = platform.replace("/", "-")
    folder = root / "recipes" / task
    beside = [path for path in folder.rglob("*") if path.is_file() and "bundles" not in path.parts]
    locks = [root / "lockfiles" / f"{task}.{place}.{kind}.json" for kind in ("lock", "expected")]
    return [root / "recipes" / f"{task}.yaml", *beside, *(root / "images").glob("*.j2"), *locks]


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
