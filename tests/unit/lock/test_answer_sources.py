from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError, IntegrityError
from packager.lock.answers import (
    answer_digests,
    hidden_tar,
    keep_answer,
    locked_answer,
    read_answer,
    read_gold,
    read_hidden,
    read_hidden_tar,
    refuse_other_answer,
)
from packager.lock.model import Lock, LockedBase, LockedFiles
from tests.support.small_suite import TASK, USER_PATCH, SmallSuite, make_suite

if TYPE_CHECKING:
    from pathlib import Path

    from packager.lock.answers import Answer

pytestmark = pytest.mark.engine
D = digest_of(b"")


@pytest.fixture
def suite(tmp_path: Path) -> SmallSuite:
    return make_suite(tmp_path)


def answer_of(suite: SmallSuite) -> Answer:
    recipe = suite.recipe()
    return read_answer(recipe, suite.repositories(recipe))


def lock_of(answer: Answer) -> Lock:
    files = answer.files(b"Make two.\n")
    return Lock(TASK, "linux/amd64", D, D, LockedBase("bookworm", ()), files)


def test_gold_is_the_commit_s_own_change_without_what_is_excluded(suite: SmallSuite) -> None:
    gold = answer_of(suite).gold
    assert gold["user"] == USER_PATCH
    assert gold["maker"].startswith(b"diff --git a/make b/make\n")
    assert b"tests/all" not in gold["maker"]
    assert b"-one\n+two\n" in gold["maker"]


def test_gold_may_start_elsewhere_than_at_the_parent(suite: SmallSuite) -> None:
    suite.rewrite(
        f"gold: {{commit: {suite.commits['maker_gold']},",
        f"gold: {{commit: {suite.commits['maker_gold']}, from: {suite.commits['maker_root']},",
    )
    assert b"-nothing\n+two\n" in answer_of(suite).gold["maker"]


def test_gold_that_changes_nothing_is_refused(suite: SmallSuite) -> None:
    suite.rewrite('exclude: ["tests/**"]', 'exclude: ["**"]')
    base, gold = suite.commits["maker"], suite.commits["maker_gold"]
    with pytest.raises(InputError) as caught:
        answer_of(suite)
    assert str(caught.value) == (
        f"{TASK}: maker: the gold patch {base[:12]}..{gold[:12]} is empty\nhint: look at gold.from, include and exclude"
    )


def test_gold_without_a_parent_must_say_where_it_starts(suite: SmallSuite) -> None:
    recipe = suite.recipe()
    maker = recipe.target("maker")
    root = maker.gold.model_copy(update={"commit": suite.commits["maker_root"]})
    with pytest.raises(InputError) as caught:
        read_gold(recipe, maker.model_copy(update={"gold": root}), suite.repositories(recipe))
    assert str(caught.value) == ("https://git.invalid/maker: the gold commit has no parent\nhint: name gold.from")


def test_gold_that_names_nothing_is_refused(suite: SmallSuite) -> None:
    recipe = suite.recipe()
    nothing = recipe.target("user").gold.model_copy(update={"patch": None})
    with pytest.raises(InputError) as caught:
        read_gold(recipe, recipe.target("user").model_copy(update={"gold": nothing}), suite.repositories(recipe))
    assert str(caught.value) == f"{TASK}: user: gold needs a commit or a patch"


def test_hidden_files_come_from_a_commit_or_a_folder_with_their_modes(suite: SmallSuite) -> None:
    hidden = answer_of(suite).hidden
    assert hidden["maker"] == {"tests/all": (0o755, b"echo 1..1\n")}
    assert hidden["user"] == {"check": (0o755, b"echo 1..1\n"), "deep/test": (0o644, b"ok\n")}


def test_a_folder_lies_over_the_files_of_the_commit(suite: SmallSuite) -> None:
    over = suite.root / "recipes" / TASK / "hidden" / "maker" / "tests"
    over.mkdir(parents=True)
    (over / "all").write_text("echo 1..2\n")
    suite.rewrite('paths: ["tests/**"]', f'paths: ["tests/**"], files: {TASK}/hidden/maker')
    assert answer_of(suite).hidden["maker"] == {"tests/all": (0o644, b"echo 1..2\n")}


def test_no_hidden_file_at_all_is_refused(suite: SmallSuite) -> None:
    suite.rewrite('paths: ["tests/**"]', 'paths: ["spec/**"]')
    recipe = suite.recipe()
    with pytest.raises(InputError) as caught:
        read_hidden(recipe, recipe.target("maker"), suite.repositories(recipe))
    assert str(caught.value) == f"{TASK}: maker: no hidden test file was found\nhint: look at hidden.paths"


def test_a_link_that_came_among_hidden_files_after_the_recipe_was_read_is_refused(suite: SmallSuite) -> None:
    recipe = suite.recipe()
    link = suite.root / "recipes" / TASK / "hidden" / "user" / "link"
    link.symlink_to("check")
    with pytest.raises(InputError) as caught:
        read_hidden(recipe, recipe.target("user"), suite.repositories(recipe))
    assert str(caught.value) == f"{link}: a hidden file is a symbolic link\nhint: put the file itself there"


def test_the_tar_of_hidden_files_is_one_for_one_set_of_files_and_reads_back() -> None:
    files = {"b/c": (0o755, b"x"), "a": (0o644, b""), "caf\udce9/t": (0o644, b"y")}
    assert hidden_tar(files) == hidden_tar(dict(reversed(files.items())))
    assert hidden_tar(files) != hidden_tar({**files, "a": (0o755, b"")})
    assert read_hidden_tar(hidden_tar(files)) == dict(sorted(files.items()))


def test_a_locked_answer_needs_no_repository_once_it_was_kept(suite: SmallSuite) -> None:
    answer = answer_of(suite)
    keep_answer(answer, suite.store)
    assert all(suite.store.has(digest) for digest in answer_digests(lock_of(answer)))
    recipe = suite.recipe()
    unreachable = replace(suite, mirrors={"https://git.invalid/": "/nowhere/"}).repositories(recipe)
    assert locked_answer(recipe, lock_of(answer), store=suite.store, repositories=unreachable) == answer


def test_a_locked_answer_is_read_from_the_repositories_where_it_was_not_kept(suite: SmallSuite) -> None:
    answer, recipe = answer_of(suite), suite.recipe()
    found = locked_answer(recipe, lock_of(answer), store=suite.store, repositories=suite.repositories(recipe))
    assert found == answer
    assert suite.store.has(lock_of(answer).files.gold["maker"])


@pytest.mark.parametrize(("what", "target"), [("gold", "user"), ("hidden", "maker")])
def test_another_answer_than_the_locked_one_is_refused_by_name(suite: SmallSuite, what: str, target: str) -> None:
    answer = answer_of(suite)
    lock = lock_of(answer)
    refuse_other_answer(lock, answer)
    pinned = {**getattr(lock.files, what), target: D}
    gold, hidden = (pinned if what == one else getattr(lock.files, one) for one in ("gold", "hidden"))
    other = replace(lock, files=LockedFiles(lock.files.prompt, gold, hidden))
    with pytest.raises(IntegrityError) as caught:
        refuse_other_answer(other, answer)
    assert str(caught.value) == (
        f"{TASK}: {what} of {target}: expected {D}, found {getattr(lock.files, what)[target]}\n"
        f"hint: wideswe-pack lock --task {TASK}"
    )
