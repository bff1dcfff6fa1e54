"""Patches that solve nothing and forge results: each is unresolved, next to an honest patch that is resolved."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from packager.sandbox.namespaces import may_mount
from tests.support.forged import BASE, HONEST, Arena, Trick, make_layer, make_patch, names_of
from tests.support.forged_tricks import ALL
from tests.support.host_engine import HostEngine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="needs root; the rootless engine is tested in test_rootless_engine.py"),
]
LEAST = 25
RESOLVED = ("resolved", "every expected test passed")
FAILED = "1 of 3 expected tests did not pass, first 'tests.test_calc::test_adds'"


def needs_node(name: str) -> None:
    if name == "node" and shutil.which("npm") is None:
        pytest.skip("npm is not installed")


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    folder = tmp_path_factory.mktemp("arena")
    yield Arena(HostEngine(), make_layer(folder / "layer"), folder / "store")
    assert list((folder / "store" / "tmp").iterdir()) == []
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", BASE)
def test_an_honest_patch_is_resolved(arena: Arena, tmp_path: Path, name: str) -> None:
    needs_node(name)
    assert arena.evaluate(name, make_patch(tmp_path, BASE[name], HONEST[name], {})) == RESOLVED


@pytest.mark.parametrize("trick", ALL, ids=names_of(ALL))
def test_a_forged_result_is_unresolved(arena: Arena, tmp_path: Path, trick: Trick) -> None:
    needs_node(trick.target)
    assert arena.evaluate(trick.target, trick.patch(tmp_path)) == ("unresolved", trick.said or FAILED)


@pytest.mark.slow
@pytest.mark.parametrize("trick", [one for one in ALL if one.works], ids=names_of([one for one in ALL if one.works]))
def test_a_trick_works_where_nothing_is_guarded(arena: Arena, tmp_path: Path, trick: Trick) -> None:
    needs_node(trick.target)
    assert arena.evaluate(trick.target, trick.patch(tmp_path), guarded=False) == RESOLVED


def test_there_are_enough_tricks_and_their_number_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{len(ALL)} forged results, {sum(one.works for one in ALL)} of which work where nothing is guarded")
    assert (len(ALL) >= LEAST, len(set(names_of(ALL)))) == (True, len(ALL))
