"""What makes images trusted: keygen, sign, verify."""

from __future__ import annotations

from pathlib import Path

import click

from packager.cli.place import Options, chosen_tasks, task_options
from packager.cli.screen import progress_on_screen, show, table
from packager.cli.trust import key_option, trust_of, trust_options


@click.command("keygen", epilog="Example: WIDESWE_PASSWORD=… wideswe-pack keygen")
@click.option("--evaluator", "evaluator_only", is_flag=True, help="The evaluator key only, which is all a lab needs.")
@click.option(
    "--import",
    "source",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    help="Take this PKCS #8 file (PEM, not encrypted) instead of making a key; it is kept encrypted.",
)
@click.option(
    "--as",
    "role",
    default="release",
    show_default=True,
    help="What an imported key is for: release, attest, suite-root.",
)
@click.pass_obj
def keygen_command(options: Options, *, evaluator_only: bool, source: Path | None, role: str) -> None:
    """Make the keys of a suite: signing keys (cosign's format), suite root secret, evaluator key (age's format).

    Three signing keys: release for images, attest for what is said about them, suite-root for who may do either. The
    last line is the evaluator's public key: a lab sends it to the authors, who pass it to grant --to.
    """
    from packager import api

    place = options.place()
    made = api.import_key(place, source, role) if source else api.keygen(place, evaluator_only=evaluator_only)
    show(options, made, "\n".join((*(str(path) for path in made.files), *made.recipients)))


@click.command("sign", epilog="Example: wideswe-pack sign --task hello-wide-001 --home registry.example.org/wideswe")
@task_options
@click.option("--home", required=True, metavar="REGISTRY/NAMESPACE", help="The canonical home that signatures name.")
@click.option("--version", "version", default="v1", show_default=True, help="The immutable tag that signatures name.")
@click.option("--grant-to", multiple=True, metavar="AGE1…", help="Recipients of a grant (default: the own evaluator).")
@click.pass_obj
def sign_command(
    options: Options, tasks: tuple[str, ...], *, every: bool, home: str, version: str, grant_to: tuple[str, ...]
) -> None:
    """Sign built images in both of cosign's forms, and grant the evaluators their key.

    Grants add up and never change an image: to add an evaluator, sign again with --grant-to and push again.
    """
    from packager import api

    for task in chosen_tasks(options, tasks, every=every):
        signed = api.sign(options.place(), task, home=home, version=version, grant_to=grant_to)
        show(options, signed, f"{task}: signed {signed.reference} {signed.manifest}")


@click.command("verify", epilog="Example: wideswe-pack verify --task hello-wide-001 --key release.pub")
@click.argument("names", nargs=-1, metavar="[TASK]...")
@click.option("--task", "tasks", multiple=True, metavar="ID", help="The task; repeats.")
@key_option
@click.option("--identity", default=None, metavar="HOME/TASK:TAG", help="The name that the signature must carry.")
@trust_options
@click.pass_obj
def verify_command(options: Options, /, names: tuple[str, ...], tasks: tuple[str, ...], **given: object) -> int:
    """Check an image from its manifest to its last byte: a numbered list that ends in yes or the first no.

    By a key, or by a trust policy: then it must also be in the current version of its suite, and whatever else it asks.
    """
    from packager import api
    from packager.base.errors import UsageError

    chosen = (*names, *tasks)
    if not chosen:
        raise UsageError("no task named", hint="--task ID")
    good = True
    with progress_on_screen(options) as progress:
        for task in chosen:
            checks = api.verify(options.place(), task, trust=trust_of(given), progress=progress)
            good = good and bool(checks) and all(check.ok for check in checks)
            rows = [(str(check.number), check.name, "ok" if check.ok else "NO", check.reason) for check in checks]
            show(options, checks, f"{task}\n" + table(("#", "CHECK", "", "REASON"), rows))
    return 0 if good else 1
