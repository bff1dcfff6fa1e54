"""What an audit of one task's image looks for: its answer, its future, and what is public and therefore no leak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.build.audit_secrets import AuditSecrets, derive_secrets, read_contents
from packager.build.commands import checkout
from packager.build.render import toolchain_kinds
from packager.lock.answers import locked_answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.lock.model import Lock
    from packager.lock.repositories import Checkout, Repositories
    from packager.recipe.model import Recipe
    from packager.store.store import Store


def derive_task_secrets(recipe: Recipe, lock: Lock, *, store: Store, repositories: Repositories) -> AuditSecrets:
    """Read the answer and everything public that the lock pins, and derive what must not be in the image."""
    try:
        answer = locked_answer(recipe, lock, store=store, repositories=repositories)
    except WorldError as error:
        hint = f"an audit compares the image with gold and hidden tests; {error.hint or 'they must be at hand'}"
        raise WorldError(error.reason, where=error.where, hint=hint, retryable=error.retryable) from error
    checkouts = {repo.name: repositories.locked(repo) for repo in lock.repos}
    bases = {
        checkout(name).lstrip("/").encode(): found.repository.head_id(found.commit, found.history)
        for name, found in checkouts.items()
    }
    hidden = {target: {path: data for path, (_, data) in files.items()} for target, files in answer.hidden.items()}
    future = [commit for one in recipe.targets for commit in (one.gold.commit, one.hidden.commit) if commit]
    return derive_secrets(answer.gold, hidden, _public(recipe, checkouts.values()), future=future, bases=bases)


def trusted_layers(recipe: Recipe) -> int:
    """Return how many of an image's lowest layers are pinned and public: the base and the toolchains."""
    return 1 + len(toolchain_kinds(recipe))


def _public(recipe: Recipe, checkouts: Iterable[Checkout]) -> Iterator[bytes]:
    yield recipe.file(recipe.prompt).read_bytes()
    for found in checkouts:
        yield from read_contents(found.tree_entries(b""))
