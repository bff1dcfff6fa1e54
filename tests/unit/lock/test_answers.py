"""A locked answer needs no repository any more, and nobody can put another one in its place."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import IntegrityError, WorldError
from packager.lock.answers import (
    Answer,
    answer_digests,
    hidden_tar,
    keep_answer,
    locked_answer,
    read_answer,
    read_hidden_tar,
)
from packager.lock.git import GitSources
from packager.lock.model import Lock, LockedBase
from packager.lock.repositories import Repositories
from packager.recipe.reader import read_recipe
from packager.store.store import Store
from tests.support.git_builder import Files, GitBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from packager.recipe.model import Recipe

pytestmark = pytest.mark.engine
BASE: Files = {"a.py": "one\n", "tests/test_a.py": "old\n"}
GOLD: Files = {"a.py": "two\n", "tests/test_a.py": "new\n", "tests/run.sh": ("100755", b"#!/bin/sh\n")}
MIRRORS = "https://h.invalid/{owner}/{name}"


def write_recipe(root: Path, mirror: GitBuilder) -> Recipe:
    base = mirror.commit(BASE)
    gold = mirror.commit(GOLD, base)
    folder = root / "recipes/answer-001"
    (folder / "hidden/tests").mkdir(parents=True)
    (folder / "hidden/tests/test_ours.py").write_text("ours\n")
    (folder / "prompt.md").write_text("Do it.\n")
    (root / "images").mkdir()
    (root / "images/task.Dockerfile.j2").touch()
    path = root / "recipes/answer-001.yaml"
    path.write_text(f"""\
schema: wideswe-recipe/1
id: answer-001
kind: feature
relation: parallel
ecosystem: hello
prompt: answer-001/prompt.md
platforms: [linux/amd64]
base: {{debian: bookworm, packages: [git]}}
template: task.Dockerfile.j2
targets:
  - name: one
    repo: https://h.invalid/owner/name
    commit: {base}
    gold: {{commit: {gold}, exclude: ["tests/**"]}}
    hidden: {{commit: {gold}, paths: ["tests/**"], files: answer-001/hidden}}
    test: {{run: pytest, results: junit-xml}}
contexts: []
links: []
services: []
limits: {{cpus: 1, memory: 1G, pids: 64}}
""")
    return read_recipe(path)


class Locked:
    """A recipe whose answer was read once, and the lock that pins it."""

    def __init__(self, root: Path) -> None:
        self.mirror = GitBuilder(root / "mirrors/owner+name/repo")
        self.recipe = write_recipe(root, self.mirror)
        self.root = root
        self.answer = read_answer(self.recipe, self.repositories(Store(root / "first")))
        nothing = digest_of(b"")
        base = LockedBase("bookworm", ())
        self.lock = Lock("answer-001", "linux/amd64", nothing, nothing, base, self.answer.files(b""))

    def repositories(self, store: Store) -> Repositories:
        place = f"{self.root}/mirrors/{{owner}}+{{name}}/repo"
        return Repositories(self.recipe, GitSources(store, {MIRRORS: place}, self.root / "recipes"), store)

    def read(self, store: Store) -> Answer:
        return locked_answer(self.recipe, self.lock, store=store, repositories=self.repositories(store))


@pytest.fixture
def locked(tmp_path: Path) -> Locked:
    return Locked(tmp_path)


def test_a_kept_answer_is_read_without_its_repository(locked: Locked, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    keep_answer(locked.answer, store)
    shutil.rmtree(locked.mirror.path)
    assert locked.read(store) == locked.answer
    assert locked.answer.hidden["one"] == {
        "tests/run.sh": (0o755, b"#!/bin/sh\n"),
        "tests/test_a.py": (0o644, b"new\n"),
        "tests/test_ours.py": (0o644, b"ours\n"),
    }


def test_an_answer_in_the_inputs_is_as_good_as_one_in_the_store(locked: Locked, tmp_path: Path) -> None:
    keep_answer(locked.answer, Store(tmp_path / "laid out"))
    shutil.rmtree(locked.mirror.path)
    assert locked.read(Store(tmp_path / "store", inputs=[tmp_path / "laid out"])) == locked.answer


def test_an_absent_answer_is_made_from_the_repository_and_kept(locked: Locked, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert locked.read(store) == locked.answer
    assert len(answer_digests(locked.lock)) == 2
    assert [store.has(digest) for digest in answer_digests(locked.lock)] == [True, True]


def test_an_absent_answer_without_a_repository_says_what_is_missing(locked: Locked, tmp_path: Path) -> None:
    shutil.rmtree(locked.mirror.path)
    with pytest.raises(WorldError) as caught:
        locked.read(Store(tmp_path / "store"))
    assert str(caught.value) == (
        f"{locked.mirror.path}: expected a git repository (HEAD and objects, bare or in .git), found none\n"
        "hint: correct the mirror setting, or fetch the mirror again"
    )


def test_a_hidden_file_that_was_edited_after_locking_is_refused(locked: Locked, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    keep_answer(locked.answer, store)
    (tmp_path / "recipes/answer-001/hidden/tests/test_ours.py").write_text("other\n")
    with pytest.raises(IntegrityError) as caught:
        locked.read(store)
    other = {**locked.answer.hidden["one"], "tests/test_ours.py": (0o644, b"other\n")}
    assert str(caught.value) == (
        f"answer-001: hidden of one: expected {locked.lock.files.hidden['one']}, found {digest_of(hidden_tar(other))}\n"
        "hint: wideswe-pack lock --task answer-001"
    )


def test_another_answer_than_the_locked_one_is_refused(locked: Locked, tmp_path: Path) -> None:
    found = locked.lock.files.gold["one"]
    wanted = digest_of(b"another")
    locked.lock = replace(locked.lock, files=replace(locked.lock.files, gold={"one": wanted}))
    with pytest.raises(IntegrityError) as caught:
        locked.read(Store(tmp_path / "store"))
    assert str(caught.value) == (
        f"answer-001: gold of one: expected {wanted}, found {found}\nhint: wideswe-pack lock --task answer-001"
    )


def test_a_tar_of_hidden_files_gives_them_back_whatever_their_names() -> None:
    files = {"caf\udce9/é.py": (0o644, b"x"), "n" * 200 + "/a": (0o755, b""), "b": (0o644, b"y" * 2000)}
    assert read_hidden_tar(hidden_tar(files)) == files
