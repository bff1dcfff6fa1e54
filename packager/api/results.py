"""The verb that sums up: report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.base.files import full_disk_trouble, is_there, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from packager.api.place import Place
    from packager.report.notes import TaskNotes
    from packager.report.summary import Summary


@dataclass(frozen=True)
class ReportRequest:
    """Which files to write beside the summary: a page, and a row per configuration, task and target in two formats."""

    html: Path | None = None
    csv: Path | None = None
    rows: Path | None = None


@full_disk_trouble("report")
def report(results: Sequence[Path], request: ReportRequest = ReportRequest(), *, place: Place | None = None) -> Summary:
    """Read the verdicts below some folders, write what is asked for of them, and return their summary.

    With a place, its recipes say what verdicts do not: the kinds of tasks, their other ids, the lists of a release.
    """
    from packager.report.runs import read_runs, with_kinds
    from packager.report.summary import summarise

    runs = read_runs(results)
    notes = {} if place is None else _notes(place, sorted({run.task for run in runs}))
    runs = with_kinds(runs, {task: one.kind for task, one in notes.items()})
    if request.html is not None:
        from packager.report.page import format_page

        write_atomic(request.html, format_page(runs, notes=notes))
    from packager.report.rows import format_csv, format_json_lines

    if request.csv is not None:
        write_atomic(request.csv, format_csv(runs))
    if request.rows is not None:
        write_atomic(request.rows, format_json_lines(runs))
    return summarise(runs)


def _notes(place: Place, tasks: Iterable[str]) -> dict[str, TaskNotes]:
    """Return what the recipes here say of tasks; one with faults says nothing, as a report is not about recipes."""
    from packager.report.notes import TaskNotes

    found = {}
    for task in tasks:
        if "/" in task or not is_there(place.root / "recipes" / f"{task}.yaml"):
            continue
        try:
            recipe = place.recipe(task)
        except InputError:
            continue
        found[task] = TaskNotes(recipe.kind, recipe.aliases or (), place.released_lists(task, recipe.platforms[0]))
    return found
