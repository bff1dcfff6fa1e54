"""What an evaluator needs to know about a task and nobody else: how each target is prepared, tested and protected.

The profile travels inside the seal, so that an image alone is enough to judge a patch.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from packager.base.canonical import format_readable, parse_json
from packager.base.errors import InputError
from packager.base.paths import parse_relative
from packager.build.commands import in_build_order, prepare_command
from packager.evaluate.services import Service
from packager.oci.descriptor import expect_list, expect_object
from packager.recipe.globs import parse_glob
from packager.sandbox.engine import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.recipe.model import Recipe, Target

SCHEMA = "wideswe-evaluation/1"
_WHERE = "evaluation profile"
_TEXTS = ("name", "prepare", "run", "workdir", "results", "report")
_MOST = {"cpus": 4096, "memory_bytes": 1 << 44, "pids": 1 << 22, "disk_bytes": 1 << 44}
_LATER = {"unprotected", "disk_bytes"}
_MOST_SECONDS = 7 * 24 * 3600
_SURROGATES = re.compile("[\ud800-\udfff]")


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
    unprotected: tuple[str, ...] = ()
    """Globs of files that the evaluator's own defaults leave alone; not written where there is none."""


@dataclass(frozen=True)
class Profile:
    """How a task is judged; targets stand in the order in which they are prepared."""

    task: str
    targets: tuple[TargetProfile, ...]
    limits: Limits
    services: tuple[Service, ...] = ()


def profile_of(recipe: Recipe) -> Profile:
    """Return the profile that a recipe describes."""
    wanted = recipe.limits
    limits = Limits(wanted.cpus, wanted.memory_bytes, wanted.pids, wanted.disk_bytes or 0)
    targets = tuple(_target(recipe, target) for target in in_build_order(recipe))
    return Profile(recipe.id, targets, limits, tuple(Service(one.name, one.run, one.ready) for one in recipe.services))


def format_profile(profile: Profile) -> bytes:
    """Return a profile as JSON; times are whole seconds."""
    targets = [_plain_target(target) for target in profile.targets]
    limits = {key: value for key, value in asdict(profile.limits).items() if value or key not in _LATER}
    services = [one._asdict() for one in profile.services]
    plain = {"schema": SCHEMA, "task": profile.task, "targets": targets, "limits": limits}
    return format_readable({**plain, "services": services} if services else plain)


def _plain_target(target: TargetProfile) -> dict[str, object]:
    """Return one target; what was added to the format later is left out where it says nothing, so that seals stay."""
    plain = {**asdict(target), "timeout_s": int(target.timeout_s), "env": dict(target.env)}
    plain |= {key: list(getattr(target, key)) for key in ("protect", "unprotected")}
    return {key: value for key, value in plain.items() if value or key not in _LATER}


def parse_profile(data: bytes) -> Profile:
    """Return the profile that `format_profile` wrote, or raise InputError: nothing in it is believed unseen."""
    plain = expect_object(parse_json(data, where=_WHERE), where=_WHERE)
    if plain.get("schema") != SCHEMA:
        raise InputError(f"expected {SCHEMA}, found {str(plain.get('schema'))[:80]!r}", where=_WHERE)
    targets = tuple(
        _parse_target(item, where=f"{_WHERE}: targets[{number}]")
        for number, item in enumerate(expect_list(plain.get("targets"), where=f"{_WHERE}: targets"))
    )
    if not targets or len({target.name for target in targets}) != len(targets):
        raise InputError("expected targets, each with a name of its own", where=f"{_WHERE}: targets")
    limits = expect_object(plain.get("limits"), where=f"{_WHERE}: limits")
    if set(limits) - _LATER != set(_MOST) - _LATER:
        raise InputError(f"expected {', '.join(sorted(set(_MOST) - _LATER))}", where=f"{_WHERE}: limits")
    numbers = {key: _whole(limits[key], _MOST[key], where=f"{_WHERE}: limits.{key}") for key in _MOST if key in limits}
    services = tuple(
        _parse_service(item, where=f"{_WHERE}: services[{number}]")
        for number, item in enumerate(expect_list(plain.get("services", []), where=f"{_WHERE}: services"))
    )
    return Profile(_text(plain.get("task"), where=f"{_WHERE}: task"), targets, Limits(**numbers), services)


def _parse_service(value: object, *, where: str) -> Service:
    item = expect_object(value, where=where)
    if set(item) != set(Service._fields):
        raise InputError(f"expected {', '.join(Service._fields)}", where=where)
    return Service(**{key: _text(item[key], where=f"{where}.{key}") for key in Service._fields})


def _parse_target(value: object, *, where: str) -> TargetProfile:
    item = expect_object(value, where=where)
    keys = {field.name for field in fields(TargetProfile)} - _LATER
    if set(item) - _LATER != keys:
        raise InputError(f"expected {', '.join(sorted(keys))}", where=where)
    texts = {key: _text(item[key], where=f"{where}.{key}") for key in _TEXTS}
    if "/" in parse_relative(texts["name"], where=f"{where}.name") or texts["name"] == ".":
        raise InputError(f"expected one name, found {texts['name'][:80]!r}", where=f"{where}.name")
    if texts["workdir"] != ".":
        parse_relative(texts["workdir"], where=f"{where}.workdir")
    env = expect_object(item["env"], where=f"{where}.env")
    return TargetProfile(
        **texts,
        timeout_s=float(_whole(item["timeout_s"], _MOST_SECONDS, where=f"{where}.timeout_s")),
        env=tuple(sorted((_name(name, where=f"{where}.env"), _text(env[name], where=f"{where}.env")) for name in env)),
        protect=_globs(item, "protect", where),
        unprotected=_globs(item, "unprotected", where),
    )


def _globs(item: Mapping[str, object], key: str, where: str) -> tuple[str, ...]:
    found = expect_list(item.get(key, []), where=f"{where}.{key}")
    return tuple(parse_glob(_text(glob, where=f"{where}.{key}"), where=f"{where}.{key}") for glob in found)


def _text(value: object, *, where: str) -> str:
    if not isinstance(value, str) or "\0" in value or _SURROGATES.search(value):
        raise InputError(f"expected text without NUL, found {str(value)[:80]!r}", where=where)
    return value


def _name(value: str, *, where: str) -> str:
    if not _text(value, where=where) or "=" in value:
        raise InputError(f"expected the name of a variable, found {value[:80]!r}", where=where)
    return value


def _whole(value: object, most: int, *, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(f"expected a whole number from 1 to {most}, found {str(value)[:40]}", where=where)
    return value


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
        unprotected=tuple(target.unprotected or ()),
    )
