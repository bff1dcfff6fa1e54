"""What takes over released benchmarks: import."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from packager.base.errors import UsageError
from packager.cli.screen import show, table

if TYPE_CHECKING:
    from packager.cli.place import Options
    from packager.recipe.released.values import Imported


@click.group("import", epilog="Example: wideswe-pack import wideswe ../WideSWE --all --into my-suite/recipes")
def import_command() -> None:
    """Turn the cases of a released benchmark into recipes: import wideswe."""


@import_command.command(
    "wideswe", epilog="Example: wideswe-pack import wideswe ../WideSWE --all --into my-suite/recipes"
)
@click.argument("checkout", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--case", "cases", multiple=True, metavar="NAME", help="A case by its id or its folder; repeats.")
@click.option("--all", "every", is_flag=True, help="Every case of the checkout.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder for recipes, one of your own: the release carries no licence, so do not publish it.",
)
@click.pass_obj
def import_wideswe_command(options: Options, checkout: Path, cases: tuple[str, ...], *, every: bool, into: Path) -> int:
    """Turn case folders of your checkout of WideSWE into recipes.

    A case that rules can turn wholly becomes INTO/TASK.yaml. Of another one INTO/TASK/draft.yaml is written, with a
    list of what a person must write; moved to INTO/TASK.yaml it is the recipe. No script of the checkout is run.
    Exit 0: all cases are complete; 1: some are not.
    """
    from packager import api

    if every == bool(cases):
        raise UsageError("give the cases in one way", hint="--case NAME (repeats) or --all")
    imported = api.import_released(options.place(), checkout, into, cases=cases)
    show(options, imported, describe_import(imported))
    return 0 if imported.complete else 1


def describe_import(imported: Imported) -> str:
    """Return a report of an import as text for people: a table, then what is to do and what was met, case by case."""
    rows = []
    for case in imported.cases:
        counts = (sum(row.fail_to_pass for row in case.targets), sum(row.pass_to_pass for row in case.targets))
        tested = sum(bool(row.command) for row in case.targets)
        rows.append(
            (
                case.task,
                case.state,
                f"{tested}/{len(case.targets)}",
                str(case.contexts),
                "/".join(map(str, counts)),
                str(len(case.todo)),
                " ".join(case.registries) or "-",
            )
        )
    head = ("TASK", "STATE", "TESTED", "CONTEXTS", "FAIL/PASS_TO_PASS", "TODO", "REGISTRIES")
    said = [
        f"{case.task}: {kind}: {words}"
        for case in imported.cases
        for kind, found in (("todo", case.todo), ("note", case.notes))
        for words in found
    ]
    states = [case.state for case in imported.cases]
    total = ", ".join(f"{states.count(state)} {state}" for state in ("complete", "incomplete", "refused"))
    return "\n".join((table(head, rows), "", *said, f"{len(states)} cases: {total}"))
