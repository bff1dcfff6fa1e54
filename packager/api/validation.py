"""The verb that finds out which tests judge: validate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.api.author import fetch
from packager.api.place import PLATFORM, Place
from packager.base.errors import InputError
from packager.base.files import full_disk_trouble, read_file, write_atomic
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.evaluate.expected import ExpectedCases
    from packager.evaluate.predictions import Patch
    from packager.evaluate.released import Comparison, ReleasedLists
    from packager.evaluate.run import Session
    from packager.evaluate.validate import Plan, Validation
    from packager.recipe.model import Recipe

_FROZEN_LIMIT_BYTES = 64 << 20


@dataclass(frozen=True)
class ValidationRequest:
    """How often base and gold run, whether also under other circumstances, and a folder of stubs (TARGET.patch)."""

    runs: int = 3
    vary: bool = True
    stubs: Path | None = None


@full_disk_trouble("validate")
def validate(
    place: Place,
    task: str,
    request: ValidationRequest = ValidationRequest(),
    *,
    platform: str = PLATFORM,
    progress: Progress = silent,
) -> Validation:
    """Run base and gold several times; write the expected tests and the evidence beside the lock if they are valid."""
    from packager.evaluate.guards import derive_guards
    from packager.evaluate.profile import profile_of
    from packager.evaluate.run import Session
    from packager.evaluate.validate import format_evidence, format_expected, subject_of, validate_session
    from packager.lock.answers import locked_answer

    task_build = place.task_build(task, platform, progress)
    store, recipe = task_build.store, task_build.recipe
    stubs, released = _stubs(request.stubs, recipe), _released(recipe)
    with store.lease():
        fetch(place, task, platform=platform, progress=progress)
        stage = task_build.environment()
        answer = locked_answer(recipe, task_build.lock, store=store, repositories=task_build.repositories)
        profile = profile_of(recipe)
        session = Session(
            engine=task_build.engine,
            layers=[task_build.builder().tree(layer) for layer in stage.layers],
            env=dict(stage.env),
            profile=profile,
            hidden=answer.hidden,
            store_root=store.root,
            progress=progress,
            guards=derive_guards(profile, answer.gold),
        )
        found = validate_session(session, answer.gold, _plan(request, session, recipe, stubs), progress=progress)
    found = replace(found, released=_compared(released, found.expected))
    if found.valid:
        subject = subject_of(task_build.image(stage).content_id, task_build.lock.files, profile)
        write_atomic(place.file(task, platform, "validation"), format_evidence(found, subject=subject))
        data = format_expected(found.expected, subject=subject, runs=request.runs)
        write_atomic(place.file(task, platform, "expected"), data)
    return found


def _released(recipe: Recipe) -> Mapping[str, ReleasedLists]:
    """Return the lists that a release fixed, if the recipe names a file of them."""
    if recipe.frozen is None:
        return {}
    from packager.evaluate.released import parse_released

    data = read_file(recipe.file(recipe.frozen), limit=_FROZEN_LIMIT_BYTES)
    return parse_released(data, [target.name for target in recipe.targets], where=recipe.frozen)


def _compared(released: Mapping[str, ReleasedLists], expected: Mapping[str, ExpectedCases]) -> dict[str, Comparison]:
    from packager.evaluate.released import compare_released

    return {name: compare_released(lists, expected[name]) for name, lists in released.items()}


def _plan(request: ValidationRequest, session: Session, recipe: Recipe, stubs: Mapping[str, Patch]) -> Plan:
    from packager.evaluate.validate import Plan
    from packager.evaluate.variations import variations_of

    if not request.vary:
        return Plan(request.runs, not_varied={"anything": "not asked for (--no-vary)"}, stubs=stubs)
    variations, missing = variations_of(session, {target.name: target.test.shuffle for target in recipe.targets})
    return Plan(request.runs, variations, missing, stubs)


def _stubs(folder: Path | None, recipe: Recipe) -> dict[str, Patch]:
    """Return the stubs that a folder has; those of no target are an InputError."""
    if folder is None:
        return {}
    from packager.evaluate.predictions import Patch, read_patch

    names = {target.name for target in recipe.targets}
    paths = {path.stem: path for path in sorted(folder.glob("*.patch"))}
    unknown = sorted(set(paths) - names)
    if unknown or not paths:
        found = ", ".join(f"{name}.patch" for name in unknown) or "no patch"
        hint = f"targets of this task: {', '.join(sorted(names))}"
        raise InputError(f"expected TARGET.patch files, found {found}", where=str(folder), hint=hint)
    return {name: Patch(read_patch(path)) for name, path in paths.items()}
