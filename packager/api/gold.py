"""Gold held against base: it must apply byte-exact, and the dependencies of a task are those of both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import InputError, IntegrityError, WorldError
from packager.evaluate.patches import apply_patch
from packager.evaluate.trees import Kind, shown
from packager.lock.answers import manifests_tar, read_gold
from packager.oci.entries import Entry, file_entry, symlink_entry
from packager.oci.entries import Kind as EntryKind
from packager.recipe.globs import matches_any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.lock.model import Lock
    from packager.lock.repositories import Repositories
    from packager.recipe.model import Recipe, Target
    from packager.store.store import Store


class CommitTree:
    """The files of a commit with changes kept in memory; folders are what paths imply."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._files: dict[bytes, Entry] = {}
        self._names: dict[bytes, set[bytes]] = {}
        for entry in entries:
            if entry.kind is EntryKind.DIR:
                self._names.setdefault(entry.path, set())
            else:
                self._files[entry.path] = entry
            self._enter(entry.path)

    def files(self) -> list[Entry]:
        """Return all files and links in the order of their paths."""
        return [self._files[path] for path in sorted(self._files)]

    def look(self, path: bytes) -> Kind | None:
        """Return what is at `path`, never following a symbolic link; None if nothing is."""
        entry = self._files.get(path)
        if entry is None:
            return Kind.DIRECTORY if path in self._names else None
        if entry.kind is EntryKind.SYMLINK:
            return Kind.SYMLINK
        return Kind.PROGRAM if entry.mode & 0o100 else Kind.FILE

    def names(self, path: bytes) -> list[bytes]:
        """Return the names in the directory at `path`, sorted; b"" is the root."""
        if path not in self._names:
            raise InputError("not a directory", where=shown(path))
        return sorted(self._names[path])

    def read(self, path: bytes) -> bytes:
        """Return the content of a file, or the target of a symbolic link."""
        if path not in self._files:
            raise InputError("no such file", where=shown(path))
        return content_of(self._files[path])

    def write(self, path: bytes, content: bytes, kind: Kind) -> None:
        """Put a file, program or symbolic link at `path` and replace a file or an empty directory; make parents."""
        if self._names.get(path):
            raise WorldError("cannot be written: the directory is not empty", where=shown(path))
        self._names.pop(path, None)
        if kind is Kind.SYMLINK:
            self._files[path] = symlink_entry(path, content)
        else:
            self._files[path] = file_entry(path, content, mode=kind & 0o777)
        self._enter(path)

    def delete(self, path: bytes) -> None:
        """Remove the file at `path`, and its parents as far as that leaves them empty."""
        del self._files[path]
        while path:
            parent, _, name = path.rpartition(b"/")
            self._names[parent].discard(name)
            if self._names[parent] or not parent:
                return
            del self._names[parent]
            path = parent

    def _enter(self, path: bytes) -> None:
        while path:
            parent, _, name = path.rpartition(b"/")
            self._names.setdefault(parent, set()).add(name)
            path = parent


def content_of(entry: Entry) -> bytes:
    """Return the bytes of a file, or the target of a symbolic link."""
    if entry.kind is EntryKind.SYMLINK:
        return entry.link
    return entry.content.read_bytes() if isinstance(entry.content, Path) else entry.content or b""


@dataclass(frozen=True)
class Manifests:
    """The files that a target's dependency commands read, by path in the checkout, at base and after gold."""

    base: tuple[Entry, ...]
    gold: tuple[Entry, ...]

    @property
    def change(self) -> bool:
        """Whether gold changes what the commands read."""
        return manifests_tar(self.base) != manifests_tar(self.gold)


def apply_gold(recipe: Recipe, target: Target, repositories: Repositories) -> Manifests:
    """Apply a target's gold to its base commit in memory; InputError names file and hunk if that cannot be done."""
    tree = CommitTree(repositories.original(target.name).tree_entries(b""))
    base = _manifests(target, tree)
    try:
        apply_patch(read_gold(recipe, target, repositories), tree)
    except InputError as error:
        raise InputError(
            f"gold does not apply to commit {target.commit[:12]}: {error.where}: {error.reason}",
            where=f"{recipe.id}: {target.name}",
            hint="gold is the change's own difference: look at gold.from, include and exclude, or give a patch file",
        ) from error
    return Manifests(base, _manifests(target, tree))


def _manifests(target: Target, tree: CommitTree) -> tuple[Entry, ...]:
    return tuple(
        entry for entry in tree.files() if matches_any(target.manifests, entry.path.decode("utf-8", "surrogateescape"))
    )


@dataclass(frozen=True)
class GoldTrees:
    """The manifests of all targets of a task; every gold has been applied to its base."""

    recipe: Recipe
    by_target: Mapping[str, Manifests]

    def changed(self) -> tuple[str, ...]:
        """Return the targets whose dependencies gold changes."""
        wanted = (target.name for target in self.recipe.targets if target.dependencies)
        return tuple(name for name in wanted if self.by_target[name].change)

    def locked_in(self, lock: Lock, store: Store) -> Lock:
        """Return a lock that pins the manifests of targets whose dependencies gold changes; the store keeps them."""
        pinned = {name: store.put(manifests_tar(self.by_target[name].gold)) for name in self.changed()}
        return replace(lock, files=replace(lock.files, manifests=pinned))

    def files_by_step(self) -> dict[str, dict[str, bytes]]:
        """Return, by dependency step, the files that its commands read; their names say whose they are."""
        found: dict[str, dict[str, bytes]] = {}
        for name, manifests in self.by_target.items():
            found[f"{name}/dependencies"] = _files(name, manifests.base)
            found[f"{name}/gold/dependencies"] = _files(f"{name} (after gold)", manifests.gold)
        return found


def _files(name: str, entries: Iterable[Entry]) -> dict[str, bytes]:
    files = (entry for entry in entries if entry.kind is EntryKind.FILE)
    return {f"{name}/{shown(entry.path)}": content_of(entry) for entry in files}


def read_gold_trees(recipe: Recipe, repositories: Repositories) -> GoldTrees:
    """Apply every gold of a task to its base."""
    return GoldTrees(recipe, {target.name: apply_gold(recipe, target, repositories) for target in recipe.targets})


def keep_manifests(recipe: Recipe, lock: Lock, store: Store, repositories: Repositories) -> None:
    """Make sure that the store holds the manifests that a lock pins; absent ones are made again."""
    for name, digest in sorted(lock.files.manifests.items()):
        if store.has(digest):
            continue
        found = store.put(manifests_tar(apply_gold(recipe, recipe.target(name), repositories).gold))
        if found != digest:
            hint = f"wideswe-pack lock --task {recipe.id}"
            raise IntegrityError(
                f"expected {digest}, found {found}", where=f"{recipe.id}: manifests of {name} after gold", hint=hint
            )
