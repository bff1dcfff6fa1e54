"""The shell commands that a recipe implies: installing dependencies, wiring linked targets, preparing for the tests.

A producer's checkout almost never satisfies what its consumer declares, so a link is wired without any resolver.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.build.scrubs import scrub_commands

if TYPE_CHECKING:
    from packager.recipe.model import Link, Recipe, Target

WORKSPACE = "/workspace"

_CARGO_TIDY = (
    'cargo_home="${CARGO_HOME:-$HOME/.cargo}" && if [ -d "$cargo_home" ]; then find "$cargo_home" '
    '\\( -name .global-cache -o -name FETCH_HEAD -o -path "*/.git/index" -o -path "*/.git/modules/*/index" '
    '-o -path "*/.git/logs" -o -path "*/.git/modules/*/logs" \\) -prune -exec rm -rf {} +; fi'
)
"""Takes out of cargo's home what tells when and on which disk it worked; cargo makes again what it needs of it."""


def checkout(name: str) -> str:
    """Return where a target or context stands in the image; the place is fixed, since real test ids contain it."""
    return f"{WORKSPACE}/{name}"


def dependency_command(target: Target) -> str:
    """Return one shell command that runs the dependency commands of a target where its checkout will be, or nothing."""
    if not target.dependencies:
        return ""
    tidy = (_CARGO_TIDY,) if target.toolchain.rust else ()
    command = _chain(target.name, (*target.dependencies, *tidy, *scrub_commands(target.manifests)))
    return f"mkdir -p {checkout(target.name)} && {command}"


def prepare_command(recipe: Recipe, target: Target) -> str:
    """Return one shell command that wires the target's producers, proves it, and prepares it; or an empty string."""
    links = [link for link in recipe.links if link.consumer == target.name]
    wiring = [command for link in links for command in wiring_commands(link)]
    checks = [link.check for link in links if link.check]
    return _chain(target.name, (*wiring, *target.prepare, *checks))


def in_build_order(recipe: Recipe) -> tuple[Target, ...]:
    """Return the targets with every producer before its consumers; a circle of links is an InputError."""
    waiting = {
        link.consumer: {other.producer for other in recipe.links if other.consumer == link.consumer}
        for link in recipe.links
    }
    ordered: list[Target] = []
    rest = list(recipe.targets)
    while rest:
        done = {target.name for target in ordered}
        ready = [target for target in rest if waiting.get(target.name, set()) <= done]
        if not ready:
            names = ", ".join(target.name for target in rest)
            raise InputError(f"links run in a circle: {names}", where=f"{recipe.id}: links")
        ordered.extend(ready)
        rest = [target for target in rest if target not in ready]
    return tuple(ordered)


def wiring_commands(link: Link) -> tuple[str, ...]:
    """Return the commands that make the consumer load the producer's checkout."""
    producer = checkout(link.producer)
    environment = link.environment or f"/opt/env/{link.consumer}"
    if link.how == "pip-editable":
        pip = shlex.quote(f"{environment}/bin/python")
        options = "--quiet --no-deps --no-build-isolation --no-index --disable-pip-version-check"
        return (f"{pip} -m pip install {options} --editable {producer}",)
    if link.how == "go-replace":
        consumer = checkout(link.consumer)
        replaced = f'"$(sed -n "s/^module //p" {producer}/go.mod)={producer}"'
        return (
            f"mkdir -p {environment}",
            f"cp {consumer}/go.mod {consumer}/go.sum {environment}/",
            f"XDG_CONFIG_HOME=/tmp/config go mod edit -replace={replaced} {environment}/go.mod",
        )
    if link.how == "node-modules":
        place = f"{checkout(link.consumer)}/node_modules/{link.producer}"
        return (f"mkdir -p $(dirname {place})", f"ln -sfn {producer} {place}")
    return ()


def _chain(name: str, commands: tuple[str, ...]) -> str:
    for command in commands:
        if "\n" in command.strip():
            hint = "write one command per list item, or put a script beside the recipe"
            raise InputError(f"a command spans lines: {command[:60]!r}", where=name, hint=hint)
    if not commands:
        return ""
    return " && ".join((f"cd {checkout(name)}", *(_grouped(command.strip()) for command in commands)))


def _grouped(command: str) -> str:
    return f"{{ {command}; }}" if any(mark in command for mark in "|;&") else command
