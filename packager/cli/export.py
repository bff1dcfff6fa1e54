"""What hands tasks to other harnesses: export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from packager.cli.place import Options, stored_tasks
from packager.cli.screen import progress_on_screen, show, table
from packager.cli.trust import key_option, trust_of, trust_options

if TYPE_CHECKING:
    from packager.api.export import ExportedTasks, Format


@click.command(
    "export", epilog="Example: wideswe-pack export --format harbor --task hello-wide-001 --into harbor-tasks"
)
@click.option("--format", "kind", required=True, type=click.Choice(["harbor", "swebench", "inspect"]), help="For whom.")
@click.option("--task", "tasks", multiple=True, metavar="ID", help="A task whose image is in the store; repeats.")
@click.option("--all", "every", is_flag=True, help="Every task in the store.")
@click.option("--into", required=True, type=click.Path(path_type=Path), help="A new folder for what is written.")
@click.option(
    "--from",
    "namespace",
    metavar="REGISTRY/NAMESPACE",
    help="Where the harness finds the images (default: the home that they are signed for).",
)
@click.option("--push", is_flag=True, help="swebench: also push the images of the instances there.")
@click.option(
    "--keys-into",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE",
    help="harbor: write the tasks' keys to this file, for `harbor run --env-file`; keep it secret.",
)
@click.option(
    "--evaluator",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="Evaluator's key (default: $WIDESWE_EVALUATOR_KEY, or evaluator.key in the keys folder).",
)
@key_option
@trust_options
@click.pass_obj
def export_command(
    options: Options,
    /,
    kind: Format,
    tasks: tuple[str, ...],
    *,
    every: bool,
    into: Path,
    namespace: str | None,
    push: bool,
    keys_into: Path | None,
    evaluator: Path | None,
    **given: object,
) -> None:
    """Write verified tasks in the format of another harness; images are named by digest.

    harbor and inspect keep the seal: their verifier opens it with the task's key, or asks `wideswe-pack evaluate`.
    swebench has hidden tests and gold patches in the clear, so it needs an evaluator's key: show it to no agent.

    Exit codes: 0 written; 3 no such image, or the folder exists; 5 not verified, or no grant for this key; 6 registry.
    """
    from packager import api

    place = options.place()
    with progress_on_screen(options) as progress:
        chosen = stored_tasks(api.images_in(place), tasks, every=every)
        request = api.HarnessExport(kind, into, namespace, push, keys_into, trust_of(given), evaluator)
        done = api.export_tasks(place, chosen, request, progress=progress)
    show(options, done, describe_exported(done))


def describe_exported(done: ExportedTasks) -> str:
    """Return what was exported as text for people."""
    rows = [(one.instance, one.image) for one in done.instances]
    return f"{done.folder}: {len(done.files)} files for {done.format}\n" + table(("INSTANCE", "IMAGE"), rows)
