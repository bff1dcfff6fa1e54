"""What package managers leave behind is evened out: the commands, and what they make of made-up state files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, run
from packager.build.scrubs import scrub_commands

if TYPE_CHECKING:
    from pathlib import Path

OLD = "hoistPattern:\n  - '*'\nprunedAt: Sun, 29 Nov 2026 23:54:02 GMT\nstoreDir: /root/.local\n"
STATE = {"prunedAt": "Mon, 01 Dec 2025 01:02:03 GMT", "lastValidatedTimestamp": 1795996442057, "pnpmfiles": []}
EVEN = {"prunedAt": "Tue, 01 Jan 1980 00:00:00 GMT", "lastValidatedTimestamp": 315532800000, "pnpmfiles": []}
POLICIES = """{
  "lastValidatedTimestamp": 1795996442057,
  "settings": {
    "dev": true,
    "minimumReleaseAge": 0,
    "minimumReleaseAgeStrict": true,
    "optional": true,
    "trustPolicy": "off"
  }
}
"""
NO_POLICIES = """{
  "lastValidatedTimestamp": 315532800000,
  "settings": {
    "dev": true,
    "optional": true
  }
}
"""


def test_lock_files_say_which_commands() -> None:
    assert scrub_commands(["go.mod", "a/package-lock.json", "uv.lock"]) == ()
    assert scrub_commands(["web/yarn.lock"]) == ("rm -rf /root/.cache/yarn",)
    assert scrub_commands(["**/pnpm-lock.yaml", "x/pnpm-lock.yaml"]) == scrub_commands(["pnpm-lock.yaml"])
    assert len(scrub_commands(["pnpm-lock.yaml"])) == 2


@pytest.mark.engine
def test_the_times_and_policies_that_pnpm_notes_are_evened_out_and_nothing_else(tmp_path: Path) -> None:
    files = {
        "node_modules/.modules.yaml": (OLD, OLD.replace("Sun, 29 Nov 2026 23:54:02", "Tue, 01 Jan 1980 00:00:00")),
        "web/node_modules/.modules.yaml": (json.dumps(STATE, indent=2), json.dumps(EVEN, indent=2)),
        "node_modules/.pnpm-workspace-state-v1.json": (json.dumps(STATE), json.dumps(EVEN)),
        "web/node_modules/.pnpm-workspace-state.json": (POLICIES, NO_POLICIES),
        "node_modules/.pnpm/a@1.0.0/node_modules/a/.modules.yaml": (OLD, OLD),
        "node_modules/b/state.json": (json.dumps(STATE), json.dumps(STATE)),
    }
    for name, (before, _) in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(before)
    command = scrub_commands(["pnpm-lock.yaml"])[1]
    for _ in range(2):
        done = run(["/bin/sh", "-c", command], Surroundings(env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path, timeout_s=60))
        assert (done.exit_code, done.stdout, done.stderr) == (0, b"", b"")
        assert {name: (tmp_path / name).read_text() for name in files} == {
            name: text[1] for name, text in files.items()
        }
