"""A commit's tree without some of its files, as a commit of our own: for large files that are of no use to a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.lock.git import snapshot_of
from packager.lock.git_globs import Globs
from packager.lock.git_objects import EMPTY_TREE, ObjectId, ObjectReader, parse_object_id

if TYPE_CHECKING:
    from packager.lock.git import GitRepository
    from packager.lock.git_runner import GitDirectory


def reduce_commit(repository: GitRepository, commit: str, left_out: tuple[str, ...]) -> ObjectId:
    """Return a parentless commit with the tree of `commit` but for the files that match; written where git fetches to.

    The files need not be there. A glob without any match, or one that leaves nothing, raises InputError.
    """
    with ObjectReader(repository.directory) as reader:
        root = reader.commit(parse_object_id(commit, where=repository.name)).tree
        made = _Reduction(reader, repository.directory, left_out)
        tree = made.reduce(root, b"")
    unused = [glob for glob, used in zip(left_out, made.used(), strict=True) if not used]
    if unused:
        raise InputError(f"leave_out names no file of the base: {', '.join(unused)}", where=repository.name)
    if tree == EMPTY_TREE:
        raise InputError("leave_out names every file of the base", where=repository.name)
    return _write(repository.directory, "commit", snapshot_of(tree))


@dataclass
class _Reduction:
    reader: ObjectReader
    directory: GitDirectory
    left_out: tuple[str, ...]

    def __post_init__(self) -> None:
        self._globs = [Globs((glob,)) for glob in self.left_out]
        self._used: set[int] = set()

    def used(self) -> list[bool]:
        """Say of each glob whether it matched a file."""
        return [number in self._used for number in range(len(self._globs))]

    def reduce(self, tree: ObjectId, prefix: bytes) -> ObjectId:
        """Return a tree without the files that match; folders that are left empty go with them."""
        lines = []
        for item in self.reader.tree(tree):
            path = prefix + item.name
            name = self.reduce(item.id, path + b"/") if item.is_tree else item.id
            if name != EMPTY_TREE and not (self._matches(path) and not item.is_tree):
                lines.append(b"%o %s\0" % (item.mode, item.name) + bytes.fromhex(name))
        data = b"".join(lines)
        return _write(self.directory, "tree", data) if data else EMPTY_TREE

    def _matches(self, path: bytes) -> bool:
        found = {number for number, glob in enumerate(self._globs) if glob.match(path)}
        self._used |= found
        return bool(found)


def _write(directory: GitDirectory, kind: str, data: bytes) -> ObjectId:
    found = directory.run_ok("hash-object", "-t", kind, "-w", "--stdin", stdin=data).decode().strip()
    return parse_object_id(found, where="git hash-object")
