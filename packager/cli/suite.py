"""What keeps suites: create, update, revoke, rotate, sign, verify, show, push, pull."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from packager.cli.place import Options, chosen_tasks, task_options
from packager.cli.screen import progress_on_screen, show, table
from packager.cli.trust import trust_of, trust_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.api import SuiteRequest, SuiteState

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_NAME = click.argument("name", metavar="NAME")
_DAYS = click.option("--expires-days", default=180, show_default=True, type=click.IntRange(1, 3660), help="Life of it.")
_KEYS = click.option(
    "--signing-key",
    "signing_keys",
    multiple=True,
    type=_FILE,
    help="One more key to sign with, beside suite-root.key and release.key of the keys folder; repeats.",
)


@click.group("suite", epilog="Example: wideswe-pack suite verify wideswe")
def suite_command() -> None:
    """Keep the list of a suite's images: versioned, expiring, signed by a threshold of keys."""


def _role_options(command: Callable[..., object]) -> Callable[..., object]:
    found = command
    for role, what in (("attest", "say things about images"), ("release", "sign images"), ("root", "change all this")):
        keys = click.option(
            f"--{role}-public", multiple=True, type=_FILE, help=f"Public key of one who may {what}; repeats."
        )
        threshold = click.option(f"--{role}-threshold", type=click.IntRange(1, 64), help="How many of them must sign.")
        found = keys(threshold(found))
    days = click.option("--root-expires-days", default=730, show_default=True, type=int, help="Life of the root.")
    return days(found)


def _request(given: dict[str, Any], tasks: tuple[str, ...] = ()) -> SuiteRequest:
    from packager import api

    roles = {
        role: api.RoleChoice(tuple(given[f"{role}_public"]), given[f"{role}_threshold"])
        for role in ("root", "release", "attest")
        if f"{role}_public" in given
    }
    days = {name: given[name] for name in ("expires_days", "root_expires_days") if name in given}
    return api.SuiteRequest(given.get("home"), tasks, roles, signing_keys=tuple(given["signing_keys"]), **days)


def _show(options: Options, state: SuiteState) -> None:
    lines = (
        f"{state.suite} version {state.version}: {state.images} images, {state.revoked} revoked, until {state.expires}",
        f"  digest      {state.digest}",
        f"  first root  {state.root}",
        f"  reference   {state.reference}",
        f"  signed      {'yes' if state.signed else 'NOT ENOUGH'}",
        *(f"              {line}" for line in state.signatures),
    )
    show(options, state, "\n".join(lines))


def _listed(options: Options, tasks: tuple[str, ...], *, every: bool) -> tuple[str, ...]:
    return chosen_tasks(options, tasks, every=every) if tasks or every else ()


@suite_command.command("create")
@_NAME
@task_options
@click.option("--home", required=True, metavar="REGISTRY/NAMESPACE", help="The canonical home that signatures name.")
@_role_options
@_DAYS
@_KEYS
@click.pass_obj
def suite_create_command(options: Options, /, name: str, tasks: tuple[str, ...], *, every: bool, **given: Any) -> None:  # noqa: ANN401
    """Make the first root and the first index of a suite.

    Example: wideswe-pack suite create wideswe --home registry.example.org/wideswe --task hello-wide-001
    """
    from packager import api

    request = _request(given, _listed(options, tasks, every=every))
    _show(options, api.create_suite(options.place(), name, request))


@suite_command.command("update")
@_NAME
@task_options
@click.option("--home", default=None, metavar="REGISTRY/NAMESPACE", help="Another home.")
@_DAYS
@_KEYS
@click.pass_obj
def suite_update_command(options: Options, /, name: str, tasks: tuple[str, ...], *, every: bool, **given: Any) -> None:  # noqa: ANN401
    """Make the next version of the index: these tasks as they are in the store; also only to live longer.

    Example: wideswe-pack suite update wideswe --task hello-wide-001
    """
    from packager import api

    request = _request(given, _listed(options, tasks, every=every))
    _show(options, api.update_suite(options.place(), name, request))


@suite_command.command("revoke")
@_NAME
@click.argument("what", metavar="TASK|DIGEST")
@click.option("--reason", required=True, help="Why; everybody can read it.")
@_DAYS
@_KEYS
@click.pass_obj
def suite_revoke_command(options: Options, /, name: str, what: str, reason: str, **given: Any) -> None:  # noqa: ANN401
    """Make the next version of the index without an image, which nobody then accepts any more.

    Example: wideswe-pack suite revoke wideswe hello-wide-001 --reason "a test was flaky"
    """
    from packager import api

    _show(options, api.revoke_image(options.place(), name, what, reason, _request(given)))


@suite_command.command("rotate")
@_NAME
@_role_options
@_DAYS
@_KEYS
@click.pass_obj
def suite_rotate_command(options: Options, /, name: str, **given: Any) -> None:  # noqa: ANN401
    """Make the next root: other keys, other thresholds, a longer life. Old and new root keys must sign it.

    Example: wideswe-pack suite rotate wideswe --release-public new.pub --signing-key new.key
    """
    from packager import api

    _show(options, api.rotate_root(options.place(), name, _request(given)))


@suite_command.command("sign")
@_NAME
@_KEYS
@click.pass_obj
def suite_sign_command(options: Options, /, name: str, **given: Any) -> None:  # noqa: ANN401
    """Add the signatures of more keys to the newest root and index.

    Example: wideswe-pack suite sign wideswe --signing-key second.key
    """
    from packager import api

    _show(options, api.sign_suite(options.place(), name, _request(given)))


@suite_command.command("show")
@_NAME
@click.pass_obj
def suite_show_command(options: Options, name: str) -> None:
    """Show what the store has of a suite, believed or not."""
    from packager import api

    _show(options, api.show_suite(options.place(), name))


@suite_command.command("verify")
@click.argument("name", metavar="[NAME]", required=False)
@trust_options
@click.pass_obj
def suite_verify_command(options: Options, /, name: str | None, **given: object) -> int:
    """Check a suite by the trust policy: a numbered list that ends in yes or the first no; what is good is remembered.

    Example: wideswe-pack suite verify wideswe --policy trust.yaml
    """
    from packager import api

    checks = api.verify_suite(options.place(), name, trust_of(given))
    rows = [(str(check.number), check.name, "ok" if check.ok else "NO", check.reason) for check in checks]
    show(options, checks, table(("#", "CHECK", "", "REASON"), rows))
    return 0 if checks and all(check.ok for check in checks) else 1


@suite_command.command("push")
@_NAME
@click.option("--to", "namespace", required=True, metavar="REGISTRY/NAMESPACE", help="Where to push.")
@click.pass_obj
def suite_push_command(options: Options, name: str, *, namespace: str) -> None:
    """Push a suite under its version and under `latest`.

    Example: wideswe-pack suite push wideswe --to localhost:5000/wideswe
    """
    from packager import api

    with progress_on_screen(options) as progress:
        reference = api.push_suite(options.place(), name, namespace=namespace, progress=progress)
    show(options, {"reference": reference}, reference)


@suite_command.command("pull")
@click.argument("reference")
@trust_options
@click.pass_obj
def suite_pull_command(options: Options, /, reference: str, **given: object) -> None:
    """Pull a suite; with a trust policy, one that is older or not to be believed is refused.

    Example: wideswe-pack suite pull localhost:5000/wideswe/wideswe-suite:latest
    """
    from packager import api

    with progress_on_screen(options) as progress:
        _show(options, api.pull_suite(options.place(), reference, trust_of(given), progress=progress))
