"""Where things are: the suite's folder, the store, the keys; and how the stages get at them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES
from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.base.files import is_there, read_file, read_text_file
from packager.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.base.progress import Progress
    from packager.build.task import TaskBuild
    from packager.lock.clients import Clients
    from packager.lock.git import GitSources
    from packager.lock.model import Lock
    from packager.lock.repositories import Repositories
    from packager.oci.record import ImageRecord
    from packager.recipe.model import Recipe
    from packager.sandbox.engine import Engine
    from packager.trust.keyfiles import Password
    from packager.trust.keys import PrivateKey

PLATFORM = "linux/amd64"
SUITE = "wideswe"
VERSION = "v1"
RELEASE_KEY = "release.key"
RELEASE_PUBLIC_KEY = "release.pub"
ATTEST_KEY = "attest.key"
ATTEST_PUBLIC_KEY = "attest.pub"
SUITE_ROOT_KEY = "suite-root.key"
SUITE_ROOT_PUBLIC_KEY = "suite-root.pub"
ROOT_SECRET = "root.key"  # noqa: S105 - the name of a file
EVALUATOR_KEY = "evaluator.key"
LOCK_LIMIT_BYTES = 64 << 20


@dataclass(frozen=True)
class Place:
    """Where things are: the suite's folder, the store, the keys; what to read before the network; mirrors; engine.

    Registries in `plain_http` are spoken to in the clear, as otherwise only those on loopback are.
    `password` protects the signing keys; without it the first line of `password_file` does, or WIDESWE_PASSWORD.
    """

    root: Path
    store_root: Path
    keys: Path
    inputs: tuple[Path, ...] = ()
    engine: str = "native"
    mirrors: Mapping[str, str] = field(default_factory=dict)
    password: Password | None = None
    plain_http: tuple[str, ...] = ()
    password_file: Path | None = None

    def store(self) -> Store:
        """Return the store."""
        return Store(self.store_root, inputs=self.inputs)

    def plain(self, host: str) -> bool | None:
        """Return whether a registry may be spoken to in the clear because it was named; None: only on loopback."""
        return True if host in self.plain_http else None

    def release_password(self) -> Password:
        """Return the password of the signing keys; none given anywhere is a TrustError."""
        from packager.trust.keyfiles import read_password

        return read_password(os.environ, self.password_file) if self.password is None else self.password

    def private_key(self, name: str | Path) -> PrivateKey:
        """Return a signing key: one of the keys folder by its name, or any file by its path."""
        from packager.trust.keyfiles import read_private_key

        path = self.keys / name
        if not is_there(path):
            raise InputError("there is no such key", where=str(path), hint="wideswe-pack keygen")
        return read_private_key(path, self.release_password())

    def file(self, task: str, platform: str, kind: str) -> Path:
        """Return the path of a task's `lock`, `expected` or `sources` file."""
        return self.root / "lockfiles" / f"{task}.{platform.replace('/', '-')}.{kind}.json"

    def recipe(self, task: str) -> Recipe:
        """Read a recipe."""
        from packager.recipe.reader import read_recipe

        return read_recipe(self.root / "recipes" / f"{task}.yaml")

    def aliases_of(self, task: str) -> tuple[str, ...]:
        """Return the ids that a task has elsewhere, as its recipe says; none where there is no recipe."""
        known = "/" not in task and is_there(self.root / "recipes" / f"{task}.yaml")
        return (self.recipe(task).aliases or ()) if known else ()

    def tasks_by_alias(self) -> dict[str, str]:
        """Return the tasks of the recipes here by the ids that they have elsewhere; recipes with faults have none."""
        found: dict[str, str] = {}
        for path in sorted((self.root / "recipes").glob("*.yaml")):
            with contextlib.suppress(InputError):
                found.update(dict.fromkeys(self.aliases_of(path.stem), path.stem))
        return found

    def released_lists(self, task: str, platform: str) -> dict[str, str]:
        """Return by target what validation found of the lists that a release fixed, in a sentence; {} without any."""
        path = self.file(task, platform, "validation")
        if "/" in task or not is_there(path):
            return {}
        from packager.base.canonical import parse_json
        from packager.evaluate.released import summarise_plain

        plain = parse_json(read_file(path, limit=LOCK_LIMIT_BYTES), where=str(path), limit=LOCK_LIMIT_BYTES)
        targets = plain.get("targets") if isinstance(plain, dict) else None
        if not isinstance(targets, dict):
            return {}
        lists = {name: one.get("released") for name, one in targets.items() if isinstance(one, dict)}
        return {name: summarise_plain(one) for name, one in lists.items() if one}

    def template(self, recipe: Recipe) -> str:
        """Return the text of a recipe's template."""
        from packager.build.render import template_path

        return read_text_file(template_path(self.root / "images", recipe), limit=LIMIT_BYTES)

    def dockerfile_digest(self, recipe: Recipe, platform: str, *, gold: Collection[str]) -> Digest:
        """Return the digest of a recipe's Dockerfile without the seal; a template that renders the same is the same."""
        from packager.build.render import render_dockerfile

        template = self.template(recipe)
        text = render_dockerfile(recipe, template=template, platform=platform, sealed=False, gold=gold)
        return digest_of(text.encode())

    def lock(self, task: str, platform: str) -> Lock:
        """Read a task's lock."""
        from packager.lock.model import parse_lock

        path = self.file(task, platform, "lock")
        if not is_there(path):
            raise InputError("there is no lock", where=str(path), hint=f"wideswe-pack lock --task {task}")
        return parse_lock(read_file(path, limit=LOCK_LIMIT_BYTES), where=str(path))

    def repositories(self, recipe: Recipe) -> Repositories:
        """Return where a recipe's repositories come from."""
        from packager.lock.repositories import Repositories

        return Repositories(recipe, self.git_sources(), self.store())

    def git_sources(self) -> GitSources:
        """Return where git repositories are had: bundles beside recipes, mirrors, the repositories themselves."""
        from packager.lock.git import GitSources

        return GitSources(self.store(), self.mirrors, self.root / "recipes")

    def clients(self) -> Clients:
        """Return where registries and repositories are, as the clients of this machine and our settings say."""
        from packager.lock.clients import Clients

        found = Clients()
        found.git = self.git_sources()
        return found

    def engine_now(self) -> Engine:
        """Return the engine that runs commands; one that cannot work here says why before anything else happens."""
        from packager.sandbox.engines import open_engine

        self.store().sweep()
        return open_engine(self.engine, self.store_root)

    @contextlib.contextmanager
    def engine_early(self) -> Iterator[Engine]:
        """Give the engine; the sandbox of its first command begins to start while the caller does other things."""
        engine = self.engine_now()
        from packager.sandbox.native import NativeEngine

        with engine.early() if isinstance(engine, NativeEngine) else contextlib.nullcontext():
            yield engine

    def task_build(self, task: str, platform: str, progress: Progress) -> TaskBuild:
        """Return a locked task, ready to be built; a lock that no longer fits its recipe is refused."""
        from packager.build.task import TaskBuild
        from packager.lock.resolve import refuse_drift, wanted_of

        engine = self.engine_now()
        recipe, lock = self.recipe(task), self.lock(task, platform)
        dockerfile = self.dockerfile_digest(recipe, platform, gold=lock.files.manifests)
        refuse_drift(lock, wanted_of(recipe, dockerfile=dockerfile, platform=platform))
        template = self.template(recipe)
        return TaskBuild(recipe, lock, template, self.store(), self.repositories(recipe), engine, progress)

    def record(self, task: str) -> ImageRecord:
        """Return what the store knows of a task's image."""
        from packager.oci.record import parse_record

        data = self.store().name("images", task)
        if data is None:
            hint = f"wideswe-pack build --task {task}, or wideswe-pack pull REFERENCE"
            if "/" in task:
                hint = f"wideswe-pack pull {task}, then name the task that it prints"
            raise InputError("there is no image of this task in the store", where=task, hint=hint)
        return parse_record(data, where=f"image {task}")
