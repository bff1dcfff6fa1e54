from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError, IntegrityError
from packager.lock.git import snapshot_id
from packager.lock.git_objects import ObjectId, object_id
from packager.lock.repositories import lock_repositories, refuse_young
from packager.store.store import Store
from tests.support.git_builder import TIME
from tests.support.small_suite import TASK, SmallSuite, make_suite

if TYPE_CHECKING:
    from pathlib import Path

    from packager.lock.model import LockedRepo

pytestmark = pytest.mark.engine


@pytest.fixture
def suite(tmp_path: Path) -> SmallSuite:
    return make_suite(tmp_path)


def locked(suite: SmallSuite) -> dict[str, LockedRepo]:
    rows = lock_repositories(suite.repositories(), suite.store, targets=["maker", "user"])
    return {row.name: row for row in rows}


def test_every_repository_is_pinned_with_its_role_and_its_pack_is_in_the_store(suite: SmallSuite) -> None:
    rows = locked(suite)
    assert [(row.name, row.role) for row in rows.values()] == [
        ("maker", "target"),
        ("user", "target"),
        ("guide", "context"),
    ]
    assert {name: row.commit for name, row in rows.items()} == {name: suite.commits[name] for name in rows}
    for row in rows.values():
        assert len(suite.store.read(row.pack_digest, 1 << 20)) == row.pack_size


def test_the_locked_checkout_is_the_original_one_and_needs_no_repository(suite: SmallSuite) -> None:
    rows = locked(suite)
    originals = suite.repositories()
    unreachable = replace(suite, mirrors={"https://git.invalid/": "/nowhere/"}).repositories()
    for name, row in rows.items():
        found, original = unreachable.locked(row), originals.original(name)
        assert [(one.path, one.mode, one.size) for one in found.tree_entries(b"w")] == [
            (one.path, one.mode, one.size) for one in original.tree_entries(b"w")
        ]
        assert [one.path for one in found.git_entries(b"w")] == [one.path for one in original.git_entries(b"w")]


def test_without_history_the_checkout_is_a_snapshot_of_the_tree(suite: SmallSuite) -> None:
    row = locked(suite)["user"]
    assert suite.repositories().locked(row).commit == snapshot_id(ObjectId(row.tree))
    assert suite.repositories().locked(locked(suite)["maker"]).commit == suite.commits["maker"]


def test_a_pack_that_the_store_lacks_is_made_again(suite: SmallSuite, tmp_path: Path) -> None:
    row = locked(suite)["maker"]
    other = replace(suite, store=Store(tmp_path / "other"))
    assert not other.store.has(row.pack_digest)
    other.repositories().locked(row)
    assert other.store.has(row.pack_digest)


def test_a_pack_that_comes_out_otherwise_is_refused(suite: SmallSuite) -> None:
    row = locked(suite)["maker"]
    wrong = replace(row, pack_digest=digest_of(b"other"))
    with pytest.raises(IntegrityError) as caught:
        suite.repositories().locked(wrong)
    assert str(caught.value) == (
        f"maker: expected the canonical pack {digest_of(b'other')}, found {row.pack_digest}\n"
        "hint: the lock was made by another version of wideswe-pack; lock again"
    )


def test_contexts_younger_than_the_cutoff_are_refused_by_name(suite: SmallSuite) -> None:
    recipe = suite.recipe()
    refuse_young(recipe, {"guide": TIME})
    with pytest.raises(InputError) as caught:
        refuse_young(recipe, {"guide": 2_000_000_000})
    assert str(caught.value) == (
        f"{TASK}: contexts: younger than the cutoff 2030-01-01T00:00:00Z: guide\n"
        "hint: choose the last commit of the default branch at or before the cutoff"
    )


def test_without_a_cutoff_no_context_is_too_young(suite: SmallSuite) -> None:
    suite.rewrite('cutoff: "2030-01-01T00:00:00Z"\n', "")
    refuse_young(suite.recipe(), {"guide": 2_000_000_000})


def test_what_a_recipe_leaves_out_need_not_be_there_and_the_rest_is_a_snapshot(
    suite: SmallSuite, tmp_path: Path
) -> None:
    suite.rewrite("    history: none\n", "    history: none\n    leave_out: [che*]\n")
    blob = object_id("blob", b"true\n")
    (tmp_path / "mirrors/user/objects" / blob[:2] / blob[2:]).unlink()
    row = locked(suite)["user"]
    assert row.commit == suite.commits["user"]
    checkout = suite.repositories().locked(row)
    assert [entry.path for entry in checkout.tree_entries(b"w")] == [b"w", b"w/use"]
    assert checkout.commit == snapshot_id(ObjectId(row.tree))


@pytest.mark.parametrize(
    ("glob", "reason"),
    [
        ("chek", "user: leave_out names no file of the base: chek"),
        ("**", "user: leave_out names every file of the base"),
    ],
)
def test_leaving_out_nothing_or_everything_is_refused(suite: SmallSuite, glob: str, reason: str) -> None:
    suite.rewrite("    history: none\n", f"    history: none\n    leave_out: ['{glob}']\n")
    with pytest.raises(InputError) as caught:
        locked(suite)
    assert str(caught.value).replace("https://git.invalid/", "") == reason
