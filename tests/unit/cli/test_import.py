"""The verb import: its exit codes, its JSON, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support import released_oddities as oddities
from tests.support.command_line import call

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.processes import Finished


def run_import(home: Path, *words: str) -> Finished:
    return call(home, "--quiet", "--json", "import", "wideswe", "checkout", "--into", "recipes-of-mine", *words)


def test_the_answer_is_yes_only_if_nothing_is_left_to_write(tmp_path: Path) -> None:
    oddities.plain().write(tmp_path / "checkout")
    done = run_import(tmp_path, "--all")
    [case] = json.loads(done.stdout)["cases"]
    assert (done.exit_code, case["state"], case["recipe"]) == (
        0,
        "complete",
        "recipes-of-mine/acme-lib-app-000000000001.yaml",
    )
    oddities.no_task_file().write(tmp_path / "checkout")
    assert run_import(tmp_path, "--all").exit_code == 1
    assert run_import(tmp_path, "--case", "acme_lib_app_000000000001").exit_code == 0


def test_cases_are_chosen_in_one_way(tmp_path: Path) -> None:
    (tmp_path / "checkout").mkdir()
    for words in ((), ("--all", "--case", "x")):
        done = run_import(tmp_path, *words)
        assert (done.exit_code, done.stderr) == (
            2,
            b"error: give the cases in one way\nhint: --case NAME (repeats) or --all\n",
        )
