"""What looks after the store: gc, store check."""

from __future__ import annotations

import click

from packager.cli.place import Options
from packager.cli.screen import progress_on_screen, show


@click.command("gc", epilog="Example: wideswe-pack gc --max-size 20G")
@click.option(
    "--max-size",
    metavar="SIZE",
    default=None,
    help="Delete only until the store is no larger, such as 20G: what was not used for longest goes first.",
)
@click.pass_obj
def gc_command(options: Options, max_size: str | None) -> int:
    """Delete from the store what no image and no running work needs.

    Exit code 1 if the store is larger than --max-size all the same, since the images need that much; 6 if another
    command is using the store.
    """
    from packager import api
    from packager.base.errors import InputError, UsageError
    from packager.recipe.units import parse_size

    try:
        max_bytes = None if max_size is None else parse_size(max_size)
    except InputError as error:
        raise UsageError(f"--max-size: {error.reason}", hint=error.hint) from error
    freed = api.collect_garbage(options.place(), max_bytes=max_bytes)
    text = f"{freed.blobs} blobs and {freed.trees} unpacked layers deleted, {freed.size_bytes} bytes"
    if freed.left_bytes is not None:
        text = (
            f"{freed.blobs} blobs, {freed.trees} unpacked layers and {freed.others} repositories and damaged files "
            f"deleted, {freed.size_bytes} bytes; {freed.left_bytes} bytes are left"
        )
    show(options, freed, text)
    return 1 if max_bytes is not None and (freed.left_bytes or 0) > max_bytes else 0


@click.group("store", epilog="Example: wideswe-pack store check")
def store_command() -> None:
    """Look after the store itself."""


@store_command.command("check", epilog="Example: wideswe-pack store check")
@click.pass_obj
def store_check_command(options: Options) -> int:
    """Read all of the store and set aside what is damaged; exit 1 if there is something.

    Hashes every blob and every unpacked layer and looks whether each image has all that it needs. What was set aside
    lies in the store's folder quarantine/; the next build, fetch or pull gets it anew.
    """
    from packager import api

    with progress_on_screen(options) as progress:
        found = api.check_store(options.place(), progress=progress)
    head = f"{found.blobs} blobs, {found.trees} unpacked layers, {found.images} images: "
    lines = [head + (f"{len(found.problems)} problems" if found.problems else "all whole"), *map(str, found.problems)]
    show(options, found, "\n".join(lines))
    return 1 if found.problems else 0
