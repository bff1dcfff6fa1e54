"""What an audit of one task's image looks for: its answer, its future, and what is public and therefore no leak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.build.audit_secrets import AuditSecrets, derive_secrets, read_contents
from packager.build.commands import checkout
from packager.build.render import toolchain_kinds
from packager.lock.resolve import read_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.lock.repositories import Repositories
    from packager.recipe.model import Recipe


def derive_task_secrets(recipe: Recipe, repositories: Repositories) -> AuditSecrets:
    """Read the answer and everything public from the recipe's sources, and derive what must not be in the image."""
    answer = read_answer(recipe, repositories)
    bases = {}
    for name in repositories.names():
        found = repositories.original(name)
        bases[checkout(name).lstrip("/").encode()] = found.repository.head_id(found.commit, found.history)
    hidden = {target: {path: data for path, (_, data) in files.items()} for target, files in answer.hidden.items()}
    future = [commit for one in recipe.targets for commit in (one.gold.commit, one.hidden.commit) if commit]
    return derive_secrets(answer.gold, hidden, _public(recipe, repositories), future=future, bases=bases)


def trusted_layers(recipe: Recipe) -> int:
    """Return how many of an image's lowest layers are pinned and public: the base and the toolchains."""
    return 1 + len(toolchain_kinds(recipe))


def _public(recipe: Recipe, repositories: Repositories) -> Iterator[bytes]:
    yield recipe.file(recipe.prompt).read_bytes()
    for name in repositories.names():
        yield from read_contents(repositories.original(name).tree_entries(b""))
