"""What those call who build again and compare: reproduce, diff, explain."""

from __future__ import annotations

from pathlib import Path

import click

from packager.cli.place import Options, chosen_tasks, task_options
from packager.cli.screen import progress_on_screen, show, table


@click.command("reproduce", epilog="Example: wideswe-pack reproduce --task hello-wide-001")
@task_options
@click.option("--platform", default="linux/amd64", show_default=True, help="The platform of the image.")
@click.option("--vary", multiple=True, metavar="NAME", help="Vary this alone (a name that the table has); repeats.")
@click.option("--other-engine", "engine", default=None, metavar="NAME", help="The engine that builds the second time.")
@click.option(
    "--statement",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Write what was rebuilt and what came of it to this file, as an in-toto statement; for one task.",
)
@click.pass_obj
def reproduce_command(
    options: Options,
    tasks: tuple[str, ...],
    *,
    every: bool,
    platform: str,
    vary: tuple[str, ...],
    engine: str | None,
    statement: Path | None,
) -> int:
    """Build a task again from nothing under other conditions; exit 1 and say why if anything differs.

    On a difference each step that differs runs again under every condition alone, to find out which ones matter.
    """
    from packager import api
    from packager.base.errors import UsageError

    chosen = chosen_tasks(options, tasks, every=every)
    if statement is not None and len(chosen) != 1:
        raise UsageError("--statement takes one task", hint="--task ID")
    same = True
    wish = api.Wish(vary=vary, engine=engine, statement=statement)
    with progress_on_screen(options) as progress:
        for task in chosen:
            found = api.reproduce(options.place(), task, platform=platform, wish=wish, progress=progress)
            same = same and found.same
            rows = [(row.name, "yes" if row.varied else "no", row.value) for row in found.varied]
            lines = [
                f"{task}: {'same' if found.same else 'DIFFERENT'}",
                f"  content id  {found.content_id}",
                f"  rebuilt     {found.rebuilt or 'not built'}",
                table(("CONDITION", "VARIED", "VALUE"), rows),
                *map(str, found.found),
                *([f"and {found.more} more differences in these steps"] if found.more else []),
                *(f"step {label}: differs only because what lies below it does" for label in found.follow),
            ]
            show(options, found, "\n".join(lines))
    return 0 if same else 1


@click.command("diff", epilog="Example: wideswe-pack diff hello-wide-001 other.oci.tar")
@click.argument("a")
@click.argument("b")
@click.option("--all", "every", is_flag=True, help="List every difference, not only the first twenty of each layer.")
@click.pass_obj
def diff_command(options: Options, a: str, b: str, *, every: bool) -> int:
    """Compare two images or two locks, per layer and entry; exit 1 if they differ.

    An image is a task of the store, an OCI layout (a folder), or an archive of one; a lock is a file of lockfiles/.
    """
    import sys

    from packager import api

    found = api.diff(options.place(), a, b, shown=sys.maxsize if every else 20)
    lines = [f"{a} and {b}: {'same' if found.same else 'DIFFERENT'}", *map(str, found.changes), *map(str, found.found)]
    if found.more:
        lines.append(f"and {found.more} more; --all lists them")
    show(options, found, "\n".join(lines))
    return 0 if found.same else 1


@click.command("explain", epilog="Example: wideswe-pack explain --task hello-wide-001")
@task_options
@click.option("--platform", default="linux/amd64", show_default=True, help="The platform of the image.")
@click.pass_obj
def explain_command(options: Options, tasks: tuple[str, ...], *, every: bool, platform: str) -> int:
    """Say which steps a build would carry out now, and what changed since they last ran; exit 1 if there are any."""
    from packager import api

    idle = True
    for task in chosen_tasks(options, tasks, every=every):
        found = api.explain(options.place(), task, platform=platform)
        idle = idle and found.idle
        lines = [f"{task}: {'nothing to do' if found.idle else 'some steps would run'}"]
        for row in found.steps:
            lines.append(f"  {row.state:<9}  {row.step}{f' ({row.reason})' if row.reason else ''}")
            lines.extend(f"             {change}" for change in row.changes)
        show(options, found, "\n".join(lines))
    return 0 if idle else 1
