"""What other repositories offer, and canonical packs of the commits that a dependency step wants of them."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from packager.base.digests import digest_of, hex_of
from packager.base.errors import InputError
from packager.lock.ecosystems.git_http import Refs
from packager.lock.git_objects import ObjectReader, parse_object_id
from packager.lock.git_pack import refuse_missing_blobs, write_pack
from packager.lock.git_runner import make_git_directory
from packager.lock.git_walk import walk_ancestry, walk_objects
from packager.store.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.base.digests import Digest
    from packager.lock.git import GitSources
    from packager.lock.git_objects import Commit
    from packager.lock.git_runner import GitDirectory
    from packager.store.store import Store

_REF = re.compile(r"refs/(?:heads|tags)/[^\s~^:?*\[\\\x00-\x20\x7f]+")


@dataclass(frozen=True)
class MadePack:
    """A canonical pack in the store, and its commits."""

    digest: Digest
    size: int
    commits: frozenset[str]


def read_refs(sources: GitSources, url: str) -> Refs:
    """Return the branches and tags of a repository; of an annotated tag, the commit that it is about."""
    head, commits = "", {}
    for line in sources.list_refs(url).splitlines():
        value, _, name = line.partition("\t")
        if name == "HEAD" and value.startswith("ref: "):
            head = value.removeprefix("ref: ")
        elif _REF.fullmatch(name.removesuffix("^{}")) and ".." not in name:
            commits[name.removesuffix("^{}")] = value
    return Refs(commits, head if head in commits else "")


def make_pack(sources: GitSources, store: Store, url: str, wants: Iterable[tuple[int, str]]) -> MadePack:
    """Put the pack of some commits and their histories into the store; `wants` are pairs of depth (0: all) and commit.

    The bytes depend on `wants` and the objects alone.
    """
    ordered = sorted(set(wants))
    if not ordered:
        raise InputError("expected a commit, found none", where=url)
    repository = next(sources.obtain(url, commit) for _, commit in ordered)
    with ObjectReader(repository.directory) as reader, scratch_folder(store.root) as folder:
        commits = _commits(reader, ordered)
        reached = walk_objects(reader, list(commits.values()))
        refuse_missing_blobs(repository.directory, reached.blobs)
        packed = write_pack(reader, reached, reader.read_many(reached.commits), folder)
        digest, size = store.put_file(packed.pack)
    return MadePack(digest, size, frozenset(commits))


def ends_of_history(store: Store, pack: Digest, wants: Iterable[str], depth: int) -> list[str]:
    """Return the commits of a pack whose parents a client does not want that asks for `depth` generations."""
    with ObjectReader(open_packs(store, pack)) as reader:
        starts = [parse_object_id(commit, where="git") for commit in wants]
        known = {commit.id: commit for commit in walk_ancestry(reader, *starts, depth=depth)}
    return sorted(name for name, commit in known.items() if not known.keys() >= set(commit.parents))


def open_packs(store: Store, *packs: Digest) -> GitDirectory:
    """Return a repository that consists of packs of the store; it is kept."""
    key = packs[0] if len(packs) == 1 else digest_of("\n".join(packs).encode())
    directory = make_git_directory(store.root / "git" / f"pack-{hex_of(key)[:32]}.git")
    with store.lock(f"git-{directory.path.name}"):
        for pack in packs:
            _lay_out_pack(store, pack, directory)
    return directory


def _lay_out_pack(store: Store, pack: Digest, directory: GitDirectory) -> None:
    """Put a pack and its index in place, the index last and whole: git writes it where a kill would leave a part."""
    folder = directory.path / "objects" / "pack"
    name = "pack-" + _pack_hash(store, pack)
    if (folder / f"{name}.idx").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    arriving = folder / "arriving.pack"
    with store.open(pack) as source, arriving.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    index = arriving.with_suffix(".idx")
    index.unlink(missing_ok=True)
    directory.run_ok("index-pack", "--no-rev-index", "-o", str(index), str(arriving))
    arriving.replace(folder / f"{name}.pack")
    index.replace(folder / f"{name}.idx")


def _commits(reader: ObjectReader, wants: list[tuple[int, str]]) -> dict[str, Commit]:
    found: dict[str, Commit] = {}
    for depth, group in groupby(wants, key=lambda want: want[0]):
        starts = [parse_object_id(commit, where="git") for _, commit in group]
        for commit in walk_ancestry(reader, *starts, depth=depth):
            found.setdefault(commit.id, commit)
    return found


def _pack_hash(store: Store, digest: Digest) -> str:
    with store.path(digest).open("rb") as stream:
        stream.seek(-20, 2)
        return stream.read().hex()
