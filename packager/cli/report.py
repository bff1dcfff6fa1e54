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
@click.pass_obj
def report_command(options: Options, results: tuple[Path, ...], *, html: Path | None, csv: Path | None) -> None:
    """Sum up the verdicts below some folders: RESULTS/CONFIGURATION[/joint|independent]/TASK.json.

    Rates are parts of what was judged: resolved and unresolved. Missing patches, timeouts and trouble of the machine
    are counted beside them.
    """
    from packager import api

    summary = api.report(results, html=html, csv=csv)
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
            percent(row.target_rate),
            ", ".join(f"{name} {count}" for name, count in row.failures.items()),
        )
        for row in summary.configurations
    ]
    names = [name.upper() for name in summary.configurations[0].outcomes]
    text = table(("CONFIGURATION", "MODE", "TASKS", *names, "OF TASKS", "OF TARGETS", "FAILURES"), rows)
    if not summary.flips:
        return text
    flips = [(flip.configuration, flip.task, flip.joint, flip.independent) for flip in summary.flips]
    return f"{text}\n\n{table(('CONFIGURATION', 'TASK', 'JOINT', 'INDEPENDENT'), flips)}"


def percent(rate: float | None) -> str:
    """Return a part as a percentage, or a dash where there is none."""
    return "-" if rate is None else f"{100 * rate:.1f} %"
