"""What benchmark authors call: list, lock, fetch, render, build, validate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from packager.cli.place import Options, chosen_tasks, task_options
from packager.cli.screen import progress_on_screen, show, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.evaluate.validate import Validation

_PLATFORM = click.option("--platform", default="linux/amd64", show_default=True, help="The platform of the image.")


@click.command("list", epilog="Example: wideswe-pack --json list")
@click.pass_obj
def list_command(options: Options) -> None:
    """List the recipes of the suite and how far each has come."""
    from packager import api

    rows = api.list_tasks(options.place())
    cells = [(row.task, row.kind, row.relation, " ".join(row.targets), str(row.contexts), row.state) for row in rows]
    show(options, rows, table(("TASK", "KIND", "RELATION", "TARGETS", "CONTEXTS", "STATE"), cells))


@click.command("lock", epilog="Example: wideswe-pack lock --task hello-wide-001 --check")
@task_options
@_PLATFORM
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if the lock no longer fits the recipe.")
@click.option(
    "--update",
    metavar="NAME",
    default=None,
    help="Move one thing and show the difference: base, a toolchain, a repository or a step.",
)
@click.pass_obj
def lock_command(
    options: Options, tasks: tuple[str, ...], *, every: bool, platform: str, check: bool, update: str | None
) -> int:
    """Pin every input of a recipe; record what its commands fetch, twice, and prove it offline."""
    from packager import api

    drifted = False
    with progress_on_screen(options) as progress:
        for task in chosen_tasks(options, tasks, every=every):
            place = options.place()
            report = (
                api.check_lock(place, task, platform=platform)
                if check
                else api.lock(place, task, platform=platform, update=update, progress=progress)
            )
            drifted = drifted or bool(check and report.changes)
            state = "written" if report.written else "differs" if report.changes else "fits"
            show(options, report, "\n".join((f"{task}: {state} {report.path}", *report.changes)))
    return 1 if drifted else 0


@click.command("fetch", epilog="Example: wideswe-pack fetch --task hello-wide-001 --into inputs/")
@task_options
@_PLATFORM
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Also lay the locked inputs out in this folder, for --inputs on a machine without network.",
)
@click.pass_obj
def fetch_command(options: Options, tasks: tuple[str, ...], *, every: bool, platform: str, into: Path | None) -> None:
    """Get every locked input, verified, so that the build needs no network."""
    from packager import api

    with progress_on_screen(options) as progress:
        for task in chosen_tasks(options, tasks, every=every):
            fetched = api.fetch(options.place(), task, platform=platform, into=into, progress=progress)
            show(options, fetched, f"{task}: {fetched.blobs} inputs, {fetched.size_bytes} bytes")


@click.command("render", epilog="Example: wideswe-pack render --task hello-wide-001 --into context/")
@task_options
@_PLATFORM
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder that becomes the build context; a folder per task when there are several.",
)
@click.option(
    "--with-fetches",
    "fetches",
    is_flag=True,
    help="Also run the steps that install dependencies, and write what they fetch, with a server: Dockerfile.replay.",
)
@click.pass_obj
def render_command(
    options: Options, tasks: tuple[str, ...], *, every: bool, platform: str, into: Path, fetches: bool
) -> None:
    """Write the Dockerfile and its context, as any engine can build them."""
    from packager import api

    chosen = chosen_tasks(options, tasks, every=every)
    with progress_on_screen(options) as progress:
        for task in chosen:
            folder = into / task if len(chosen) > 1 else into
            place = options.place()
            rendered = api.render(place, task, platform=platform, into=folder, progress=progress)
            show(options, rendered, f"{task}: {rendered.folder}/Dockerfile and {len(rendered.files)} inputs")
            if fetches:
                more = api.render_fetches(place, task, platform=platform, into=folder, progress=progress)
                show(options, more, f"{task}: {' '.join(more.files) or 'no step fetches anything'}")


@click.command("build", epilog="Example: wideswe-pack build --task sentry-trace-001")
@task_options
@_PLATFORM
@click.pass_obj
def build_command(options: Options, tasks: tuple[str, ...], *, every: bool, platform: str) -> None:
    """Build the sealed image of a locked task, without network."""
    from packager import api

    with progress_on_screen(options) as progress:
        for task in chosen_tasks(options, tasks, every=every):
            built = api.build(options.place(), task, platform=platform, progress=progress)
            lines = (
                f"{task}",
                f"  manifest     {built.manifest}",
                f"  content id   {built.content_id}",
                f"  environment  {built.environment_id}",
                f"  validated    {'yes' if built.validated else 'no: run wideswe-pack validate, then build again'}",
            )
            show(options, built, "\n".join(lines))


@click.command("validate", epilog="Example: wideswe-pack validate --task hello-wide-001 --runs 3")
@task_options
@_PLATFORM
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 20), help="How often base and gold run.")
@click.option("--vary/--no-vary", default=True, help="Run once more in another order, zone, user and number of CPUs.")
@click.option(
    "--stub",
    "stubs",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=None,
    help="TARGET.patch files that only declare what is new; say which tests they turn green.",
)
@click.pass_obj
def validate_command(
    options: Options,
    tasks: tuple[str, ...],
    *,
    every: bool,
    platform: str,
    runs: int,
    vary: bool,
    stubs: Path | None,
) -> int:
    """Run base and gold several times; write which tests must turn from failing to passing, and which must stay."""
    from packager import api

    good = True
    request = api.ValidationRequest(runs, vary, stubs)
    with progress_on_screen(options) as progress:
        for task in chosen_tasks(options, tasks, every=every):
            found = api.validate(options.place(), task, request, platform=platform, progress=progress)
            good = good and found.valid
            show(options, found, "\n".join(_validation_lines(found)))
    return 0 if good else 1


def _validation_lines(found: Validation) -> Iterator[str]:
    rows = [
        (row.target, str(row.fail_to_pass), str(row.pass_to_pass), str(row.unstable), row.problem)
        for row in found.targets
    ]
    yield f"{found.task}: {'valid' if found.valid else 'not valid'} after {found.runs} runs of base and gold"
    yield table(("TARGET", "FAIL_TO_PASS", "PASS_TO_PASS", "UNSTABLE", "PROBLEM"), rows).rstrip("\n")
    if found.varied:
        yield f"  varied       {', '.join(found.varied)}"
    for name, reason in found.not_varied.items():
        yield f"  not varied   {name}: {reason}"
    for target, evidence in found.evidence.items():
        for name, one in evidence.unstable.items():
            yield f"  set aside    {target}: {name}: {', '.join(one.by)}"
        for name, reason in evidence.not_borne.items():
            yield f"  not borne    {target}: {name}: {reason}"
        if evidence.uncollected:
            why = f"since base has {evidence.base_failure[0]}"
            yield f"  uncollected  {target}: {len(evidence.uncollected)} of FAIL_TO_PASS, {why}"
    for target, names in found.stub_passes.items():
        yield f"  stub passes  {target}: {len(names)} of {len(found.expected[target].fail_to_pass)} of FAIL_TO_PASS"
    yield from _released_lines(found)


def _released_lines(found: Validation) -> Iterator[str]:
    for target, compared in found.released.items():
        yield f"  released     {target}: {compared.summary()}"
        for name, one in (("FAIL_TO_PASS", compared.fail_to_pass), ("PASS_TO_PASS", compared.pass_to_pass)):
            for test, where in one.gone.items():
                yield f"  not in {name}  {target}: {test}: {where}"
            for test in one.new:
                yield f"  new in {name}  {target}: {test}"
