"""What those call who run agents: capture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from packager.cli.place import Options
from packager.cli.screen import progress_on_screen, show, table
from packager.cli.trust import trust_of, trust_options

if TYPE_CHECKING:
    from packager.api import Captured

_FOLDER = click.Path(path_type=Path, file_okay=False)


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
@click.option(
    "--key",
    "public_keys",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Trusted public key (default: release.pub in the keys folder); repeats.",
)
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
