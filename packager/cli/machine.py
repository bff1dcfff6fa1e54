"""What looks after the machine: doctor, ecosystems, completion."""

from __future__ import annotations

import click

from packager.cli.place import Options
from packager.cli.screen import show, table


@click.command("doctor", epilog="Example: wideswe-pack doctor")
@click.pass_obj
def doctor_command(options: Options) -> int:
    """Say what this machine can do, and how to get what is missing."""
    from packager import api

    found = api.doctor(options.place())
    rows = [(row.name, "ok" if row.ok else "missing", row.detail, "" if row.ok else row.hint) for row in found]
    show(options, found, table(("WHAT", "", "DETAIL", "HOW TO GET IT"), rows))
    return 0 if api.can_build(found) else 1


@click.command("ecosystems", epilog="Example: wideswe-pack ecosystems")
@click.pass_obj
def ecosystems_command(options: Options) -> None:
    """Print which package clients can be recorded and replayed, and what tests show of each.

    Records: what the client fetches is pinned, twice the same. Replays offline: the pinned files alone give the same
    layer. Cross-checked: hashes of the project's own lock file are held against what was fetched. SBOM names: the lock
    has package URLs.
    """
    from packager import api
    from packager.lock.ecosystems.table import HEAD

    found = api.ecosystems()
    show(options, found, table(HEAD, [line.cells() for line in found]))


@click.command("completion", epilog='Example: eval "$(wideswe-pack completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is not None:
        click.echo(kind(ctx.find_root().command, {}, "wideswe-pack", "_WIDESWE_PACK_COMPLETE").source())
