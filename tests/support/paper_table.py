"""The published totals of seven configurations, and per-task results that nobody measured but that have these totals.

The totals are facts of Table 1 of arXiv 2609.33382, as the release's own page repeats them: tasks resolved of 60 bug fixes
and of 60 features. That page also says of the best configuration that in 83.33 % of the tasks at least one target is
resolved, and the release has 107 tasks of two targets and 13 of three. Which tasks these are is made up here.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from packager.evaluate.run_record import RunRecord
from tests.support.made_up_runs import made_up, write_run

if TYPE_CHECKING:
    from pathlib import Path

PUBLISHED = {
    "Claude Opus 5, Claude Code": (25, 17),
    "DeepSeek V4 Pro, Claude Code": (23, 9),
    "GLM 5.3, Claude Code": (18, 6),
    "GPT-5.6-sol, Claude Code": (20, 19),
    "GPT-5.6-sol, Codex CLI": (25, 26),
    "Gemini 3.8 Flash, Claude Code": (13, 0),
    "Qwen 3.8 Max, Claude Code": (29, 16),
}
"""Bug fixes and features resolved, by configuration."""
BEST = "GPT-5.6-sol, Codex CLI"
BEST_ANY = 100
"""Tasks of which the best configuration resolves at least one target: 83.33 % of 120."""
BUGFIXES, TASKS = 60, 120
THREE_TARGETS = frozenset(range(4, TASKS, 10)) | {0}


def write_paper_runs(folder: Path) -> None:
    """Write a verdict for each of 120 made-up tasks and each configuration."""
    dice = random.Random(7)
    for name, (bugfixes, features) in PUBLISHED.items():
        resolved = {*dice.sample(range(BUGFIXES), bugfixes), *dice.sample(range(BUGFIXES, TASKS), features)}
        rest = sorted(set(range(TASKS)) - resolved)
        part = set(dice.sample(rest, BEST_ANY - len(resolved) if name == BEST else len(rest) // 3))
        for task in range(TASKS):
            targets = ["a", "b", "c"] if task in THREE_TARGETS else ["a", "b"]
            outcomes = dict.fromkeys(targets, "resolved" if task in resolved else "unresolved")
            if task in part:
                outcomes["a"] = "resolved"
            record = RunRecord(targets=tuple(targets), kind="bugfix" if task < BUGFIXES else "feature")
            write_run(folder / name, made_up(f"task-{task:03d}", outcomes), record=record)
