"""Case folders in the format of the released benchmark, all made up: a plain one, and one for each way of being odd."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Plain = dict[str, Any]

_ARM = """  {profile})
    docker run --rm -v "$workspace:/workspace" -w "/workspace/{place}" "$image" bash -c '
      set -euo pipefail
      {command}
    '
    ;;
"""


def commit(word: str) -> str:
    """Return a made-up commit for a word."""
    return hashlib.sha1(word.encode()).hexdigest()  # noqa: S324 - as git's ids look


def patch(path: str) -> str:
    """Return a small patch that makes a file."""
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+made up\n"


@dataclass
class MadeCase:
    """One case folder before it is written; None in `raw` leaves a file out."""

    name: str
    org: str = "acme"
    targets: tuple[str, ...] = ("lib", "app")
    raw: dict[str, bytes | None] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    head: str = "image=ecosyncbench/base/golang:1.26.0-bookworm\n"
    task: Plain = field(default_factory=dict)
    repos: Plain = field(default_factory=dict)
    harness: Plain = field(default_factory=dict)
    profiles: Plain = field(default_factory=dict)
    manifest: Plain = field(default_factory=dict)
    oracle: Plain = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = [self._row(name) for name in self.targets]
        self.task = {"id": self.name, "ecosystem": self.org, "task_type": "feature_parallel", "repositories": rows}
        self.task["source_prs"] = [
            {
                "repo": f"{self.org}/{name}",
                "title": "Add a thing",
                "url": f"https://github.com/{self.org}/{name}/pull/1",
            }
            for name in self.targets
        ]
        known = {name: self._known(row) for name, row in zip(self.targets, rows, strict=True)}
        self.repos = {"ecosystem": self.org, "repos": known}
        self.repos["workspace_policy"] = {"cutoff_time": "2025-10-14T10:35:52+00:00"}
        self.harness = {"hidden_test_patches": [self._hidden(name) for name in self.targets]}
        self.profiles = {"profiles": {self.profile(name): self._profile(name) for name in self.targets}}
        self.commands = dict.fromkeys(self.targets, "go test -json -count=1 ./... | tee /tmp/log")
        self.oracle = {"schema_version": 2, "profiles": []}
        self.manifest = {"valid": True, "errors": [], "repos": [self.scored(name, 2, 1, 3) for name in self.targets]}

    def place(self, name: str) -> str:
        return f"repos/{self.org}/{name}"

    def profile(self, name: str) -> str:
        return f"{name}-hidden"

    def row(self, name: str) -> Plain:
        """Return the row of a repository in task.yaml."""
        return next(row for row in self.task["repositories"] if row["name"] == name)

    def scored(self, name: str, native: int, missing: int, kept: int) -> Plain:
        """Return the row of a repository in the scoring manifest."""
        counts = {"native_fail_to_pass": native, "missing_to_pass": missing, "pass_to_pass": kept}
        ids = {
            key: [{"profile": self.profile(name), "id": f"{name}/{key}::Test{n}"} for n in range(count)]
            for key, count in counts.items()
        }
        ids["fail_to_pass"] = [*ids["native_fail_to_pass"], *ids["missing_to_pass"]]
        return {"repo": name, **counts, "fail_to_pass": native + missing, "test_ids": ids}

    def _row(self, name: str) -> Plain:
        word = f"{self.name}/{name}"
        return {
            "name": name,
            "path": self.place(name),
            "role": "source",
            "base_commit": commit(f"{word} base"),
            "gold_commit": commit(f"{word} gold"),
            "merge_commit": commit(f"{word} merge"),
            "gold_patch": f"gold/patches/{name}.patch",
        }

    def _known(self, row: Plain) -> Plain:
        name = row["name"]
        address = f"https://github.com/{self.org}/{name}.git"
        return {"url": address, "local_path": row["path"], "role": "source", "base_commit": row["base_commit"]}

    def _hidden(self, name: str) -> Plain:
        return {
            "repo": name,
            "patch": f"hidden/patches/{name}-hidden-tests.patch",
            "test_profile": self.profile(name),
            "semantic_changes": "none",
        }

    def _profile(self, name: str) -> Plain:
        return {"repo": name, "workdir": self.place(name), "command": "environment/run_profile.sh"}

    def script(self) -> str:
        """Return run_profile.sh."""
        arms = "".join(
            _ARM.format(profile=self.profile(name), place=self.place(name), command=command)
            for name, command in self.commands.items()
        )
        return f'#!/usr/bin/env bash\nset -euo pipefail\n{self.head}case "$profile" in\n{arms}esac\n'

    def files(self) -> dict[str, bytes]:
        """Return all files of the folder."""
        oracle = json.dumps(self.oracle).encode()
        stated = {"path": "oracles/hidden_test_oracle.json", "sha256": hashlib.sha256(oracle).hexdigest()}
        made: dict[str, bytes | None] = {
            "task.yaml": yaml.safe_dump(self.task).encode(),
            "repos.yaml": yaml.safe_dump(self.repos).encode(),
            "harness.yaml": yaml.safe_dump(self.harness).encode(),
            "environment/test_profiles.yaml": yaml.safe_dump(self.profiles).encode(),
            "environment/run_profile.sh": self.script().encode(),
            "oracles/hidden_test_oracle.json": oracle,
            "oracles/scoring_manifest.json": json.dumps({"oracle": stated, **self.manifest}).encode(),
            "prompt.md": b"Make the made-up thing.\n",
        }
        for name in self.targets:
            made[f"gold/patches/{name}.patch"] = patch(f"{name}.go").encode()
            made[f"hidden/patches/{name}-hidden-tests.patch"] = patch(f"{name}_test.go").encode()
        return {path: data for path, data in (made | self.raw).items() if data is not None}

    def write(self, checkout: Path) -> Path:
        """Write the folder into a checkout."""
        folder = checkout / "cases" / self.org / self.name
        for path, data in self.files().items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        for path, target in self.links.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).unlink(missing_ok=True)
            (folder / path).symlink_to(target)
        return folder


@dataclass(frozen=True)
class Odd:
    """A case that is odd in one way, and what the report must say of it."""

    make: Callable[[], MadeCase]
    state: str
    todo: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


ODD_CASES: dict[str, Odd] = {}


def odd(
    state: str, *, todo: tuple[str, ...] = (), notes: tuple[str, ...] = ()
) -> Callable[[Callable[[], MadeCase]], Callable[[], MadeCase]]:
    """Register a case under the name of the function that makes it."""

    def register(make: Callable[[], MadeCase]) -> Callable[[], MadeCase]:
        ODD_CASES[make.__name__] = Odd(make, state, todo, notes)
        return make

    return register
