"""A recipe with the lists and the id of a release: validate names what differs, predictions and reports know the id."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.recipe.model import recipe_digest
from packager.recipe.reader import read_recipe
from packager.sandbox.namespaces import may_mount
from tests.support.walk import ROOT, TARGETS, TASK

if TYPE_CHECKING:
    from tests.support.walk import Party

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="builds an image")]

RELEASED = "org_gauge_tidewatch_0123456789ab"


@pytest.fixture(scope="module")
def importer(author: Party, tmp_path_factory: pytest.TempPathFactory) -> Party:
    """Somebody whose recipe names a release's id and lists, in which one test of gauge is spelled otherwise and one new."""
    folder = tmp_path_factory.mktemp("importer")
    for name in ("recipes", "images", "lockfiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.schema.json"))
    path = folder / "recipes" / f"{TASK}.yaml"
    before = recipe_digest(read_recipe(path))
    text = path.read_text().replace(
        "kind: feature\n", f"kind: feature\naliases: [{RELEASED}]\nfrozen: {TASK}/frozen.json\n", 1
    )
    path.write_text(text)
    expected = json.loads((folder / "lockfiles" / f"{TASK}.linux-amd64.expected.json").read_bytes())["targets"]
    lists = {
        name: {
            "FAIL_TO_PASS": [f"TAP::{test}" for test in one["FAIL_TO_PASS"]],
            "PASS_TO_PASS": [*one["PASS_TO_PASS"], "was once there"],
        }
        for name, one in expected.items()
    }
    (folder / "recipes" / TASK / "frozen.json").write_text(json.dumps(lists))
    lock = folder / "lockfiles" / f"{TASK}.linux-amd64.lock.json"
    lock.write_text(lock.read_text().replace(before, recipe_digest(read_recipe(path))))
    return replace(author, root=folder, key_folder=author.keys)


def test_validation_holds_what_it_finds_against_a_release(importer: Party) -> None:
    done = importer.call("validate", "--task", TASK, "--runs", "1", "--no-vary")
    assert done.exit_code == 0, done.stderr.decode()
    counts = {"gauge": (9, 17), "tidewatch": (10, 15)}
    assert [line for line in done.stdout.decode().splitlines() if "released" in line or "not in" in line] == [
        line
        for name in TARGETS
        for line in (
            (
                f"  released     {name}: FAIL_TO_PASS {counts[name][0]} of {counts[name][0]} as released; "
                f"PASS_TO_PASS {counts[name][1]} of {counts[name][1] + 1} as released"
            ),
            f"  not in PASS_TO_PASS  {name}: was once there: not reported",
        )
    ]
    evidence = json.loads((importer.root / "lockfiles" / f"{TASK}.linux-amd64.validation.json").read_bytes())
    found = evidence["targets"]["gauge"]["released"]
    assert found["PASS_TO_PASS"] == {"released": 18, "same": 17, "gone": {"was once there": "not reported"}, "new": []}
    assert set(found["respelled"].values()) == {name.removeprefix("TAP::") for name in found["respelled"]}


def test_predictions_may_call_a_task_by_its_released_id(
    importer: Party, gold: dict[str, bytes], tmp_path: Path
) -> None:
    line = {"instance_id": RELEASED, "patches": {name: data.decode() for name, data in gold.items()}}
    (tmp_path / "p.jsonl").write_text(json.dumps(line) + "\n")
    row = importer.ask("evaluate", "--predictions", tmp_path / "p.jsonl", "--into", tmp_path / "runs")
    assert (row["task"], row["outcome"]) == (TASK, "resolved")
    details = json.loads(Path(row["verdict"]).read_bytes())["run"]["details"]
    assert details["release, gauge"] == (
        "FAIL_TO_PASS 9 of 9 as released; PASS_TO_PASS 17 of 18 as released: not here was once there (not reported)"
    )
    importer.ask("report", tmp_path / "runs", "--html", tmp_path / "page.html")
    assert RELEASED in (tmp_path / "page.html").read_text()
