"""The files under `inputs/`: each is described by what the lock pins, and made only when its layer is not known yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_readable
from packager.base.digests import digest_of
from packager.build.execute import Input
from packager.build.render import toolchain_kinds
from packager.lock.answers import LIMIT_BYTES, read_manifests_tar
from packager.lock.bootstrap import CONFIGURE_SCRIPT, MOUNT_POINTS, Deb, bootstrap_entries
from packager.lock.toolchains import TOOLCHAIN_LAYOUT, toolchain_entries
from packager.oci.entries import Kind, file_entry
from packager.oci.places import PROMPT_PATH, SEALED_PATH, TASK_PATH, TASK_SCHEMA
from packager.recipe.globs import matches_any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.lock.model import Lock, LockedRepo
    from packager.lock.repositories import Checkout, Repositories
    from packager.oci.entries import Entry
    from packager.recipe.model import Recipe, SharedHistory
    from packager.store.store import Store


def task_inputs(recipe: Recipe, lock: Lock, *, store: Store, repositories: Repositories) -> dict[str, Input]:
    """Return the inputs of a task's Dockerfile by their path in the context, without the sealed one."""
    found = {"mountpoints": _mount_points(), "task": _task(recipe, lock)}
    if lock.base.image is None:
        found["bootstrap"] = _bootstrap(lock, store)
    for name, digest in lock.files.manifests.items():
        found[f"gold-manifests-{name}"] = _gold_manifests(name, digest, store)
    for kind in toolchain_kinds(recipe):
        found[f"toolchain-{kind}"] = _toolchain(kind, lock, store)
    locked = {repo.name: repo for repo in lock.repos}
    for target in recipe.targets:
        given = _Repository(locked[target.name], _history_kind(target.history), repositories)
        if locked[target.name].shared is not None:
            found[f"shared-history-{target.name}"] = given.shared_history()
        found[f"manifests-{target.name}"] = given.manifests(target.manifests)
        found[f"history-{target.name}"] = given.history()
        found[f"target-{target.name}"] = given.files()
    for context in recipe.contexts:
        found[f"context-{context.name}"] = _Repository(locked[context.name], context.history, repositories).whole()
    return {f"inputs/{name}.tar": given for name, given in found.items()}


def seal_input(sealed: bytes) -> Input:
    """Return the input that puts the sealed answer into the image."""
    return Input({"kind": "seal", "digest": digest_of(sealed)}, lambda _: _placed({SEALED_PATH: sealed}))


class _Repository:
    """The layers of one repository at its locked commit: its files, its history, both, or a few files."""

    def __init__(self, locked: LockedRepo, history: str, repositories: Repositories) -> None:
        self._locked = locked
        self._history = history
        self._repositories = repositories
        self._place = f"workspace/{locked.name}".encode()

    def files(self) -> Input:
        return self._input("checkout", lambda checkout: checkout.tree_entries(self._place))

    def history(self) -> Input:
        shared = self._locked.shared
        more = {} if shared is None else {"above": shared.commit}
        return self._input("history", lambda checkout: checkout.git_entries(self._place), **more)

    def shared_history(self) -> Input:
        """Return what does not depend on this task: the ancestors of one commit, in a repository of this name."""
        shared = self._locked.shared
        spec = {"kind": "shared-history", "name": self._locked.name, "pack": shared.pack_digest if shared else ""}
        return Input(spec, lambda _: self._repositories.locked(self._locked).shared_entries(self._place))

    def whole(self) -> Input:
        return self._input(
            "repository",
            lambda checkout: [*checkout.tree_entries(self._place), *checkout.git_entries(self._place)],
        )

    def manifests(self, patterns: tuple[str, ...]) -> Input:
        def chosen(checkout: Checkout) -> Iterable[Entry]:
            skip = len(self._place) + 1
            entries = checkout.tree_entries(self._place)
            files = [one for one in entries if one.kind is not Kind.DIR]
            return [one for one in files if matches_any(patterns, one.path[skip:].decode("utf-8", "surrogateescape"))]

        return self._input("manifests", chosen, patterns=list(patterns))

    def _input(self, kind: str, choose: Callable[[Checkout], Iterable[Entry]], **more: object) -> Input:
        spec: dict[str, Any] = {
            "kind": kind,
            "name": self._locked.name,
            "tree": self._locked.tree,
            "pack": self._locked.pack_digest,
            "history": self._history,
            **more,
        }
        return Input(spec, lambda _: choose(self._repositories.locked(self._locked)))


def _history_kind(history: str | SharedHistory) -> str:
    return history if isinstance(history, str) else "ancestors"


def _gold_manifests(name: str, digest: Digest, store: Store) -> Input:
    def entries(_: Path) -> Iterable[Entry]:
        place = f"workspace/{name}/".encode()
        files = read_manifests_tar(store.read(digest, LIMIT_BYTES))
        return (replace(entry, path=place + entry.path) for entry in files)

    return Input({"kind": "gold-manifests", "name": name, "digest": digest}, entries)


def _bootstrap(lock: Lock, store: Store) -> Input:
    packages = lock.base.packages
    spec = {
        "kind": "bootstrap",
        "suite": lock.base.suite,
        "packages": [blob.digest for blob in packages],
        "script": digest_of(CONFIGURE_SCRIPT.encode()),
    }

    def entries(scratch: Path) -> Iterable[Entry]:
        debs = [Deb(blob.key.rpartition("/")[2], store.checked_path(blob.digest)) for blob in packages]
        return bootstrap_entries(debs, suite=lock.base.suite, scratch=scratch)

    return Input(spec, entries)


def _mount_points() -> Input:
    spec = {"kind": "mountpoints", "paths": [path.decode() for path in MOUNT_POINTS]}
    return Input(spec, lambda _: _placed(dict.fromkeys(MOUNT_POINTS, b"")))


def _toolchain(kind: str, lock: Lock, store: Store) -> Input:
    kinds = {"node", "npm"} if kind == "node" else {kind}
    rows = [toolchain for toolchain in lock.toolchains if toolchain.kind in kinds]
    parts = [[row.kind, row.version, row.blob.digest] for row in rows]
    spec = {"kind": "toolchain", "toolchain": kind, "layout": TOOLCHAIN_LAYOUT, "parts": parts}
    return Input(spec, lambda scratch: toolchain_entries(rows, store, scratch))


def _task(recipe: Recipe, lock: Lock) -> Input:
    prompt = recipe.file(recipe.prompt).read_bytes()
    task = format_readable(
        {
            "schema": TASK_SCHEMA,
            "task": recipe.id,
            "kind": recipe.kind,
            "relation": recipe.relation,
            "ecosystem": recipe.ecosystem,
            "platform": lock.platform,
            "prompt": "/" + PROMPT_PATH.decode(),
            "targets": [_public(target) for target in recipe.targets],
            "contexts": [_public(context) for context in recipe.contexts],
        }
    )
    spec = {"kind": "task", "prompt": digest_of(prompt), "task": digest_of(task)}
    return Input(spec, lambda _: _placed({PROMPT_PATH: prompt, TASK_PATH: task}))


def _public(source: object) -> Mapping[str, str]:
    name, commit = source.name, source.commit  # type: ignore[attr-defined]
    return {"name": name, "path": f"/workspace/{name}", "commit": commit}


def _placed(files: Mapping[bytes, bytes]) -> list[Entry]:
    return [file_entry(path, data) for path, data in files.items()]
