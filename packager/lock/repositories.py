"""The repositories of one recipe: from the locked pack when the store has it, else from where the recipe says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.digests import digest_of_file
from packager.base.errors import InputError, IntegrityError
from packager.lock.git import GitRepository, GitSources, History, snapshot_id
from packager.lock.git_dependencies import open_packs
from packager.lock.git_objects import parse_object_id
from packager.lock.git_reduce import reduce_commit
from packager.lock.git_tree import Pins
from packager.lock.model import LockedRepo, LockedShare

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
    shared: str | None = None

    def tree_entries(self, prefix: bytes) -> list[Entry]:
        """Return the files below `prefix`."""
        return self.repository.tree_entries(self.commit, prefix)

    def git_entries(self, prefix: bytes) -> list[Entry]:
        """Return the canonical `.git` below `prefix`, without the shared pack if there is one."""
        return self.repository.canonical_git(self.commit, self.history, prefix, shared=self.shared)

    def shared_entries(self, prefix: bytes) -> list[Entry]:
        """Return the shared pack in the `.git` below `prefix`, if there is one."""
        return [] if self.shared is None else self.repository.shared_pack(self.shared, prefix)

    def pack(self) -> Path:
        """Return the canonical pack."""
        return self._pack_of(self.git_entries(b""))

    def shared_pack(self) -> Path | None:
        """Return the shared pack, if there is one."""
        return None if self.shared is None else self._pack_of(self.shared_entries(b""))

    def _pack_of(self, entries: Iterable[Entry]) -> Path:
        for entry in entries:
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
        history, shared = _history_of(source)
        repository, commit = self.repository(name), source.commit
        if source.leave_out:
            commit = reduce_commit(repository, commit, source.leave_out)
        return Checkout(repository, commit, history, shared)

    def base(self, name: str) -> str:
        """Return the commit that the recipe names."""
        return self._named[name].commit

    def locked(self, repo: LockedRepo) -> Checkout:
        """Return the checkout that the lock pins: from its pack if the store has it, else from the recipe's source."""
        if not self.is_here(repo):
            self.fetch(repo)
        history, shared = _history_of(self._named[repo.name])
        commit = repo.commit if history == "ancestors" else snapshot_id(_object_id(repo.tree))
        return Checkout(self._from_packs(repo), commit, "ancestors", shared)

    def is_here(self, repo: LockedRepo) -> bool:
        """Say whether the store has every locked pack of a repository."""
        return all(self._store.has(digest, size) for digest, size in repo.packs().items())

    def fetch(self, repo: LockedRepo) -> None:
        """Put the locked packs into the store, made again from the recipe's source."""
        made = self.original(repo.name)
        packs = [pack for pack in (made.shared_pack(), made.pack()) if pack is not None]
        for expected, pack in zip(repo.packs(), packs, strict=True):
            found = digest_of_file(pack)
            if found != expected:
                raise IntegrityError(
                    f"expected the canonical pack {expected}, found {found}",
                    where=repo.name,
                    hint="the lock was made by another version of wideswe-pack; lock again",
                )
            self._store.put_file(pack)

    def _from_packs(self, repo: LockedRepo) -> GitRepository:
        directory = open_packs(self._store, *repo.packs())
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
        digest, size = store.put_file(checkout.pack())
        role = "target" if name in graded else "context"
        tree = checkout.repository.commit(checkout.commit).tree
        rows.append(LockedRepo(role, name, repositories.base(name), tree, digest, size, _lock_share(checkout, store)))
    return tuple(rows)


def _lock_share(checkout: Checkout, store: Store) -> LockedShare | None:
    pack = checkout.shared_pack()
    return None if pack is None or checkout.shared is None else LockedShare(checkout.shared, *store.put_file(pack))


def _history_of(source: Target | Context) -> tuple[History, str | None]:
    """Return which history a repository has, and the commit that its shared part ends at."""
    history = source.history
    return (history, None) if isinstance(history, str) else ("ancestors", history.shared)


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
