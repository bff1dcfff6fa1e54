"""Suites of one task with one target, made in a folder: recipe, prompt, template, and a repository with a gold change."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packager.api.place import PLATFORM, Place
from tests.support.git_builder import GitBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.build.task import TaskBuild
    from packager.lock.model import Lock

TEMPLATES = Path(__file__).parents[2] / "images"
SOURCES = "https://git.invalid/"
TAP = {"run": "sh tests.sh", "results": "tap", "report": "stdout"}
BASE: Mapping[str, object] = {
    "debian": "bookworm",
    "packages": ["apt", "ca-certificates", "curl", "git", "python3", "python3-venv"],
}


@dataclass(frozen=True)
class Sample:
    """What one target is: its files at base and those that gold adds or changes; `fields` are recipe keys of it.

    `past` are the trees of the commits before base, oldest first; `{past}` in a field is the last one's id.
    """

    name: str
    files: Mapping[str, str]
    gold: Mapping[str, str]
    hidden: Mapping[str, str] = field(default_factory=lambda: {"tests.sh": "echo 1..1\necho ok 1 - one\n"})
    fields: Mapping[str, object] = field(default_factory=dict)
    base: Mapping[str, object] = field(default_factory=lambda: BASE)
    past: Sequence[Mapping[str, str]] = ()
    platforms: Sequence[str] = (PLATFORM,)

    @property
    def task(self) -> str:
        """The task's id."""
        return f"{self.name}-001"


@dataclass(frozen=True)
class Suite:
    """A folder with one task, and the place to work on it."""

    sample: Sample
    place: Place
    git: GitBuilder
    base: str
    gold: str

    @property
    def task(self) -> str:
        """The task's id."""
        return self.sample.task

    @property
    def recipe_path(self) -> Path:
        """The recipe's file."""
        return self.place.root / "recipes" / f"{self.task}.yaml"

    @property
    def lock_path(self) -> Path:
        """The lock's file."""
        return self.place.file(self.task, PLATFORM, "lock")

    def lock(self) -> Lock:
        """Return the lock."""
        return self.place.lock(self.task, PLATFORM)

    def task_build(self) -> TaskBuild:
        """Return the locked task, ready to be built."""
        return self.place.task_build(self.task, PLATFORM, lambda _: None)

    def write_recipe(self, **changes: object) -> None:
        """Write the recipe; `changes` are keys of its target."""
        target = {
            "name": self.sample.name,
            "repo": SOURCES + self.sample.name,
            "commit": self.base,
            "gold": {"commit": self.gold},
            "hidden": {"files": f"{self.task}/hidden"},
            "test": TAP,
            **self.sample.fields,
            **changes,
        }
        recipe = {
            "schema": "wideswe-recipe/1",
            "id": self.task,
            "kind": "feature",
            "relation": "parallel",
            "ecosystem": "made-up",
            "prompt": f"{self.task}/prompt.md",
            "platforms": list(self.sample.platforms),
            "base": dict(self.sample.base),
            "targets": [target],
        }
        self.recipe_path.write_text(json.dumps(recipe, indent=1))  # JSON is YAML


def make_suite(folder: Path, sample: Sample, *, store: Path, inputs: tuple[Path, ...] = ()) -> Suite:
    """Make a suite below `folder` that works with a store anywhere."""
    root = folder / "suite"
    beside = root / "recipes" / sample.task
    for name, text in sample.hidden.items():
        path = beside / "hidden" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (beside / "prompt.md").write_text("Make it so.\n")
    shutil.copytree(TEMPLATES, root / "images")
    git = GitBuilder(folder / "git" / f"{sample.name}.git")
    past: list[str] = []
    for number, files in enumerate(sample.past):
        past.append(git.commit(dict(files), *past[-1:], message=f"past {number}"))
    base = git.commit(dict(sample.files), *past[-1:], message="base")
    gold = git.commit({**sample.files, **sample.gold}, base, message="gold")
    git.ref("refs/heads/main", gold)
    place = Place(root, store, folder / "keys", inputs=inputs, mirrors={SOURCES: f"{folder / 'git'}/"})
    fields = json.loads(json.dumps(dict(sample.fields)).replace("{past}", past[-1] if past else ""))
    suite = Suite(replace(sample, fields=fields), place, git, base, gold)
    suite.write_recipe()
    return suite
