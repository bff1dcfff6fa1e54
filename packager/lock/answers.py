"""The answer of a task: the gold patch and the hidden test files of each target, from a recipe or from a lock's blobs.

The recipe says where the answer is; the lock pins its bytes. What lies beside the recipe is always read there; what
comes from a commit is kept in the store by digest, so that a locked task needs no repository any more.
"""

from __future__ import annotations

import io
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.digests import digest_of
from packager.base.errors import InputError, IntegrityError
from packager.lock.hidden_patch import files_of_patch
from packager.lock.model import LockedFiles
from packager.oci.entries import Kind, file_entry
from packager.oci.tar_reader import read_tar
from packager.oci.tar_writer import write_tar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.digests import Digest
    from packager.lock.git import GitRepository
    from packager.lock.model import Lock
    from packager.lock.repositories import Repositories
    from packager.oci.entries import Entry
    from packager.recipe.model import Recipe, Target
    from packager.store.store import Store

LIMIT_BYTES = 256 << 20

HiddenFiles = dict[str, tuple[int, bytes]]
"""Path in the checkout → (mode, bytes)."""


@dataclass(frozen=True)
class Answer:
    """The gold patch and the hidden files of every target."""

    gold: Mapping[str, bytes]
    hidden: Mapping[str, HiddenFiles]

    def files(self, prompt: bytes) -> LockedFiles:
        """Return the digests that a lock keeps."""
        return LockedFiles(
            digest_of(prompt),
            {name: digest_of(patch) for name, patch in self.gold.items()},
            {name: digest_of(hidden_tar(files)) for name, files in self.hidden.items()},
        )


def read_answer(recipe: Recipe, repositories: Repositories) -> Answer:
    """Return the answer that a recipe describes, from its repositories and the files beside it."""
    return Answer(
        {target.name: read_gold(recipe, target, repositories) for target in recipe.targets},
        {target.name: read_hidden(recipe, target, repositories) for target in recipe.targets},
    )


def keep_answer(answer: Answer, store: Store) -> None:
    """Put every gold patch and every tar of hidden files into the store, under the digests that a lock pins."""
    for patch in answer.gold.values():
        store.put(patch)
    for files in answer.hidden.values():
        store.put(hidden_tar(files))


def answer_digests(lock: Lock) -> tuple[Digest, ...]:
    """Return the digests of the blobs that `keep_answer` leaves, in order."""
    return tuple(sorted({*lock.files.gold.values(), *lock.files.hidden.values()}))


def locked_answer(recipe: Recipe, lock: Lock, *, store: Store, repositories: Repositories) -> Answer:
    """Return the answer that a lock pins: from the store's blobs, from the repositories only where those are absent.

    Files beside the recipe that are no longer the ones that were locked raise IntegrityError.
    """
    gold, hidden = {}, {}
    for target in recipe.targets:
        name = target.name
        patch = None if target.gold.commit is None else _kept(store, lock.files.gold.get(name))
        gold[name] = read_gold(recipe, target, repositories) if patch is None else patch
        tar = None if target.hidden.commit is None else _kept(store, lock.files.hidden.get(name))
        hidden[name] = read_hidden(recipe, target, repositories) if tar is None else _unpacked(recipe, target, tar)
    answer = Answer(gold, hidden)
    refuse_other_answer(lock, answer)
    keep_answer(answer, store)
    return answer


def refuse_other_answer(lock: Lock, answer: Answer) -> None:
    """Raise IntegrityError if gold or hidden tests are not the bytes that the lock pins."""
    files = answer.files(b"")
    for what, pinned, found in (("gold", lock.files.gold, files.gold), ("hidden", lock.files.hidden, files.hidden)):
        for target in sorted({*pinned, *found}):
            if pinned.get(target) != found.get(target):
                raise IntegrityError(
                    f"expected {pinned.get(target)}, found {found.get(target)}",
                    where=f"{lock.task}: {what} of {target}",
                    hint=f"wideswe-pack lock --task {lock.task}",
                )


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
    """Return the hidden test files of a target: those of a commit or a patch, then those of a folder laid over them."""
    found: HiddenFiles = {}
    hidden = target.hidden
    if hidden.commit is not None:
        repository = repositories.repository(target.name, hidden.commit)
        found.update(_from_commit(repository, hidden.commit, hidden.paths))
    if hidden.patch is not None:
        repository = repositories.repository(target.name, target.commit)
        found.update(files_of_patch(repository, target.commit, recipe.file(hidden.patch).read_bytes()))
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
    write_tar((file_entry(_bytes(path), data, mode=mode) for path, (mode, data) in files.items()), blocks.append)
    return b"".join(blocks)


def read_manifests_tar(data: bytes) -> list[Entry]:
    """Return the files of a tar that `manifests_tar` wrote."""
    found = []
    for entry, stream in read_tar(io.BytesIO(data)):
        if entry.kind is not Kind.DIR:
            found.append(replace(entry, content=stream.read()) if entry.kind is Kind.FILE else entry)
    return found


def read_hidden_tar(data: bytes) -> HiddenFiles:
    """Return the files of a tar that `hidden_tar` wrote."""
    found: HiddenFiles = {}
    for entry, stream in read_tar(io.BytesIO(data)):
        if entry.kind is Kind.FILE:
            found[entry.path.decode("utf-8", "surrogateescape")] = (entry.mode, stream.read())
    return dict(sorted(found.items()))


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _kept(store: Store, digest: Digest | None) -> bytes | None:
    return store.read(digest, LIMIT_BYTES) if digest is not None and store.has(digest) else None


def _unpacked(recipe: Recipe, target: Target, tar: bytes) -> HiddenFiles:
    """Return the kept files with today's files beside the recipe over them, so that an edit of those is noticed."""
    found = read_hidden_tar(tar)
    if target.hidden.files is not None:
        found.update(_from_folder(recipe.file(target.hidden.files)))
    return dict(sorted(found.items()))


def manifests_tar(entries: Iterable[Entry]) -> bytes:
    """Return manifest files as one canonical tar, whose digest the lock pins."""
    blocks: list[bytes] = []
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
