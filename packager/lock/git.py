"""Repositories as the lock sees them: one commit, its tree, its ancestry, and a `.git` of our own for the image."""

from __future__ import annotations

import hashlib
import io
import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from packager.base.digests import digest_of_file, hex_of
from packager.base.errors import InputError, WorldError
from packager.lock.git_diff import diff_trees
from packager.lock.git_globs import Globs
from packager.lock.git_index import format_index
from packager.lock.git_mirrors import check_url, local_objects, rewrite_url
from packager.lock.git_objects import (
    Commit,
    MissingObjectError,
    ObjectId,
    ObjectReader,
    RawObject,
    object_id,
    parse_object_id,
)
from packager.lock.git_pack import PACK_FORMAT_ID, refuse_missing_blobs, write_pack
from packager.lock.git_runner import GitDirectory, make_git_directory, refuse_full_disk, said
from packager.lock.git_tree import NO_PINS, Pins, TreeEntries, list_tree
from packager.lock.git_walk import Reached, walk_ancestry, walk_objects
from packager.oci.entries import SOURCE_DATE_EPOCH, Entry, Kind, dir_entry, file_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

History = Literal["none", "ancestors"]

BRANCH = "main"

CONFIG = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
\tabbrev = 12
"""
"""The config of every repository in an image; an agent's own commits get their reflog as anywhere else."""

_PERSON = f"wideswe-pack <nobody@wideswe.invalid> {SOURCE_DATE_EPOCH} +0000"
_SNAPSHOT = "tree {tree}\nauthor " + _PERSON + "\ncommitter " + _PERSON + "\n\nSnapshot of the base commit's tree\n"

_TRAILER_BYTES = 20


class Place(Protocol):
    """The part of the store that is needed here: a directory, and locks across processes."""

    @property
    def root(self) -> Path:
        """The store's directory."""

    def lock(self, name: str, /) -> AbstractContextManager[object]:
        """Hold a lock of that name."""


class GitSources:
    """Finds repositories: a bundle beside the recipe, else a mirror in place of the URL, else the URL itself.

    `mirrors` maps URL prefixes or patterns to URLs or directories (packager/lock/git_mirrors.py). A repository on this
    disk is read through, never copied or written to; what is fetched is kept below `store.root/git`.
    """

    def __init__(self, store: Place, mirrors: Mapping[str, str], recipes_dir: Path) -> None:
        self._store = store
        self._mirrors = dict(mirrors)
        self._recipes_dir = recipes_dir

    def obtain(self, url: str, commit: str, *, bundle: Path | None = None) -> GitRepository:
        """Return the repository that holds `commit`; nothing is fetched if an earlier call fetched it."""
        wanted = parse_object_id(commit, where=url or str(bundle))
        root = self._store.root / "git"
        if bundle is not None:
            directory = self._from_bundle(root, self._recipes_dir / bundle, wanted)
        else:
            check_url(url)
            place = rewrite_url(url, self._mirrors)
            objects = local_objects(place)
            if objects is not None:
                directory = replace(make_git_directory(root / "empty.git"), alternates=(objects,))
            else:
                directory = self._from_url(root, place, wanted)
        found = GitRepository(url or str(bundle), directory, root, self._store)
        found.refuse_absent(wanted)
        return found

    def list_refs(self, url: str) -> str:
        """Return what `git ls-remote --symref` says of a repository, or of its mirror."""
        check_url(url)
        directory = make_git_directory(self._store.root / "git" / "empty.git")
        done = directory.run_networked("ls-remote", "--symref", "--", rewrite_url(url, self._mirrors))
        if done.exit_code != 0:
            hint = "check the network, or configure a mirror for this repository"
            raise WorldError(f"cannot list branches and tags: {said(done)}", where=url, hint=hint, retryable=True)
        return done.stdout.decode(errors="replace")

    def _from_url(self, root: Path, url: str, wanted: ObjectId) -> GitDirectory:
        key = hashlib.sha256(url.encode()).hexdigest()[:32]
        directory = make_git_directory(root / f"{key}.git")
        with self._store.lock(f"git-{key}"):
            if not _is_kept(directory, wanted):
                directory.clear_locks()
                _fetch(directory, url, wanted)
        return directory

    def _from_bundle(self, root: Path, bundle: Path, wanted: ObjectId) -> GitDirectory:
        if not bundle.is_file():
            raise InputError(
                "expected a git bundle, found no file", where=str(bundle), hint="make it: git bundle create FILE --all"
            )
        key = hex_of(digest_of_file(bundle))[:32]
        directory = make_git_directory(root / f"bundle-{key}.git")
        with self._store.lock(f"git-bundle-{key}"):
            if not _is_kept(directory, wanted):
                directory.clear_locks()
                done = directory.run("bundle", "unbundle", str(bundle.resolve()))
                refuse_full_disk(done, where=str(directory.path))
                if done.exit_code != 0:
                    raise InputError(f"not a usable git bundle: {said(done)}", where=str(bundle))
                _keep(directory, wanted)
        return directory


def _is_kept(directory: GitDirectory, wanted: ObjectId) -> bool:
    return (directory.path / "refs" / "wideswe" / wanted).is_file()


def _keep(directory: GitDirectory, wanted: ObjectId) -> None:
    """Mark a commit as wholly fetched, if it is there."""
    directory.run("update-ref", f"refs/wideswe/{wanted}", wanted)


def _fetch(directory: GitDirectory, url: str, wanted: ObjectId) -> None:
    options = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-gc", "--quiet")
    exact = directory.run_networked("fetch", *options, "--", url, f"{wanted}:refs/wideswe/{wanted}")
    if exact.exit_code == 0:
        return
    # Some servers give out only what a branch or tag points at: take them all, then pick the commit.
    everything = directory.run_networked(
        "fetch", *options, "--", url, "+refs/heads/*:refs/fetched/heads/*", "+refs/tags/*:refs/fetched/tags/*"
    )
    refuse_full_disk(everything, where=str(directory.path))
    if everything.exit_code != 0:
        raise WorldError(
            f"cannot fetch commit {wanted}: {said(everything)}",
            where=url,
            hint="check the network, or configure a mirror or a bundle for this repository",
            retryable=True,
        )
    _keep(directory, wanted)


@dataclass(frozen=True)
class GitRepository:
    """A source of objects that holds at least one wanted commit; every object is hashed when it is read."""

    name: str
    directory: GitDirectory
    cache: Path
    store: Place
    pins: Pins = field(default=NO_PINS)

    def pinned(self, pins: Pins) -> GitRepository:
        """Return the same repository with submodules and LFS pointers pinned."""
        return replace(self, pins=pins)

    def refuse_absent(self, commit: ObjectId) -> None:
        """Raise InputError unless the commit is there."""
        try:
            self.commit(commit)
        except MissingObjectError as error:
            raise InputError(
                f"expected commit {commit}, found no such commit in the source",
                where=self.name,
                hint="correct the commit, or update the mirror or bundle",
            ) from error

    def commit(self, commit: str) -> Commit:
        """Return a commit's tree, parents and time."""
        with ObjectReader(self.directory) as reader:
            return reader.commit(parse_object_id(commit, where=self.name))

    def commit_time(self, commit: str) -> int:
        """Return the committer's time, in seconds since 1970."""
        return self.commit(commit).time

    def ancestry(self, commit: str) -> list[Commit]:
        """Return the commit and all its ancestors, newest first."""
        with ObjectReader(self.directory) as reader:
            return walk_ancestry(reader, parse_object_id(commit, where=self.name))

    def is_ancestor(self, ancestor: str, commit: str) -> bool:
        """Return whether `ancestor` is `commit` or is reached from it."""
        return any(found.id == ancestor for found in self.ancestry(commit))

    def tree_entries(
        self, commit: str, prefix: bytes = b"", *, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()
    ) -> list[Entry]:
        """Return the commit's tree as entries below `prefix`, owned by root, modes 0644 and 0755.

        With globs only the files that count are returned, without directories. Submodules and LFS pointers that are
        not pinned raise InputError.
        """
        with ObjectReader(self.directory) as reader:
            items = list_tree(reader, reader.commit(parse_object_id(commit, where=self.name)).tree)
            return TreeEntries(reader, self.cache / "blobs", self.pins).collect(items, prefix, Globs(include, exclude))

    def diff(self, old: str, new: str, *, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> bytes:
        """Return the patch from one commit's tree to another's, for the files that count."""
        trees = self.commit(old).tree, self.commit(new).tree
        return diff_trees(self.directory, *trees, Globs(include, exclude))

    def head_id(self, commit: str, history: History) -> ObjectId:
        """Return the commit that `main` points at in the image: the base itself, or its parentless snapshot."""
        if history == "ancestors":
            return parse_object_id(commit, where=self.name)
        return snapshot_id(self.commit(commit).tree)

    def canonical_git(
        self, commit: str, history: History, prefix: bytes = b"", *, shared: str | None = None
    ) -> list[Entry]:
        """Return the whole of `.git` below `prefix`: one branch, one pack of what it reaches, and a matching index.

        With `shared`, an ancestor, the pack lacks what that commit reaches: `shared_pack` has it.
        """
        wanted = parse_object_id(commit, where=self.name)
        with ObjectReader(self.directory) as reader:
            tree = reader.commit(wanted).tree
            index = format_index(tree, list_tree(reader, tree))
        git = _git_folder(prefix)
        head = self.head_id(wanted, history)
        folders = (b"", b"/objects", b"/objects/pack", b"/refs", b"/refs/heads")
        return [
            *(dir_entry(git + folder) for folder in folders),
            file_entry(git + b"/HEAD", f"ref: refs/heads/{BRANCH}\n".encode()),
            file_entry(git + b"/config", CONFIG),
            file_entry(git + b"/index", index),
            file_entry(git + f"/refs/heads/{BRANCH}".encode(), f"{head}\n".encode()),
            *_pack_entries(git, self._packed(wanted, history, shared)),
        ]

    def shared_pack(self, shared: str, prefix: bytes = b"") -> list[Entry]:
        """Return the pack of a commit and its ancestors in `.git` below `prefix`; it depends on nothing else."""
        git = _git_folder(prefix)
        folders = (b"", b"/objects", b"/objects/pack")
        packed = self._packed(parse_object_id(shared, where=self.name), "ancestors", None)
        return [*(dir_entry(git + folder) for folder in folders), *_pack_entries(git, packed)]

    def _packed(self, commit: ObjectId, history: History, shared: str | None) -> list[Path]:
        """Return index and pack, written at the first call and kept."""
        name = f"{PACK_FORMAT_ID}-{commit}-{history}" + ("" if shared is None else f"-above-{shared}")
        folder = self.cache / "packs" / name
        with self.store.lock(f"git-pack-{name}"):
            if not _is_whole(folder):
                shutil.rmtree(folder, ignore_errors=True)
                partial = folder.with_name(f".{name}.partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                self._write_pack(commit, history, shared, folder=partial)
                partial.rename(folder)
        return sorted(folder.iterdir())

    def _write_pack(self, commit: ObjectId, history: History, shared: str | None, *, folder: Path) -> None:
        with ObjectReader(self.directory) as reader:
            commits = walk_ancestry(reader, commit) if history == "ancestors" else [reader.commit(commit)]
            reached = walk_objects(reader, commits) if shared is None else self._above(reader, commits, shared)
            refuse_missing_blobs(self.directory, reached.blobs)
            if history == "ancestors":
                write_pack(reader, reached, reader.read_many(reached.commits), folder)
            else:
                data = snapshot_of(commits[0].tree)
                raw = RawObject(object_id("commit", data), "commit", len(data), io.BytesIO(data))
                write_pack(reader, reached, [raw], folder)

    def _above(self, reader: ObjectReader, commits: Sequence[Commit], shared: str) -> Reached:
        """Return what the commits reach and the shared one of them does not."""
        if shared not in {commit.id for commit in commits}:
            raise InputError(
                f"expected the shared history to end at an ancestor of {commits[0].id}, found {shared}",
                where=self.name,
                hint="take the merge base of the tasks' base commits: git merge-base --octopus A B …",
            )
        below = walk_ancestry(reader, parse_object_id(shared, where=self.name))
        known = {commit.id for commit in below}
        own = [commit for commit in commits if commit.id not in known]
        return walk_objects(reader, own, but=walk_objects(reader, below))


def _git_folder(prefix: bytes) -> bytes:
    return prefix + b"/.git" if prefix else b".git"


def _pack_entries(git: bytes, files: Iterable[Path]) -> list[Entry]:
    folder = git + b"/objects/pack/"
    return [
        Entry(folder + path.name.encode(), Kind.FILE, 0o444, size=path.stat().st_size, content=path) for path in files
    ]


def snapshot_id(tree: ObjectId) -> ObjectId:
    """Return the id of the parentless commit that stands for a tree where history is left out."""
    return object_id("commit", snapshot_of(tree))


def snapshot_of(tree: ObjectId) -> bytes:
    """Return the parentless commit that stands for a tree where history is left out."""
    return _SNAPSHOT.format(tree=tree).encode()


def _is_whole(folder: Path) -> bool:
    """Return whether a kept pack and its index still end with their own hashes."""
    files = sorted(folder.glob("pack-*.*"))
    return [path.suffix for path in files] == [".idx", ".pack"] and all(_ends_with_hash(path) for path in files)


def _ends_with_hash(path: Path) -> bool:
    left = path.stat().st_size - _TRAILER_BYTES
    found = hashlib.sha1(usedforsecurity=False)
    with path.open("rb") as stream:
        while left > 0 and (block := stream.read(min(left, 1 << 20))):
            found.update(block)
            left -= len(block)
        return stream.read() == found.digest()
