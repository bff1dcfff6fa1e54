"""Moves one thing of a lock and leaves the rest as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.errors import UsageError

if TYPE_CHECKING:
    from packager.lock.model import Lock


def take_update(old: Lock, new: Lock, name: str) -> Lock:
    """Return `new` with everything but the named thing taken from `old`.

    Names: `base`, `answer` (gold, hidden tests and prompt), a repository, a kind of toolchain, or a step. What a lock
    says about itself (recipe, Dockerfile, ids) always moves, so that it fits the recipe.
    """
    repos = {repo.name for repo in new.repos}
    kinds = {row.kind for row in new.toolchains}
    steps = {row.step for row in new.fetches} | {row.step for row in new.absent}
    if name not in {"base", "answer"} | repos | kinds | steps:
        known = ", ".join(sorted({"base", "answer"} | repos | kinds | steps))
        raise UsageError(f"--update {name} names nothing in the lock", hint=f"one of: {known}")
    return replace(
        new,
        base=new.base if name == "base" else old.base,
        files=new.files if name == "answer" else old.files,
        repos=tuple(row for row in new.repos if row.name == name) + tuple(r for r in old.repos if r.name != name),
        toolchains=tuple(row for row in new.toolchains if row.kind == name)
        + tuple(row for row in old.toolchains if row.kind != name),
        fetches=tuple(row for row in new.fetches if row.step == name)
        + tuple(row for row in old.fetches if row.step != name),
        absent=tuple(row for row in new.absent if row.step == name)
        + tuple(row for row in old.absent if row.step != name),
    )
