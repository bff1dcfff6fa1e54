"""The answer of a task as its recipe describes it: the gold patch and the hidden test files of each target."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.oci.entries import Kind, file_entry
from packager.oci.tar_writer import write_tar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.lock.git import GitRepository
    from packager.lock.repositories import Repositories
    from packager.recipe.model import Recipe, Target

HiddenFiles = dict[str, tuple[int, bytes]]
"""Path in the checkout → (mode, bytes)."""


def read_gold(recipe: Recipe, target: Target, repositories: Repositories) -> bytes:
    """Return the gold patch of a target: the change's own diff, never base..gold."""
    gold = target.gold
    if gold.patch is not None:
        return recipe.file(gold.patch).read_bytes()
    if gold.commit is None:
        raise InputError("gold needs a commit or a patch", where=f"{recipe.id}: {target.name}")
    repository = repositories.repository(target.name, gold.commit)
    start = gold.from_commit or _first_parent(repository, gold.commit)
    patch = repository.diff(start, gold.commit, include=gold.include, exclude=gold.exclude)
    if not patch:
        raise InputError(
            f"the gold patch {start[:12]}..{gold.commit[:12]} is empty",
            where=f"{recipe.id}: {target.name}",
            hint="look at gold.from, include and exclude",
        )
    return patch


def read_hidden(recipe: Recipe, target: Target, repositories: Repositories) -> HiddenFiles:
    """Return the hidden test files of a target: those of a commit, then those of a folder laid over them."""
    found: HiddenFiles = {}
    hidden = target.hidden
    if hidden.commit is not None:
        repository = repositories.repository(target.name, hidden.commit)
        found.update(_from_commit(repository, hidden.commit, hidden.paths))
    if hidden.files is not None:
        folder = recipe.file(hidden.files)
        found.update(_from_folder(folder))
    if not found:
        raise InputError(
            "no hidden test file was found", where=f"{recipe.id}: {target.name}", hint="look at hidden.paths"
        )
    return dict(sorted(found.items()))


def hidden_tar(files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Return hidden files as one canonical tar, whose digest the lock pins."""
    blocks: list[bytes] = []
    entries = (
        file_entry(path.encode("utf-8", "surrogateescape"), data, mode=mode) for path, (mode, data) in files.items()
    )
    write_tar(entries, blocks.append)
    return b"".join(blocks)


def _first_parent(repository: GitRepository, commit: str) -> str:
    parents = repository.commit(commit).parents
    if not parents:
        raise InputError("the gold commit has no parent", where=repository.name, hint="name gold.from")
    return parents[0]


def _from_commit(
    repository: GitRepository, commit: str, globs: tuple[str, ...]
) -> Iterator[tuple[str, tuple[int, bytes]]]:
    for entry in repository.tree_entries(commit, include=globs):
        path = entry.path.decode("utf-8", "surrogateescape")
        if entry.kind is not Kind.FILE:
            raise InputError("a hidden test is not a plain file", where=f"{repository.name}: {path}")
        content = entry.content
        yield path, (entry.mode, content.read_bytes() if isinstance(content, Path) else content or b"")


def _from_folder(folder: Path) -> Iterator[tuple[str, tuple[int, bytes]]]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise InputError("a hidden file is a symbolic link", where=str(path), hint="put the file itself there")
        if path.is_file():
            mode = 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644
            yield path.relative_to(folder).as_posix(), (mode, path.read_bytes())
