"""Many evaluations on the command line: their options, and one row for what became of each task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packager.base.errors import UsageError
from packager.cli.screen import progress_on_screen, show, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packager.api import EvaluationRequest
    from packager.cli.place import Options

_MOST_JOBS = 256


def run_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the options of many evaluations to a command."""
    options = (
        click.option(
            "--predictions",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            default=None,
            help="JSONL predictions; without --task, every task that they name.",
        ),
        click.option(
            "--into",
            type=click.Path(path_type=Path, file_okay=False),
            default=None,
            help="Keep each verdict below this folder, and evaluate each task in a process of its own.",
        ),
        click.option(
            "--jobs", type=click.IntRange(1, _MOST_JOBS), default=None, help="How many at once (with --into)."
        ),
        click.option(
            "--resume",
            is_flag=True,
            help="Evaluate only what --into holds no judgement of: same image, patch and tool.",
        ),
        click.option(
            "--from", "source", metavar="HOST/REPO", default=None, help="Pull images that are not here first."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def take_run_options(given: dict[str, Any], chosen: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Take the options of many evaluations out of `given`; return the tasks and these options."""
    from packager import api

    run = {name: given.pop(name) for name in ("predictions", "into", "jobs", "resume", "source")}
    if run["predictions"] is not None:
        if given["patches"] is not None:
            raise UsageError("--patch and --predictions exclude each other")
        given["patches"] = run["predictions"]
        chosen = chosen or api.tasks_predicted(run["predictions"])
    if run["into"] is None and (run["jobs"] or run["resume"] or run["source"]):
        raise UsageError("--jobs, --resume and --from need a folder for the verdicts", hint="--into DIR")
    return chosen, run


def run_many(options: Options, tasks: Sequence[str], request: EvaluationRequest, run: dict[str, Any]) -> int:
    """Evaluate tasks into a folder, show what became of each, and return the worst exit code."""
    from packager import api

    if request.output is not None:
        raise UsageError("--output and --into exclude each other")
    jobs = [api.Job(options.place(), task, request, run["source"] or "") for task in tasks]
    with progress_on_screen(options) as progress:
        campaign = api.Campaign(run["into"], run["jobs"] or 1, run["resume"])
        found = api.evaluate_many(jobs, campaign, progress=progress)
    if options.as_json:
        for one in found:
            show(options, one, "")
    else:
        rows = [(one.task, one.outcome, "known" if one.known else "new", one.reason) for one in found]
        show(options, found, table(("TASK", "OUTCOME", "VERDICT", "REASON"), rows))
    return max((one.exit_code for one in found), default=0)
