from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.lock.model import Lock, LockedBase, LockedFiles, LockedRepo
from packager.lock.resolve import _wished, current_ids, refuse_drift, wanted_of
from packager.recipe.model import recipe_digest
from tests.support.small_suite import TASK, SmallSuite, make_suite

if TYPE_CHECKING:
    from pathlib import Path

DOCKERFILE = digest_of(b"dockerfile")


@pytest.fixture
def suite(tmp_path: Path) -> SmallSuite:
    return make_suite(tmp_path)


def lock_of(suite: SmallSuite) -> Lock:
    recipe = suite.recipe()
    names = {"maker": "target", "user": "target", "guide": "context"}
    return Lock(
        TASK,
        "linux/amd64",
        recipe_digest(recipe),
        DOCKERFILE,
        LockedBase("bookworm", ()),
        LockedFiles(digest_of(b"Make two.\n"), {}, {}),
        ids=current_ids(),
        repos=tuple(
            LockedRepo(role, name, suite.commits[name], "0" * 40, DOCKERFILE, 1) for name, role in names.items()
        ),
    )


def test_a_lock_that_fits_its_recipe_is_taken(suite: SmallSuite) -> None:
    refuse_drift(lock_of(suite), wanted_of(suite.recipe(), dockerfile=DOCKERFILE, platform="linux/amd64"))


def test_a_lock_that_does_not_fit_is_refused_with_every_difference(suite: SmallSuite) -> None:
    lock = lock_of(suite)
    (suite.root / "recipes" / TASK / "prompt.md").write_text("Make three.\n")
    suite.rewrite("debian: bookworm", "debian: trixie")
    recipe = suite.recipe()
    with pytest.raises(InputError) as caught:
        refuse_drift(lock, wanted_of(recipe, dockerfile=DOCKERFILE, platform="linux/amd64"))
    assert str(caught.value) == (
        f"{TASK}: the lock does not fit the recipe: base suite: bookworm -> trixie; "
        f"prompt: {digest_of(b'Make two.' + bytes([10]))} -> {digest_of(b'Make three.' + bytes([10]))}; "
        f"recipe: {lock.recipe} -> {recipe_digest(recipe)}\nhint: wideswe-pack lock --task {TASK}"
    )


def test_a_suite_that_is_not_named_is_the_usual_one(suite: SmallSuite) -> None:
    recipe = suite.recipe()
    bare = recipe.model_copy(update={"base": recipe.base.model_copy(update={"debian": None})})
    assert wanted_of(bare, dockerfile=DOCKERFILE, platform="linux/amd64").suite == "bookworm"


def test_all_targets_share_one_version_of_a_toolchain_unless_two_can_stand_side_by_side() -> None:
    assert _wished("go", [None, None]) == []
    assert _wished("go", ["1.2.3", None, "1.2.3"]) == ["1.2.3"]
    assert _wished("rust", ["1.2.4", None, "1.2.3", "1.2.4"]) == ["1.2.3", "1.2.4"]
    with pytest.raises(InputError) as caught:
        _wished("node", ["1.2.4", "1.2.3"])
    assert str(caught.value) == "toolchain.node: expected one version for all targets, found 1.2.3, 1.2.4"
