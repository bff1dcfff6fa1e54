"""A suite of one task whose repositories are built object by object: two targets, one context, a future that must not leak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.lock.git import GitSources
from packager.lock.repositories import Repositories
from packager.recipe.reader import read_recipe
from packager.store.store import Store
from tests.support.git_builder import TIME, GitBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from packager.recipe.model import Recipe

TASK = "small-wide-001"
URLS = "https://git.invalid/"

RECIPE = """\
schema: wideswe-recipe/1
id: small-wide-001
kind: feature
relation: producer-consumer
ecosystem: small
cutoff: "2030-01-01T00:00:00Z"
prompt: small-wide-001/prompt.md
platforms: [linux/amd64]
base: {{debian: bookworm, packages: [git]}}
template: task.Dockerfile.j2
targets:
  - name: maker
    repo: https://git.invalid/maker
    commit: {maker}
    gold: {{commit: {maker_gold}, exclude: ["tests/**"]}}
    hidden: {{commit: {maker_gold}, paths: ["tests/**"]}}
    manifests: [deps.txt]
    dependencies: [install deps.txt]
    test: {{run: sh tests/all, results: tap}}
  - name: user
    repo: https://git.invalid/user
    commit: {user}
    gold: {{patch: small-wide-001/user.patch}}
    hidden: {{files: small-wide-001/hidden/user}}
    history: none
    prepare: [make all]
    test: {{run: sh check, results: tap}}
contexts:
  - {{name: guide, repo: https://git.invalid/guide, commit: {guide}}}
links:
  - {{consumer: user, producer: maker, how: checkout, check: sh loads-maker}}
services: []
limits: {{cpus: 1, memory: 512M, pids: 256}}
"""

USER_PATCH = b"diff --git a/use b/use\n--- a/use\n+++ b/use\n@@ -1 +1 @@\n-make one\n+make two\n"


@dataclass(frozen=True)
class SmallSuite:
    """The suite's folder, the ids of its commits, and how its addresses are mirrored."""

    root: Path
    store: Store
    mirrors: dict[str, str]
    commits: dict[str, str]

    def recipe(self) -> Recipe:
        return read_recipe(self.root / "recipes" / f"{TASK}.yaml")

    def rewrite(self, old: str, new: str) -> None:
        """Change the recipe as an author would."""
        path = self.root / "recipes" / f"{TASK}.yaml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def repositories(self, recipe: Recipe | None = None) -> Repositories:
        sources = GitSources(self.store, self.mirrors, self.root / "recipes")
        return Repositories(recipe or self.recipe(), sources, self.store)


def make_suite(folder: Path) -> SmallSuite:
    mirrors = folder / "mirrors"
    maker, user, guide = (GitBuilder(mirrors / name) for name in ("maker", "user", "guide"))
    first = maker.commit({"make": "nothing\n", "deps.txt": "none\n"})
    base = maker.commit({"make": "one\n", "deps.txt": "none\n", "tests/all": "echo 1..0\n"}, first, time=TIME + 1)
    gold = maker.commit(
        {"make": "two\n", "deps.txt": "none\n", "tests/all": ("100755", b"echo 1..1\n")}, base, time=TIME + 2
    )
    commits = {
        "maker": base,
        "maker_gold": gold,
        "maker_root": first,
        "user": user.commit({"use": "make one\n", "check": "true\n"}),
        "guide": guide.commit({"guide.md": "read me\n"}, time=TIME + 3),
    }
    task = folder / "suite" / "recipes" / TASK
    (task / "hidden" / "user" / "deep").mkdir(parents=True)
    (task / "prompt.md").write_text("Make two.\n")
    (task / "user.patch").write_bytes(USER_PATCH)
    (task / "hidden" / "user" / "deep" / "test").write_text("ok\n")
    script = task / "hidden" / "user" / "check"
    script.write_text("echo 1..1\n")
    script.chmod(0o755)
    (task.parent / f"{TASK}.yaml").write_text(RECIPE.format(**commits))
    (folder / "suite" / "images").mkdir()
    (folder / "suite" / "images" / "task.Dockerfile.j2").write_text("FROM scratch\n")
    return SmallSuite(folder / "suite", Store(folder / "store"), {URLS: f"{mirrors}/"}, dict(commits))
