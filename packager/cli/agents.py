"""What those call who let agents work: run, capture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packager.cli.place import Options
from packager.cli.screen import progress_on_screen, show, table
from packager.cli.trust import key_option, trust_of, trust_options

if TYPE_CHECKING:
    from packager.api import Captured, Ran

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("run", epilog="Example: wideswe-pack run --agent codex-cli --task hello-wide-001 --into results")
@click.option(
    "--agent",
    required=True,
    metavar="NAME|FILE|CMD",
    help="An agent of agents/ by its name, a file like those, or a shell command, which reaches no network at all.",
)
@click.option("--task", "tasks", multiple=True, required=True, metavar="ID", help="The task; repeats.")
@click.option(
    "--only", "alone", multiple=True, metavar="TARGET", help="Give it this target alone, the others at gold; repeats."
)
@click.option("--into", type=_FOLDER, required=True, help="Keep everything below this folder, for `report`.")
@click.option("--configuration", default="", metavar="NAME", help="What it is called there (default: the agent).")
@click.option("--endpoint", default="", metavar="URL", help="Ask the model here in place of the agent's own upstream.")
@click.option("--jobs", "at_once", type=click.IntRange(1, 256), default=1, help="How many runs at once (of several).")
@click.option("--resume", is_flag=True, help="Go on from an earlier run: what was judged is not done again.")
@click.option("--evaluator", type=_FILE, default=None, help="The evaluator's key file.")
@key_option
@trust_options
@click.pass_obj
def run_command(options: Options, /, tasks: tuple[str, ...], alone: tuple[str, ...], **given: Any) -> int:  # noqa: ANN401 - options of five kinds
    """Let an agent work on a task in its view of the image, then judge the patches that it made.

    The view has no seal and no network; requests to the agent's own model go through a gateway that counts and caps
    them and adds the credential. Patches, trajectory, request counts and verdict are kept below --into. Exit code 0
    when every task is resolved, 1 when one is not, 6 when the machine or the model endpoint is to blame; of several
    runs one that cannot be done stops no other.
    """
    from packager import api

    base = api.AgentRequest(
        given["agent"],
        given["into"],
        configuration=given["configuration"],
        endpoint=given["endpoint"],
        resume=given["resume"],
        trust=trust_of(given),
        evaluator=given["evaluator"],
    )
    place = options.place()
    jobs = [api.AgentJob(place, task, replace(base, only=only)) for task in tasks for only in alone or (None,)]
    with progress_on_screen(options) as progress:
        if len(jobs) == 1:
            found = [api.run_agent(place, jobs[0].task, jobs[0].request, progress=progress)]
        else:
            found = api.run_agents(jobs, at_once=given["at_once"], progress=progress)
    for ran in found:
        show(options, ran, describe_ran(ran))
    return max(ran.exit_code for ran in found)


def describe_ran(ran: Ran) -> str:
    """Return what became of a run as text for people."""
    name = f"{ran.task} ({ran.only})" if ran.only else ran.task
    facts = (
        f"{name}: {ran.outcome}{', known' if ran.known else ''}",
        f"  reason    {ran.reason}",
        f"  agent     {ran.ended}",
        f"  requests  {'not counted' if ran.requests is None else ran.requests}",
        f"  kept in   {ran.folder}",
    )
    return "\n".join(facts)


@click.command(
    "capture", epilog="Example: wideswe-pack capture --task hello-wide-001 --workspace workspace --into answers"
)
@click.option("--task", required=True, metavar="ID", help="The task whose image the workspace came from.")
@click.option(
    "--workspace",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    required=True,
    help="The workspace as an agent left it: the folder that holds the targets, such as a container's /workspace.",
)
@click.option("--into", type=_FOLDER, required=True, help="Write TARGET.patch into this folder, one for each target.")
@click.option(
    "--leave-out",
    multiple=True,
    metavar="GLOB",
    help="New files that are no part of a patch, as **/target/**; repeats.",
)
@key_option
@trust_options
@click.pass_obj
def capture_command(
    options: Options, /, task: str, workspace: Path, into: Path, leave_out: tuple[str, ...], **given: object
) -> None:
    """Write what a workspace became of the verified image's, as one patch per target; `evaluate --patch` takes them.

    Files are compared with those in the image, whatever happened to `.git`: what was committed, ignored, vendored or
    deleted counts. Nothing of the workspace is run, and no link in it is followed.
    """
    from packager import api

    request = api.CaptureRequest(workspace, into, leave_out, trust_of(given))
    with progress_on_screen(options) as progress:
        captured = api.capture(options.place(), task, request, progress=progress)
    show(options, captured, describe_captured(captured))


def describe_captured(captured: Captured) -> str:
    """Return captured patches as text for people."""
    rows = [(one.target, str(one.size), str(one.file)) for one in captured.patches]
    return f"{captured.task}: against {captured.manifest}\n" + table(("TARGET", "BYTES", "PATCH"), rows)
