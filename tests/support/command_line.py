"""Runs wideswe-pack as a person does: a process of its own, with nothing of this person's settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packager.base.processes import Surroundings, run
from packager.cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.processes import Finished

ROOT = Path(__file__).parents[2]


def environment(home: Path) -> dict[str, str]:
    """Return the variables of a person whose home is `home`, and who has this repository."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "WIDESWE_ROOT": str(ROOT),
        "COLUMNS": "100",
    }


def call(home: Path, *words: str, **variables: str) -> Finished:
    """Run one command; relative paths are those below `home`."""
    around = Surroundings(env={**environment(home), **variables}, cwd=home, timeout_s=120)
    return run([sys.executable, "-m", "packager", *words], around)


def verbs() -> dict[str, click.Command]:
    """Return every verb and its command."""
    context = click.Context(cli)
    found = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def subverbs() -> dict[str, click.Command]:
    """Return every verb below a group, by both words."""
    groups = {name: command for name, command in verbs().items() if isinstance(command, click.Group)}
    return {f"{name} {word}": found for name, group in groups.items() for word, found in group.commands.items()}


def complaint_about(words: Sequence[str]) -> str:
    """Return what click says against the words after `wideswe-pack`, or nothing; no file is looked for."""
    context = click.Context(cli, info_name="wideswe-pack")
    try:
        _, rest, _ = cli.make_parser(context).parse_args(list(words))
        name, command, rest = cli.resolve_command(context, rest)
        if command is None:
            return f"no verb {name}"
        inner = click.Context(command, info_name=name, parent=context)
        given, rest, _ = command.make_parser(inner).parse_args(rest)
        if isinstance(command, click.Group):
            name, command, rest = command.resolve_command(inner, rest)
            assert command is not None
            given, rest, _ = command.make_parser(click.Context(command, info_name=name, parent=inner)).parse_args(rest)
    except click.UsageError as error:
        return error.format_message()
    missing = [found.name for found in command.params if found.required and not given.get(str(found.name))]
    return f"{name} needs {', '.join(map(str, missing))}" if missing else ""
