"""The bundles of hello-wide-001 are what its script writes, and the recipe names their commits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

RECIPES = Path(__file__).resolve().parents[3] / "recipes"
HELLO = RECIPES / "hello-wide-001"
NAMES = ("gauge", "stations", "tidewatch")
MOST_BYTES = 30_000


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("bundles")
    subprocess.run([sys.executable, str(HELLO / "make_bundles.py"), str(output)], check=True, capture_output=True)
    return output


@pytest.mark.parametrize("name", NAMES)
def test_the_script_writes_the_commits_tags_and_notes_that_are_stored(name: str, written: Path) -> None:
    stored = git("bundle", "list-heads", str(HELLO / "bundles" / f"{name}.bundle"))
    assert stored == git("bundle", "list-heads", str(written / f"{name}.bundle"))


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_is_small(name: str) -> None:
    assert (HELLO / "bundles" / f"{name}.bundle").stat().st_size < MOST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_every_base_has_a_future_that_could_leak(name: str, tmp_path: Path) -> None:
    recipe = yaml.safe_load((RECIPES / "hello-wide-001.yaml").read_text())
    base = {one["name"]: one["commit"] for one in [*recipe["targets"], *recipe["contexts"]]}[name]
    clone = str(tmp_path / name)
    git("clone", "--quiet", "--mirror", str(HELLO / "bundles" / f"{name}.bundle"), clone)
    later = git("-C", clone, "rev-list", "--all", f"^{base}").split()
    refs = git("-C", clone, "for-each-ref", "--format=%(refname)").split()
    assert len(later) >= 2, "the note and a commit"
    assert {"refs/notes/commits", "refs/tags/v2.0.0"} <= set(refs)


@pytest.mark.parametrize("name", ["gauge", "tidewatch"])
def test_a_cut_by_date_would_let_something_through(name: str, tmp_path: Path) -> None:
    recipe = yaml.safe_load((RECIPES / "hello-wide-001.yaml").read_text())
    base = {one["name"]: one["commit"] for one in recipe["targets"]}[name]
    clone = str(tmp_path / name)
    git("clone", "--quiet", "--mirror", str(HELLO / "bundles" / f"{name}.bundle"), clone)
    when = git("-C", clone, "log", "-1", "--format=%ct", base).strip()
    assert git("-C", clone, "rev-list", f"--before={when}", "main", f"^{base}").split()


@pytest.mark.parametrize("name", ["gauge", "tidewatch"])
def test_gold_is_the_child_of_the_base(name: str, tmp_path: Path) -> None:
    recipe = yaml.safe_load((RECIPES / "hello-wide-001.yaml").read_text())
    target = {one["name"]: one for one in recipe["targets"]}[name]
    clone = str(tmp_path / name)
    git("clone", "--quiet", "--mirror", str(HELLO / "bundles" / f"{name}.bundle"), clone)
    assert git("-C", clone, "rev-parse", f"{target['gold']['commit']}^").strip() == target["commit"]
