"""Gold held against base: what applies, what does not and is named, and which manifests it changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.api.gold import CommitTree, apply_gold, content_of, keep_manifests, read_gold_trees
from packager.base.digests import digest_of
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.evaluate.trees import Kind
from packager.lock.answers import manifests_tar, read_manifests_tar
from packager.lock.model import Lock, LockedBase, LockedFiles
from packager.oci.entries import Kind as EntryKind
from packager.oci.entries import dir_entry, file_entry, symlink_entry
from packager.store.store import Store
from tests.support.suites import Sample, make_suite

if TYPE_CHECKING:
    from pathlib import Path

    from packager.lock.repositories import Repositories
    from packager.recipe.model import Recipe

LINES = "".join(f"{number}\n" for number in range(1, 11))
SAMPLE = Sample(
    "one",
    files={"code": LINES, "need.txt": "a==1\n", "sub/need.txt": "c==1\n", "link": "x"},
    gold={"code": LINES.replace("5\n", "five\n"), "need.txt": "a==1\nb==2\n", "new/need.txt": "d==1\n"},
    fields={"manifests": ["**/need.txt", "need.txt"], "dependencies": ["true"]},
)


def read(folder: Path, sample: Sample, **changes: object) -> tuple[Recipe, Repositories]:
    suite = make_suite(folder, sample, store=folder / "store")
    suite.write_recipe(**changes)
    recipe = suite.place.recipe(suite.task)
    return recipe, suite.place.repositories(recipe)


def test_gold_changes_manifests_and_nothing_else_is_kept(tmp_path: Path) -> None:
    recipe, repositories = read(tmp_path, SAMPLE)
    found = apply_gold(recipe, recipe.target("one"), repositories)
    assert {entry.path: content_of(entry) for entry in found.base} == {
        b"need.txt": b"a==1\n",
        b"sub/need.txt": b"c==1\n",
    }
    assert {entry.path: content_of(entry) for entry in found.gold} == {
        b"need.txt": b"a==1\nb==2\n",
        b"new/need.txt": b"d==1\n",
        b"sub/need.txt": b"c==1\n",
    }
    assert found.change


LOCK = Lock(
    "one-001",
    "linux/amd64",
    digest_of(b"r"),
    digest_of(b"t"),
    LockedBase("bookworm"),
    LockedFiles(digest_of(b"p"), {}, {}),
)


def test_a_lock_pins_the_manifests_that_gold_changes(tmp_path: Path) -> None:
    recipe, repositories = read(tmp_path, SAMPLE)
    trees, store = read_gold_trees(recipe, repositories), Store(tmp_path / "store")
    digest = digest_of(manifests_tar(trees.by_target["one"].gold))
    lock = trees.locked_in(LOCK, store)
    assert lock.files.manifests == {"one": digest}
    assert [entry.path for entry in read_manifests_tar(store.read(digest, 1 << 20))] == [
        b"need.txt",
        b"new/need.txt",
        b"sub/need.txt",
    ]
    other = Store(tmp_path / "other")
    keep_manifests(recipe, lock, other, repositories)
    assert other.has(digest)
    wrong = replace(lock, files=replace(lock.files, manifests={"one": digest_of(b"x")}))
    with pytest.raises(IntegrityError) as caught:
        keep_manifests(recipe, wrong, other, repositories)
    assert str(caught.value) == (
        f"one-001: manifests of one after gold: expected {digest_of(b'x')}, found {digest}\n"
        "hint: wideswe-pack lock --task one-001"
    )
    assert trees.files_by_step() == {
        "one/dependencies": {"one/need.txt": b"a==1\n", "one/sub/need.txt": b"c==1\n"},
        "one/gold/dependencies": {
            "one (after gold)/need.txt": b"a==1\nb==2\n",
            "one (after gold)/new/need.txt": b"d==1\n",
            "one (after gold)/sub/need.txt": b"c==1\n",
        },
    }


@pytest.mark.parametrize("changes", [{"dependencies": []}, {"manifests": ["sub/need.txt"]}])
def test_a_lock_pins_no_manifests_that_no_command_reads_or_gold_leaves_alone(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    assert read_gold_trees(*read(tmp_path, SAMPLE, **changes)).locked_in(LOCK, Store(tmp_path / "store")) == LOCK


def test_gold_that_does_not_apply_is_named_by_file_and_hunk(tmp_path: Path) -> None:
    suite = make_suite(tmp_path, SAMPLE, store=tmp_path / "store")
    other = suite.git.commit({**SAMPLE.files, "code": LINES.replace("4\n", "four\n")}, message="another base")
    suite.write_recipe(commit=other)
    recipe = suite.place.recipe(suite.task)
    with pytest.raises(InputError) as caught:
        read_gold_trees(recipe, suite.place.repositories(recipe))
    assert str(caught.value) == (
        f"one-001: one: gold does not apply to commit {other[:12]}: code, hunk 1 (line 5 of the patch): "
        "does not fit: at line 4 expected '4\\n', found 'four\\n'\n"
        "hint: gold is the change's own difference: look at gold.from, include and exclude, or give a patch file"
    )


def tree() -> CommitTree:
    return CommitTree(
        [
            dir_entry(b"a"),
            file_entry(b"a/one", b"1"),
            file_entry(b"a/run", b"r", mode=0o755),
            symlink_entry(b"l", b"a/one"),
            dir_entry(b"empty"),
        ]
    )


def test_a_commit_tree_says_what_is_where() -> None:
    one = tree()
    paths = (b"a", b"a/one", b"a/run", b"l", b"empty", b"a/two", b"l/one", b"a/one/x", b"")
    assert [one.look(path) for path in paths] == [
        Kind.DIRECTORY,
        Kind.FILE,
        Kind.PROGRAM,
        Kind.SYMLINK,
        Kind.DIRECTORY,
        None,
        None,
        None,
        Kind.DIRECTORY,
    ]
    assert (one.names(b""), one.names(b"a")) == ([b"a", b"empty", b"l"], [b"one", b"run"])
    assert (one.read(b"a/one"), one.read(b"l")) == (b"1", b"a/one")
    for path, message in ((b"a/two", "a/two: no such file"), (b"a", "a: no such file")):
        with pytest.raises(InputError) as caught:
            one.read(path)
        assert str(caught.value) == message
    with pytest.raises(InputError) as caught:
        one.names(b"l")
    assert str(caught.value) == "l: not a directory"


def test_a_commit_tree_changes_in_memory() -> None:
    one = tree()
    one.write(b"b/c/new", b"n", Kind.PROGRAM)
    one.write(b"empty", b"x", Kind.FILE)
    one.write(b"m", b"b", Kind.SYMLINK)
    one.delete(b"a/one")
    one.delete(b"a/run")
    assert one.look(b"a") is None
    assert [(entry.path, entry.kind, entry.mode, content_of(entry)) for entry in one.files()] == [
        (b"b/c/new", EntryKind.FILE, 0o755, b"n"),
        (b"empty", EntryKind.FILE, 0o644, b"x"),
        (b"l", EntryKind.SYMLINK, 0o777, b"a/one"),
        (b"m", EntryKind.SYMLINK, 0o777, b"b"),
    ]
    with pytest.raises(WorldError) as caught:
        one.write(b"b", b"x", Kind.FILE)
    assert str(caught.value) == "b: cannot be written: the directory is not empty"
    assert one.names(b"b") == [b"c"]
