"""Which objects a commit reaches, in an order of our own: no version of git has a say in it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from packager.base.errors import InputError, WorldError
from packager.lock.git_objects import EMPTY_TREE, Commit, MissingObjectError, ObjectId, parse_commit, parse_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.lock.git_objects import ObjectReader, RawObject, TreeItem


class Placed(NamedTuple):
    """A tree or blob and the path (no leading slash, empty for a root tree) at which the walk met it first."""

    path: bytes
    id: ObjectId


@dataclass(frozen=True)
class Reached:
    """All objects of one or more commits: commits newest first, trees and blobs in the order in which they were met."""

    commits: tuple[ObjectId, ...]
    trees: tuple[Placed, ...]
    blobs: tuple[Placed, ...]


NOTHING = Reached((), (), ())


def walk_ancestry(reader: ObjectReader, *starts: ObjectId, depth: int = 0) -> list[Commit]:
    """Return commits and all their ancestors, children before parents, else newer before older, then by id.

    With `depth`, only so many generations, the commits themselves being the first.
    """
    known = _read_commits(reader, starts, depth)
    waiting = dict.fromkeys(known, 0)
    for commit in known.values():
        for parent in _within(commit, known):
            waiting[parent] += 1
    ready = [(-known[start].time, start) for start in set(starts) if not waiting[start]]
    heapq.heapify(ready)
    order = []
    while ready:
        commit = known[heapq.heappop(ready)[1]]
        order.append(commit)
        for parent in _within(commit, known):
            waiting[parent] -= 1
            if not waiting[parent]:
                heapq.heappush(ready, (-known[parent].time, parent))
    return order


def _within(commit: Commit, known: Mapping[ObjectId, Commit]) -> Iterator[ObjectId]:
    """Yield the parents that are walked, too: all of them, but where a depth ends."""
    return (parent for parent in commit.parents if parent in known)


def _read_commits(reader: ObjectReader, starts: Sequence[ObjectId], depth: int) -> dict[ObjectId, Commit]:
    known: dict[ObjectId, Commit] = {}
    children = {start: start for start in starts}
    level = sorted(set(starts))
    generation = 0
    while level and not (depth and generation == depth):
        generation += 1
        try:
            found = [_commit(raw) for raw in reader.read_many(level)]
        except MissingObjectError as error:
            raise _cut(error.name, children[error.name], starts) from error
        known |= {commit.id: commit for commit in found}
        pairs = {parent: commit.id for commit in found for parent in commit.parents if parent not in known}
        children |= pairs
        level = list(pairs)
    return known


def _commit(raw: RawObject) -> Commit:
    if raw.kind != "commit":
        raise InputError(f"expected a commit, found a {raw.kind}", where=f"object {raw.id}")
    return parse_commit(raw.id, raw.data())


def _cut(missing: ObjectId, child: ObjectId, starts: Sequence[ObjectId]) -> WorldError:
    if missing in starts:
        return MissingObjectError(missing)
    return WorldError(
        f"the history of {' '.join(starts)} is cut off: commit {missing}, a parent of {child}, is missing",
        where="git source",
        hint="the source is a shallow clone; unshallow it, or write `history: none` for this repository",
    )


def walk_objects(reader: ObjectReader, commits: Sequence[Commit], *, but: Reached = NOTHING) -> Reached:
    """Return every object that the commits' trees hold; the commits must come newest first.

    Trees are read level by level, so that reading is one stream of questions; each object keeps the first path. What
    `but` reaches is left out, and nothing of its commits may be among these.
    """
    blobs: dict[ObjectId, bytes] = {}
    known = {placed.id for placed in (*but.trees, *but.blobs)}
    trees: dict[ObjectId, bytes] = {commit.tree: b"" for commit in commits if commit.tree not in known}
    level = list(trees)
    while level:
        deeper: dict[ObjectId, bytes] = {}
        for path, item in _read_items(reader, level, trees):
            if item.id in known:
                continue
            if item.is_tree and item.id not in trees:
                deeper.setdefault(item.id, path)
            elif not item.is_tree and not item.is_submodule:
                blobs.setdefault(item.id, path)
        trees |= deeper
        level = list(deeper)
    return Reached(
        tuple(commit.id for commit in commits),
        tuple(Placed(path, name) for name, path in trees.items()),
        tuple(Placed(path, name) for name, path in blobs.items()),
    )


def _read_items(
    reader: ObjectReader, level: list[ObjectId], paths: dict[ObjectId, bytes]
) -> Iterator[tuple[bytes, TreeItem]]:
    try:
        for raw in reader.read_many(name for name in level if name != EMPTY_TREE):
            if raw.kind != "tree":
                raise InputError(f"expected a tree, found a {raw.kind}", where=f"object {raw.id}")
            folder = paths[raw.id] + b"/" if paths[raw.id] else b""
            yield from ((folder + item.name, item) for item in parse_tree(raw.id, raw.data()))
    except MissingObjectError as error:
        place = ascii(paths[error.name])[2:-1] or "the root"
        raise WorldError(f"the source lacks tree {error.name} of {place}", where="git source") from error
