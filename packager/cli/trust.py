"""What carries trust: attest, grant, open, trust export, and the parts of the root secret."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packager.cli.place import Options, chosen_tasks, task_options
from packager.cli.screen import progress_on_screen, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.api import Trust

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


key_option = click.option(
    "--key",
    "public_keys",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Trusted public key (default: release.pub in the keys folder); repeats.",
)


def trust_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add --policy, --suite and --allow-expired to a command."""
    policy = click.option(
        "--policy",
        type=_FILE,
        default=None,
        help="Trust policy (default: trust.yaml in the keys folder, if there is one).",
    )
    suite = click.option("--suite", default=None, metavar="NAME", help="The suite, if the policy speaks of several.")
    expired = click.option(
        "--allow-expired", is_flag=True, help="Accept a suite that has expired; results say that it was."
    )
    return policy(suite(expired(command)))


def trust_of(given: dict[str, Any]) -> Trust:
    """Return what the options of `trust_options`, and perhaps --key and --identity, say."""
    from packager import api

    said = {name: given.get(name) for name in ("policy", "suite", "identity")}
    return api.Trust(tuple(given.get("public_keys") or ()), allow_expired=bool(given["allow_expired"]), **said)


@click.command("attest", epilog="Example: wideswe-pack attest --task hello-wide-001")
@click.argument("file", type=_FILE, required=False)
@task_options
@click.option(
    "--predicate-type", default=None, metavar="URI", help="What FILE must be, or becomes if it is a predicate."
)
@click.option("--signing-key", type=_FILE, default=None, help="Who says it (default: attest.key in the keys folder).")
@click.pass_obj
def attest_command(
    options: Options,
    file: Path | None,
    tasks: tuple[str, ...],
    *,
    every: bool,
    predicate_type: str | None,
    signing_key: Path | None,
) -> None:
    """Say where an image comes from, what is in it, and that it was validated; signed, in both of cosign's forms.

    SLSA provenance, an SPDX bill of materials, and a test-result without the name of any test. With FILE, that
    statement is signed instead: any in-toto statement about the image, such as another builder's rebuild.
    """
    from packager import api

    place = options.place()
    for task in chosen_tasks(options, tasks, every=every):
        made = (
            api.attest(place, task, signing_key=signing_key)
            if file is None
            else api.attest_file(place, task, file, predicate_type=predicate_type, signing_key=signing_key)
        )
        show(options, made, "\n".join((f"{task}: {made.manifest}", *(f"  {kind}" for kind in made.predicates))))


@click.command("grant", epilog="Example: wideswe-pack grant --task hello-wide-001 --to age1…")
@task_options
@click.option("--suite", default=None, metavar="NAME", help="Every task that the suite lists.")
@click.option("--to", "recipients", multiple=True, required=True, metavar="AGE1…", help="The evaluator; repeats.")
@click.option("--publish", default=None, metavar="REGISTRY/NAMESPACE", help="Push the images with their grants there.")
@click.option("--version", "version", default="v1", show_default=True, help="The tag to publish under.")
@click.pass_obj
def grant_command(
    options: Options,
    tasks: tuple[str, ...],
    *,
    every: bool,
    suite: str | None,
    recipients: tuple[str, ...],
    publish: str | None,
    version: str,
) -> None:
    """Hand the key of tasks to evaluators: nobody else can open their seals. No image changes, no digest either.

    Grants are age files; stock age opens them. What was fetched with a grant cannot be taken back.
    """
    from packager import api

    place = options.place()
    chosen = api.suite_tasks(place, suite) if suite else chosen_tasks(options, tasks, every=every)
    with progress_on_screen(options) as progress:
        for task in chosen:
            made = api.grant(place, task, recipients)
            if publish is not None:
                api.push(place, task, namespace=publish, version=version, progress=progress)
            show(options, made, f"{task}: {made.grants} grants in {made.artifacts} artifacts of {made.manifest}")


@click.command("open", epilog="Example: wideswe-pack open hello-wide-001 --into answer/")
@click.argument("task")
@click.option(
    "--into", type=click.Path(path_type=Path), required=True, help="A new folder, readable by its owner alone."
)
@click.option("--evaluator", type=_FILE, default=None, help="The evaluator's key (default: see README, Grants).")
@click.option("--key", "public_keys", multiple=True, type=click.Path(exists=True), help="Trusted public key; repeats.")
@trust_options
@click.pass_obj
def open_command(options: Options, /, task: str, into: Path, evaluator: Path | None, **given: object) -> None:
    """Verify an image and lay open what is sealed in it: gold patches, hidden tests, expected tests."""
    from packager import api

    with progress_on_screen(options) as progress:
        found = api.open_task(
            options.place(), task, into, trust=trust_of(given), evaluator=evaluator, progress=progress
        )
    show(options, found, "\n".join((f"{task}: {len(found.files)} files in {found.folder}", *found.files)))


@click.group("trust", epilog="Example: wideswe-pack trust export --format cosign.pub")
def trust_command() -> None:
    """Let other tools believe what this one believes."""


@trust_command.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["policy.json", "cosign.pub", "registries.d", "trust.yaml"]),
    required=True,
    help="For skopeo, podman and CRI-O; for cosign; beside policy.json; for labs with this tool.",
)
@click.option("--home", default=None, metavar="REGISTRY/NAMESPACE", help="The home that signatures name.")
@click.option("--mirror", "mirrors", multiple=True, metavar="REGISTRY/NAMESPACE", help="Where it is mirrored; repeats.")
@click.option("--fingerprint", default=None, metavar="HEX", help="Which key, if there are several (for cosign.pub).")
@click.option("--key", "public_keys", multiple=True, type=click.Path(exists=True), help="The public key; repeats.")
@click.option("--into", type=click.Path(path_type=Path, dir_okay=False), default=None, help="Write it to this file.")
@trust_options
@click.pass_obj
def trust_export_command(  # noqa: PLR0917 - click passes them by name
    options: Options,
    /,
    form: str,
    home: str | None,
    mirrors: tuple[str, ...],
    fingerprint: str | None,
    into: Path | None,
    **given: object,
) -> None:
    """Write what another tool needs to judge our images.

    Example: wideswe-pack trust export --format policy.json --home registry.example.org/wideswe
    """
    from packager import api
    from packager.base.files import write_atomic

    request = api.ExportRequest(form, home, mirrors, fingerprint)
    text = api.export_trust(options.place(), request, trust_of(given))
    if into is not None:
        write_atomic(into, text.encode())
        show(options, {"format": form, "path": into}, str(into))
    else:
        show(options, {"format": form, "text": text}, text.rstrip("\n"))


@click.group("secret", epilog="Example: wideswe-pack secret split --parts 3 --into safes/")
def secret_command() -> None:
    """Keep the root secret, which opens every seal: in parts, put together again, or replaced by a new one."""


@secret_command.command("split")
@click.option("--parts", type=click.IntRange(2, 32), required=True, help="How many; all of them are needed to join.")
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), required=True, help="A folder for the parts.")
@click.pass_obj
def secret_split_command(options: Options, *, parts: int, into: Path) -> None:
    """Write the root secret in parts, of which no one says anything about it."""
    from packager import api

    made = api.split_secret(options.place(), parts, into)
    show(options, made, "\n".join((f"secret {made.fingerprint}", *made.files)))


@secret_command.command("join")
@click.argument("parts", nargs=-1, required=True, type=_FILE)
@click.pass_obj
def secret_join_command(options: Options, parts: tuple[Path, ...]) -> None:
    """Put the root secret of all its parts into the keys folder."""
    from packager import api

    made = api.join_secret(options.place(), parts)
    show(options, made, "\n".join((f"secret {made.fingerprint}", *made.files)))


@secret_command.command("rotate")
@click.pass_obj
def secret_rotate_command(options: Options) -> None:
    """Make a new root secret and set the old one aside: builds then give new seals, for a new version of the suite."""
    from packager import api

    made = api.rotate_secret(options.place())
    show(options, made, "\n".join((f"secret {made.fingerprint}", *made.files)))
