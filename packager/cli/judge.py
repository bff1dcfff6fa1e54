"""What labs and auditors call: evaluate, inspect, audit, and the demonstration of the whole walk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from packager.cli.place import Options, task_options
from packager.cli.runs import run_many, run_options, take_run_options
from packager.cli.screen import progress_on_screen, show, table
from packager.cli.trust import key_option, trust_options

if TYPE_CHECKING:
    from packager.api.sharing import SuiteSharing
    from packager.evaluate.verdict import Verdict

_NAMES = click.argument("names", nargs=-1, metavar="[TASK]...")
_TASKS = click.option("--task", "tasks", multiple=True, metavar="ID", help="The task; repeats.")


@click.command("evaluate", epilog="Example: wideswe-pack evaluate --task hello-wide-001 --patch answers/")
@_NAMES
@_TASKS
@click.option(
    "--patch",
    "patches",
    type=click.Path(path_type=Path, exists=True),
    default=None,
    help="A folder with TARGET.patch files, or JSONL predictions.",
)
@click.option(
    "--target-patch", "target_patches", multiple=True, metavar="TARGET=FILE", help="The patch of one target; repeats."
)
@click.option("--only", metavar="TARGET", default=None, help="Judge this target alone, the others at gold.")
@click.option(
    "--trajectory",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="What the agent did, as JSON lines; tells failures of scope from those of delivery.",
)
@click.option("--gold", is_flag=True, help="Evaluate the sealed gold patch, to check the image.")
@key_option
@click.option(
    "--evaluator", type=click.Path(path_type=Path, exists=True), default=None, help="The evaluator's key file."
)
@trust_options
@run_options
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Also write the verdict to this file.",
)
@click.pass_obj
def evaluate_command(options: Options, /, names: tuple[str, ...], tasks: tuple[str, ...], **given: object) -> int:
    """Verify the image, open its seal, apply the patches and run the hidden tests offline.

    Exit code 0 when every task is resolved, 1 when one is not, 6 when the machine and not the patch is to blame; with
    --into also 3, 4 or 5 for a task whose patch, image or signature is refused, while the others are judged.
    """
    from packager import api
    from packager.base.errors import UsageError

    chosen, run = take_run_options(options, given, (*names, *tasks))
    if not chosen:
        raise UsageError("no task named", hint="--task ID")
    request = api.EvaluationRequest.from_command_line(given)
    if run["into"] is not None:
        return run_many(options, chosen, request, run)
    if request.output is not None and len(chosen) > 1:
        raise UsageError("--output holds the verdict of one task", hint="evaluate one task, or use --json")
    if request.trajectory is not None and len(chosen) > 1:
        raise UsageError("--trajectory is that of one task", hint="predictions may each name their own")
    worst = 0
    with progress_on_screen(options) as progress:
        for one in chosen:
            verdict = api.evaluate(options.place(), one.task, replace(request, only=one.only), progress=progress)
            show(options, verdict.document(), describe(verdict))
            worst = max(worst, api.exit_code(verdict))
    return worst


def describe(verdict: Verdict) -> str:
    """Return a verdict as text for people."""
    rows = [
        (
            name,
            row.outcome.value,
            f"{row.fail_to_pass.passed}/{row.fail_to_pass.total}",
            f"{row.pass_to_pass.passed}/{row.pass_to_pass.total}",
            row.reason,
        )
        for name, row in verdict.grade.targets.items()
    ]
    head = f"{verdict.task}: {verdict.grade.outcome.value}"
    if verdict.at_gold:
        head += f", with {', '.join(verdict.at_gold)} at gold"
    if verdict.run is not None and verdict.run.failure is not None:
        found = verdict.run.failure
        head += f"\n{found.failure_class} failure in {found.target}: {found.evidence}"
    return f"{head}\n" + table(("TARGET", "OUTCOME", "FAIL_TO_PASS", "PASS_TO_PASS", "REASON"), rows)


@click.command("inspect", epilog="Example: wideswe-pack --json inspect hello-wide-001")
@_NAMES
@task_options
@click.option("--suite", is_flag=True, help="Show instead how much the images here share, task by task and in all.")
@click.option(
    "--content-id",
    "archives",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="ARCHIVE",
    help="Say which task an image is that another engine built and saved (docker save, OCI archive); repeats.",
)
@click.pass_obj
def inspect_command(
    options: Options,
    names: tuple[str, ...],
    tasks: tuple[str, ...],
    *,
    every: bool,
    suite: bool,
    archives: tuple[Path, ...],
) -> None:
    """Show what an image is made of: ids, layers with their sizes, signatures, grants.

    With --content-id, rewrite every layer of a saved image by our rules and show the id of what comes out: for the
    rendered context of a task it is the environment that `build` reports.
    """
    from packager import api

    with progress_on_screen(options) as progress:
        for archive in archives:
            known = api.recognise(archive, progress=progress)
            layers = [(str(number), str(diff_id)) for number, diff_id in enumerate(known.diff_ids)]
            head = f"{known.task}\ncontent id  {known.content_id}\n"
            show(options, known, head + table(("LAYER", "DIFF ID"), layers))

    place = options.place()
    if suite:
        shared = api.inspect_suite(place, (*names, *tasks))
        show(options, shared, describe_sharing(shared))
        return
    for task in (*names, *tasks) or (api.images_in(place) if every else ()):
        found = api.inspect(place, task)
        rows = [(str(number), layer.diff_id, str(layer.size)) for number, layer in enumerate(found.layers)]
        facts = (
            f"manifest    {found.manifest}",
            f"content id  {found.content_id}",
            f"signatures  {found.signatures}",
            f"grants      {found.grants}",
        )
        show(options, found, "\n".join((task, *facts)) + "\n" + table(("LAYER", "DIFF ID", "BYTES"), rows))


def describe_sharing(shared: SuiteSharing) -> str:
    """Return what a suite's images share as text for people."""
    rows = [(row.task, str(row.layers), str(row.size_bytes), str(row.own_bytes)) for row in shared.tasks]
    facts = (
        f"one image per task  {shared.images_bytes} bytes",
        f"stored              {shared.stored_bytes} bytes in {shared.stored_layers} layers",
        f"shared              {shared.shared_bytes} bytes, {shared.shared_percent:.1f} %",
    )
    return "\n".join(facts) + "\n" + table(("TASK", "LAYERS", "BYTES", "OF THESE IN NO OTHER IMAGE"), rows)


@click.command("audit", epilog="Example: wideswe-pack audit --task hello-wide-001")
@task_options
@click.pass_obj
def audit_command(options: Options, tasks: tuple[str, ...], *, every: bool) -> int:
    """Look for anything in an image that gives the answer away; exit 1 if there is something.

    Reads every file of every layer, deleted or not, archives and git packs unpacked. Needs recipe, lock, gold and
    hidden tests: what it reports quotes them, so keep it as secret as they are.
    """
    from packager import api
    from packager.cli.place import chosen_tasks

    clean = True
    with progress_on_screen(options) as progress:
        for task in chosen_tasks(options, tasks, every=every):
            found = api.audit(options.place(), task, progress=progress)
            clean = clean and found.clean
            rows = [(str(one.kind), one.where, one.detail) for one in found.findings]
            text = f"{task}: nothing found in {found.layers} layers of {found.manifest}"
            if rows:
                text = f"{task}: {len(rows)} found\n" + table(("KIND", "WHERE", "DETAIL"), rows)
            show(options, found, text)
    return 0 if clean else 1


@click.command("demo", epilog="Example: wideswe-pack demo")
@click.option("--task", default="hello-wide-001", show_default=True, help="The task to walk through.")
@click.pass_obj
def demo_command(options: Options, task: str) -> int:
    """Walk the whole way with fresh keys: build, sign, verify, evaluate the gold patch and an empty one."""
    from packager import api

    with progress_on_screen(options) as progress:
        shown = api.demo(options.place(), task, progress=progress)
    lines = (
        f"{task}",
        f"  manifest       {shown.manifest}",
        f"  content id     {shown.content_id}",
        f"  verified       {shown.checks} checks passed",
        f"  gold patch     {shown.gold.grade.outcome.value}",
        f"  empty patch    {shown.empty.grade.outcome.value}",
    )
    show(options, shown, "\n".join(lines))
    return 0 if shown.as_expected else 1
