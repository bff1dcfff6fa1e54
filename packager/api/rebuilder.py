"""Builds one task under other conditions and says what came of it; a program of its own, started by `reproduce`."""

from __future__ import annotations

import os
import random
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from packager.base.canonical import format_canonical, parse_json
from packager.base.errors import PackError
from packager.base.files import is_there

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAY_S = 86_400


@dataclass(frozen=True)
class Task:
    """What the rebuilder is told: where things are, what to build, and how; plain values, since it crosses processes.

    With `again`, only the instructions on those lines run, over what the store knows; `environment_id` is the one
    expected: the seal is put on that one alone.
    """

    root: str
    store: str
    keys: str
    inputs: tuple[str, ...]
    task: str
    platform: str
    engine: str
    settings: Mapping[str, Any]
    environment_id: str = ""
    again: tuple[int, ...] = ()


@dataclass(frozen=True)
class Result:
    """What it answers: the ids (empty: not built), the steps as the store remembers them, or a complaint."""

    environment_id: str = ""
    content_id: str = ""
    manifest: str = ""
    steps: str = "[]"
    complaint: str = ""
    where: str = ""
    exit_code: int = 0


def main(text: str, out: IO[bytes]) -> None:
    """Do what a Task in JSON says and write a Result in JSON."""
    given = parse_json(text.encode(), where="task")
    task = Task(**{**given, "inputs": tuple(given["inputs"]), "again": tuple(given["again"])})
    try:
        _change_surroundings(task.settings)
        result = _rebuild(task)
    except PackError as error:
        result = Result(complaint=str(error), where=error.where or "", exit_code=error.exit_code)
    out.write(format_canonical(asdict(result)))


def _change_surroundings(settings: Mapping[str, Any]) -> None:
    """Become another user on another machine at another time, as far as one process can."""
    from packager.base.disturbed import shift_clock, shuffle_listings
    from packager.sandbox import kernel
    from packager.sandbox.namespaces import enter_identity_namespace, prepare_process

    if settings["umask"] is not None:
        os.umask(settings["umask"])
    if settings["elsewhere"]:
        os.chdir("/")
    if settings["cpus"]:
        os.sched_setaffinity(0, settings["cpus"])
    if settings["user_namespace"]:
        enter_identity_namespace()
    prepare_process()
    if settings["host_name"]:
        kernel.unshare(kernel.CLONE_NEWUTS)
        kernel.set_host_name(settings["host_name"])
    if settings["order_seed"]:
        shuffle_listings(random.Random(settings["order_seed"]))  # noqa: S311 - no secret
    if settings["clock_days"]:
        shift_clock(settings["clock_days"] * _DAY_S)


def _rebuild(task: Task) -> Result:
    from packager.api.author import fetch, seal_image
    from packager.api.place import ROOT_SECRET, Place
    from packager.build.trace import Traced, format_steps, steps_of
    from packager.sandbox.shuffled import ShuffledEngine

    place = Place(
        root=Path(task.root),
        store_root=Path(task.store),
        keys=Path(task.keys),
        inputs=tuple(map(Path, task.inputs)),
        engine=task.engine,
    )
    task_build = place.task_build(task.task, task.platform, lambda _: None)
    if task.settings["order_seed"]:
        task_build = replace(task_build, engine=ShuffledEngine(task_build.engine, task.settings["order_seed"]))
    store = task_build.store
    with store.lease():
        fetch(place, task.task, platform=task.platform)
        traced: list[Traced] = []
        if task.again:
            builder = replace(task_build.builder(), again=frozenset(task.again), trace=traced.append)
            builder.build(task_build.instructions(sealed=False))
            return Result(steps=format_steps(steps_of(traced, store)).decode())
        image = task_build.image(task_build.environment(traced.append))
        steps = format_steps(steps_of(traced, store)).decode()
        if image.content_id != task.environment_id:
            return Result(image.content_id, steps=steps)
        if not is_there(place.keys / ROOT_SECRET):
            return Result(image.content_id, steps=steps)
        sealed, _ = seal_image(place, task_build, image.content_id)
    return Result(image.content_id, sealed.content_id, sealed.manifest.digest, steps)
