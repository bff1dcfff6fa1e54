"""History in two packs: the shared one depends on the named commit alone, and together they are all of it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.lock.git import GitSources
from packager.lock.model import LockedRepo, LockedShare
from packager.lock.repositories import lock_repositories
from packager.store.store import Store
from tests.support.git_builder import TIME, GitBuilder, PlainPlace
from tests.support.small_suite import SmallSuite, make_suite

if TYPE_CHECKING:
    from packager.lock.git import GitRepository
    from packager.oci.entries import Entry

pytestmark = pytest.mark.engine

URL = "https://git.invalid/many"
WORDS = "\n".join(f"line {number}" for number in range(400))


@pytest.fixture
def mirror(tmp_path: Path) -> GitBuilder:
    return GitBuilder(tmp_path / "git" / "many")


@pytest.fixture
def commits(mirror: GitBuilder) -> dict[str, str]:
    """Make a history whose merge base is `middle`: two tasks begin above it, on two branches; one file comes back."""
    one = mirror.commit({"a": WORDS, "d/old": "old\n"}, time=TIME)
    side = mirror.commit({"a": WORDS + "\nside", "e/s": "s\n"}, one, time=TIME + 2)
    two = mirror.commit({"a": WORDS + "\ntwo"}, one, time=TIME + 1)
    middle = mirror.commit({"a": WORDS + "\nmiddle", "e/s": "s\n"}, two, side, time=TIME + 3)
    left = mirror.commit({"a": WORDS + "\nleft", "d/old": "old\n", "e/s": "s\n"}, middle, time=TIME + 4)
    right = mirror.commit({"a": WORDS + "\nright", "e/s": "s\n", "e/t": "t\n"}, middle, time=TIME + 5)
    again = mirror.commit({"a": WORDS + "\nmiddle", "e/s": "s\n"}, left, time=TIME + 6)
    other = mirror.commit({"a": "elsewhere"}, one, time=TIME + 7)
    return {
        "one": one,
        "middle": middle,
        "left": left,
        "right": right,
        "again": again,
        "other": other,
    }


def obtain(mirror: GitBuilder, commit: str, store: str = "store") -> GitRepository:
    root = mirror.path.parent
    return GitSources(PlainPlace(root.parent / store), {"https://git.invalid/": f"{root}/"}, root).obtain(URL, commit)


def lay_out(root: Path, entries: list[Entry]) -> None:
    for entry in entries:
        path = root / os.fsdecode(entry.path)
        if entry.content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.content if isinstance(entry.content, bytes) else entry.content.read_bytes())


def git(root: Path, *arguments: str) -> list[str]:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().split()


def packs(entries: list[Entry]) -> dict[bytes, bytes]:
    found = {}
    for entry in entries:
        if entry.path.endswith((b".pack", b".idx")) and isinstance(entry.content, Path):
            found[entry.path] = entry.content.read_bytes()
    return found


def names_in(index: Path) -> list[str]:
    with index.open("rb") as stream:
        done = subprocess.run(["git", "show-index"], stdin=stream, capture_output=True, check=True)
    return [line.split()[1] for line in done.stdout.decode().splitlines()]


@pytest.mark.parametrize("name", ["left", "right", "again", "middle"])
def test_both_packs_together_are_the_whole_history_and_have_nothing_twice(
    mirror: GitBuilder, commits: dict[str, str], tmp_path: Path, name: str
) -> None:
    base, shared = commits[name], commits["middle"]
    repository = obtain(mirror, base)
    work = tmp_path / "work"
    own = repository.canonical_git(base, "ancestors", shared=shared)
    lay_out(work, [*own, *repository.shared_pack(shared), *repository.tree_entries(base)])
    assert git(work, "status", "--porcelain") == []
    assert git(work, "fsck", "--strict", "--full") == []
    indexes = sorted((work / ".git/objects/pack").glob("*.idx"))
    found = [one for index in indexes for one in names_in(index)]
    assert len(indexes) == 2
    assert sorted(found) == sorted(git(work, "rev-list", "--objects", "--no-object-names", "HEAD"))
    assert git(work, "rev-list", "HEAD")[0] == base


def test_the_shared_pack_depends_on_its_commit_alone(mirror: GitBuilder, commits: dict[str, str]) -> None:
    shared = commits["middle"]
    from_left = packs(obtain(mirror, commits["left"], "one").shared_pack(shared))
    from_right = packs(obtain(mirror, commits["right"], "two").shared_pack(shared))
    alone = packs(obtain(mirror, shared, "three").canonical_git(shared, "ancestors"))
    assert from_left == from_right == alone
    assert len(from_left) == 2


def test_without_a_shared_commit_nothing_is_otherwise(mirror: GitBuilder, commits: dict[str, str]) -> None:
    repository = obtain(mirror, commits["left"])
    whole = repository.canonical_git(commits["left"], "ancestors")
    [pack] = [path for path in packs(whole) if path.endswith(b".pack")]
    above = repository.canonical_git(commits["left"], "ancestors", shared=commits["one"])
    assert packs(whole).keys() & packs(above).keys() == set()
    assert packs(repository.canonical_git(commits["left"], "ancestors")).keys() >= {pack}


@pytest.mark.parametrize("name", ["other", "right", "nowhere"])
def test_a_shared_commit_that_the_base_does_not_reach_is_refused(
    mirror: GitBuilder, commits: dict[str, str], name: str
) -> None:
    """Else commits that are not the base's past would come into the image."""
    shared = commits.get(name, "f" * 40)
    repository = obtain(mirror, commits["left"])
    with pytest.raises(InputError) as caught:
        repository.canonical_git(commits["left"], "ancestors", shared=shared)
    assert str(caught.value) == (
        f"{URL}: expected the shared history to end at an ancestor of {commits['left']}, found {shared}\n"
        "hint: take the merge base of the tasks' base commits: git merge-base --octopus A B …"
    )


@pytest.fixture
def suite(tmp_path: Path) -> SmallSuite:
    """Give the small suite with a shared history of its maker: all but its base commit."""
    made = make_suite(tmp_path / "suite")
    repository = made.repositories().repository("maker")
    [parent] = repository.commit(made.commits["maker"]).parents
    made.rewrite("    manifests: [deps.txt]\n", f"    manifests: [deps.txt]\n    history: {{shared: {parent}}}\n")
    return made


def locked(suite: SmallSuite) -> LockedRepo:
    rows = lock_repositories(suite.repositories(), suite.store, targets=["maker", "user"])
    return {row.name: row for row in rows}["maker"]


def test_the_lock_pins_both_packs_and_the_commit_between_them(suite: SmallSuite) -> None:
    row = locked(suite)
    assert row.shared is not None
    assert [len(suite.store.read(digest, 1 << 20)) for digest in row.packs()] == [*row.packs().values()]
    assert list(row.packs()) == [row.shared.pack_digest, row.pack_digest]
    [parent] = suite.repositories().repository("maker").commit(row.commit).parents
    assert row.shared.commit == parent
    whole = replace(row, shared=None).packs()
    assert whole == {row.pack_digest: row.pack_size}


def test_the_locked_packs_alone_give_the_same_entries(suite: SmallSuite) -> None:
    row = locked(suite)
    found = replace(suite, mirrors={"https://git.invalid/": "/nowhere/"}).repositories().locked(row)
    original = suite.repositories().original("maker")
    assert packs(found.git_entries(b"w")) == packs(original.git_entries(b"w"))
    assert packs(found.shared_entries(b"w")) == packs(original.shared_entries(b"w"))
    assert len(packs(found.shared_entries(b"w"))) == 2


def test_packs_that_the_store_lacks_are_made_again(suite: SmallSuite, tmp_path: Path) -> None:
    row = locked(suite)
    other = replace(suite, store=Store(tmp_path / "other"))
    assert not other.repositories().is_here(row)
    other.repositories().locked(row)
    assert other.repositories().is_here(row)
    assert isinstance(row.shared, LockedShare)
    (other.store.root / "blobs/sha256" / row.shared.pack_digest.removeprefix("sha256:")).unlink()
    assert not other.repositories().is_here(row)
    other.repositories().fetch(row)
    assert other.repositories().is_here(row)
