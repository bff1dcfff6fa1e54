"""The repositories of one recipe: from the locked pack when the store has it, else from where the recipe says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.digests import digest_of_file
from packager.base.errors import InputError, IntegrityError
from packager.lock.git import GitRepository, GitSources, History, snapshot_id
from packager.lock.git_dependencies import open_pack
from packager.lock.git_objects import parse_object_id
from packager.lock.git_tree import Pins
from packager.lock.model import LockedRepo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.lock.git_objects import ObjectId
    from packager.oci.entries import Entry
    from packager.recipe.model import Context, Recipe, Target
    from packager.store.store import Store


@dataclass(frozen=True)
class Checkout:
    """One repository at one commit, as it goes into the image."""

    repository: GitRepository
    commit: str
    history: History

    def tree_entries(self, prefix: bytes) -> list[Entry]:
        """Return the files below `prefix`."""
        return self.repository.tree_entries(self.commit, prefix)

    def git_entries(self, prefix: bytes) -> list[Entry]:
        """Return the canonical `.git` below `prefix`."""
        return self.repository.canonical_git(self.commit, self.history, prefix)

    def pack(self) -> Path:
        """Return the canonical pack."""
        for entry in self.git_entries(b""):
            if entry.path.endswith(b".pack") and isinstance(entry.content, Path):
                return entry.content
        raise InputError("the repository has no pack", where=self.repository.name)


class Repositories:
    """Finds a recipe's repositories by the name of their target or context."""

    def __init__(self, recipe: Recipe, git: GitSources, store: Store) -> None:
        sources: tuple[Target | Context, ...] = (*recipe.targets, *recipe.contexts)
        self._named = {one.name: one for one in sources}
        self._recipe = recipe
        self._git = git
        self._store = store

    def names(self) -> tuple[str, ...]:
        """Return the names of all targets, then of all contexts."""
        return tuple(self._named)

    def repository(self, name: str, commit: str | None = None) -> GitRepository:
        """Return the repository that the recipe names, holding its base commit (or another one)."""
        source = self._named[name]
        bundle = None if source.bundle is None else self._recipe.file(source.bundle)
        found = self._git.obtain(source.repo or "", commit or source.commit, bundle=bundle)
        return found.pinned(self._pins(name))

    def original(self, name: str) -> Checkout:
        """Return the checkout as the recipe's own source gives it."""
        source = self._named[name]
        return Checkout(self.repository(name), source.commit, source.history)

    def locked(self, repo: LockedRepo) -> Checkout:
        """Return the checkout that the lock pins: from its pack if the store has it, else from the recipe's source."""
        if not self._store.has(repo.pack_digest, repo.pack_size):
            self.fetch(repo)
        history = self._named[repo.name].history
        commit = repo.commit if history == "ancestors" else snapshot_id(_object_id(repo.tree))
        return Checkout(self._from_pack(repo), commit, "ancestors")

    def fetch(self, repo: LockedRepo) -> None:
        """Put the locked pack into the store, made again from the recipe's source."""
        pack = self.original(repo.name).pack()
        found = digest_of_file(pack)
        if found != repo.pack_digest:
            raise IntegrityError(
                f"expected the canonical pack {repo.pack_digest}, found {found}",
                where=repo.name,
                hint="the lock was made by another version of wideswe-pack; lock again",
            )
        self._store.put_file(pack)

    def _from_pack(self, repo: LockedRepo) -> GitRepository:
        directory = open_pack(self._store, repo.pack_digest)
        root = self._store.root / "git"
        return GitRepository(repo.name, directory, root, self._store).pinned(self._pins(repo.name))

    def _pins(self, name: str) -> Pins:
        return Pins(submodules={path.encode(): () for path in self._named[name].empty_submodules})


def lock_repositories(repositories: Repositories, store: Store, *, targets: Iterable[str]) -> tuple[LockedRepo, ...]:
    """Pin every repository: its commit, its tree, and the digest of its canonical pack, which goes into the store."""
    graded = set(targets)
    rows = []
    for name in repositories.names():
        checkout = repositories.original(name)
        pack = checkout.pack()
        digest, size = store.put_file(pack)
        role = "target" if name in graded else "context"
        tree = checkout.repository.commit(checkout.commit).tree
        rows.append(LockedRepo(role, name, checkout.commit, tree, digest, size))
    return tuple(rows)


def _object_id(text: str) -> ObjectId:
    return parse_object_id(text, where="lock")


def refuse_young(recipe: Recipe, times: Mapping[str, int]) -> None:
    """Raise InputError if a context's commit is younger than the recipe's cutoff."""
    cutoff = recipe.cutoff_s
    young = [context.name for context in recipe.contexts if cutoff is not None and times[context.name] > cutoff]
    if young:
        raise InputError(
            f"younger than the cutoff {recipe.cutoff}: {', '.join(young)}",
            where=f"{recipe.id}: contexts",
            hint="choose the last commit of the default branch at or before the cutoff",
        )
