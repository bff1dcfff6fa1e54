"""What sums up many runs: report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from packager.cli.screen import show, table

if TYPE_CHECKING:
    from packager.cli.place import Options
    from packager.report.summary import Summary

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("report", epilog="Example: wideswe-pack report results/ --html report.html --csv report.csv")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--html", type=_FILE, default=None, help="Also write one self-contained page to this file.")
@click.option(
    "--csv", type=_FILE, default=None, help="Also write a row per configuration, task and target to this file."
)
@click.option(
    "--rows", type=_FILE, default=None, help="Also write these rows as JSON lines, with the names of failing tests."
)
@click.pass_obj
def report_command(
    options: Options, results: tuple[Path, ...], *, html: Path | None, csv: Path | None, rows: Path | None
) -> None:
    """Sum up the verdicts below some folders: RESULTS/CONFIGURATION[/joint|independent]/TASK.json.

    Rates are parts of what was judged: resolved and unresolved. Missing patches, timeouts and trouble of the machine
    are counted beside them. With --json, counts alone: every rate is a quotient of two of them.
    """
    from packager import api

    summary = api.report(results, api.ReportRequest(html, csv, rows), place=options.place())
    show(options, summary, describe_summary(summary))


def describe_summary(summary: Summary) -> str:
    """Return a summary as text for people."""
    rows = [
        (
            row.configuration,
            row.mode,
            str(row.tasks),
            *(str(row.outcomes[name]) for name in row.outcomes),
            percent(row.task_rate),
            percent(row.any_rate),
            percent(row.target_rate),
            ", ".join(f"{name} {count}" for name, count in row.failures.items()),
        )
        for row in summary.configurations
    ]
    outcomes = [name.upper() for name in summary.configurations[0].outcomes]
    head = ("CONFIGURATION", "MODE", "TASKS", *outcomes, "OF TASKS", "ANY TARGET", "OF TARGETS", "FAILURES")
    parts = [table(head, rows), describe_groups(summary)]
    if summary.flips:
        flips = [
            (flip.configuration, flip.task, flip.target or "all", flip.joint, flip.independent)
            for flip in summary.flips
        ]
        parts.append(table(("CONFIGURATION", "TASK", "TARGET", "JOINT", "INDEPENDENT"), flips))
    if summary.mixed:
        parts.append(f"not judged by one image: {', '.join(summary.mixed)}")
    return "\n\n".join(parts)


def describe_groups(summary: Summary) -> str:
    """Return which part of each group of tasks is resolved, as a table like the paper's."""
    names = summary.groups
    rows = [
        (
            row.configuration,
            row.mode,
            *(percent(row.groups[name].rate if name in row.groups else None) for name in names),
            percent(row.task_rate),
        )
        for row in summary.configurations
    ]
    return table(("CONFIGURATION", "MODE", *(name.upper() for name in names), "OVERALL"), rows)


def percent(rate: float | None) -> str:
    """Return a part as a percentage, or a dash where there is none."""
    return "-" if rate is None else f"{100 * rate:.2f} %"
