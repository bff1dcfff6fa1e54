"""Many evaluations on the command line: their options, and one row for what became of each task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packager.base.errors import UsageError
from packager.cli.screen import progress_on_screen, show, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packager.api import EvaluationRequest, Predicted
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


def take_run_options(
    options: Options, given: dict[str, Any], named: tuple[str, ...]
) -> tuple[list[Predicted], dict[str, Any]]:
    """Take the options of many evaluations out of `given`; return what is to be judged and these options."""
    from packager import api

    run = {name: given.pop(name) for name in ("predictions", "into", "jobs", "resume", "source")}
    if run["predictions"] is not None:
        if given["patches"] is not None:
            raise UsageError("--patch and --predictions exclude each other")
        given["patches"] = run["predictions"]
    if run["into"] is None and (run["jobs"] or run["resume"] or run["source"]):
        raise UsageError("--jobs, --resume and --from need a folder for the verdicts", hint="--into DIR")
    predicted = () if run["predictions"] is None else api.tasks_predicted(options.place(), run["predictions"])
    if given["only"] is not None:
        tasks = named or tuple(dict.fromkeys(one.task for one in predicted))
        return [api.Predicted(task, given["only"]) for task in tasks], run
    if not named:
        return list(predicted), run
    found = {task: [one for one in predicted if one.task == task] for task in named}
    return [one for task in named for one in found[task] or [api.Predicted(task)]], run


def run_many(options: Options, chosen: Sequence[Predicted], request: EvaluationRequest, run: dict[str, Any]) -> int:
    """Evaluate tasks into a folder, show what became of each, and return the worst exit code."""
    from packager import api

    if request.output is not None:
        raise UsageError("--output and --into exclude each other")
    if request.trajectory is not None and len(chosen) > 1:
        raise UsageError("--trajectory is that of one task", hint="predictions may each name their own")
    jobs = [api.Job(options.place(), one.task, replace(request, only=one.only), run["source"] or "") for one in chosen]
    with progress_on_screen(options) as progress:
        campaign = api.Campaign(run["into"], run["jobs"] or 1, run["resume"])
        found = api.evaluate_many(jobs, campaign, progress=progress)
    if options.as_json:
        for one in found:
            show(options, one, "")
    else:
        names = [f"{one.task} ({one.only})" if one.only else one.task for one in found]
        rows = [
            (name, one.outcome, "known" if one.known else "new", one.reason)
            for name, one in zip(names, found, strict=True)
        ]
        show(options, found, table(("TASK", "OUTCOME", "VERDICT", "REASON"), rows))
    return max((one.exit_code for one in found), default=0)
