"""What an evaluator needs to know about a task and nobody else: how each target is prepared, tested and protected.

The profile travels inside the seal, so that an image alone is enough to judge a patch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_readable, parse_json
from packager.base.errors import InputError
from packager.build.commands import in_build_order, prepare_command
from packager.sandbox.engine import Limits

if TYPE_CHECKING:
    from packager.recipe.model import Recipe, Target

SCHEMA = "wideswe-evaluation/1"


@dataclass(frozen=True)
class TargetProfile:
    """How one target is judged: shell commands, where they run, what they write, and the seconds they may take."""

    name: str
    prepare: str
    run: str
    workdir: str
    results: str
    report: str
    timeout_s: float
    env: tuple[tuple[str, str], ...]
    protect: tuple[str, ...]


@dataclass(frozen=True)
class Profile:
    """How a task is judged; targets stand in the order in which they are prepared."""

    task: str
    targets: tuple[TargetProfile, ...]
    limits: Limits


def profile_of(recipe: Recipe) -> Profile:
    """Return the profile that a recipe describes."""
    limits = Limits(recipe.limits.cpus, recipe.limits.memory_bytes, recipe.limits.pids)
    return Profile(recipe.id, tuple(_target(recipe, target) for target in in_build_order(recipe)), limits)


def format_profile(profile: Profile) -> bytes:
    """Return a profile as JSON; times are whole seconds."""
    targets = [
        {**asdict(target), "timeout_s": int(target.timeout_s), "env": dict(target.env), "protect": list(target.protect)}
        for target in profile.targets
    ]
    return format_readable(
        {"schema": SCHEMA, "task": profile.task, "targets": targets, "limits": asdict(profile.limits)}
    )


def parse_profile(data: bytes) -> Profile:
    """Return the profile that `format_profile` wrote, or raise InputError."""
    value = parse_json(data, where="evaluation profile")
    try:
        if value["schema"] != SCHEMA:
            raise InputError(f"expected {SCHEMA}, found {value['schema']!r}", where="evaluation profile")
        targets = tuple(_parse_target(item) for item in value["targets"])
        return Profile(str(value["task"]), targets, Limits(**value["limits"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"not a profile: {error!r}", where="evaluation profile") from error


def _parse_target(item: dict[str, Any]) -> TargetProfile:
    pairs = tuple(sorted((str(name), str(text)) for name, text in item["env"].items()))
    return TargetProfile(
        **{**item, "timeout_s": float(item["timeout_s"]), "env": pairs, "protect": tuple(map(str, item["protect"]))}
    )


def _target(recipe: Recipe, target: Target) -> TargetProfile:
    test = target.test
    return TargetProfile(
        name=target.name,
        prepare=prepare_command(recipe, target),
        run=test.run,
        workdir=test.workdir,
        results=test.results,
        report="stdout" if test.reads_stdout else "file",
        timeout_s=float(test.timeout_s),
        env=tuple(sorted(dict(test.env).items())),
        protect=tuple(target.protect),
    )
