"""The options of many evaluations: what goes together, and what a run without any judgement says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import call

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("a-001", "--gold", "--resume"),
            "--jobs, --resume and --from need a folder for the verdicts\nhint: --into DIR",
        ),
        (
            ("--patch", ".", "--predictions", "p.jsonl"),
            "--patch and --predictions exclude each other",
        ),
        (("a-001", "--gold", "--into", "runs", "--output", "v.json"), "--output and --into exclude each other"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "p.jsonl").write_text('{"instance_id": "a-001", "model_patch": ""}\n')
    done = call(tmp_path, "evaluate", *words)
    assert (done.exit_code, done.stderr.decode().strip()) == (2, f"error: {said}")


def test_predictions_name_the_tasks_and_each_is_told_by_itself(tmp_path: Path) -> None:
    lines = [json.dumps({"instance_id": name, "model_patch": ""}) for name in ("b-001", "a-001")]
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    done = call(tmp_path, "--json", "--quiet", "evaluate", "--predictions", "p.jsonl", "--into", "runs", "--jobs", "2")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 3
    assert [(row["task"], row["outcome"], row["exit_code"], row["known"]) for row in rows] == [
        ("a-001", "refused", 3, False),
        ("b-001", "refused", 3, False),
    ]
