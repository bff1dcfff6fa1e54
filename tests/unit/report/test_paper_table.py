"""The paper's table of seven configurations, from made-up results of single tasks that have its totals."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from packager.cli.main import cli
from packager.report.runs import read_runs
from packager.report.summary import summarise
from tests.support.paper_table import BEST, PUBLISHED, write_paper_runs

if TYPE_CHECKING:
    from pathlib import Path

    from packager.report.run import Run

EXPECTED = """\
CONFIGURATION                  MODE   BUGFIX   FEATURE  2 TARGETS  3 TARGETS  OVERALL
Claude Opus 5, Claude Code     joint  41.67 %  28.33 %                        35.00 %
DeepSeek V4 Pro, Claude Code   joint  38.33 %  15.00 %                        26.67 %
GLM 5.3, Claude Code           joint  30.00 %  10.00 %                        20.00 %
GPT-5.6-sol, Claude Code       joint  33.33 %  31.67 %                        32.50 %
GPT-5.6-sol, Codex CLI         joint  41.67 %  43.33 %                        42.50 %
Gemini 3.8 Flash, Claude Code  joint  21.67 %  0.00 %                         10.83 %
Qwen 3.8 Max, Claude Code      joint  48.33 %  26.67 %                        37.50 %
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("paper")
    write_paper_runs(found)
    return found


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[Run]:
    return read_runs([folder])


def test_the_table_is_the_papers(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    table = done.output.split("\n\n")[1]
    print(f"\n{table}")
    shown = [line[:56].rstrip() + "|" + line[78:].rstrip() for line in table.splitlines()]
    assert shown == [line[:56].rstrip() + "|" + line[78:].rstrip() for line in EXPECTED.splitlines()]


def test_the_best_configuration_makes_progress_in_more_tasks_than_it_completes(runs: list[Run]) -> None:
    best = next(row for row in summarise(runs).configurations if row.configuration == BEST)
    assert (f"{best.any_rate:.4f}", f"{best.task_rate:.4f}") == ("0.8333", "0.4250")


def test_the_groups_are_those_of_the_release(runs: list[Run]) -> None:
    found = Counter((run.kind, len(run.grade.targets)) for run in runs)
    for name in ("bugfix", "feature"):
        assert sum(count for (kind, _), count in found.items() if kind == name) == 60 * len(PUBLISHED)
    assert sum(count for (_, targets), count in found.items() if targets == 3) == 13 * len(PUBLISHED)
    for row in summarise(runs).configurations:
        groups = row.groups
        assert [(name, share.judged) for name, share in groups.items()] == [
            ("bugfix", 60), ("feature", 60), ("2 targets", 107), ("3 targets", 13),
        ]  # fmt: skip
        assert groups["2 targets"].resolved + groups["3 targets"].resolved == sum(PUBLISHED[row.configuration])
