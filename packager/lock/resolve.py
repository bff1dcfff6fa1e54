"""From a recipe to a lock, all but the recorded fetches: repositories, packages, toolchains, the answer's digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.digests import Digest, digest_of, parse_digest
from packager.base.errors import InputError, IntegrityError
from packager.base.progress import Event, Progress, silent
from packager.lock import debian
from packager.lock.answers import HiddenFiles, hidden_tar, read_gold, read_hidden
from packager.lock.drift import Wanted, drift_of
from packager.lock.git_pack import PACK_FORMAT_ID
from packager.lock.model import Lock, LockedBase, LockedFiles, LockedToolchain
from packager.lock.recorder import RECORDER_ID
from packager.lock.repositories import Repositories, lock_repositories, refuse_young
from packager.lock.toolchains import (
    ArchiveToolchain,
    go_default_proxy,
    resolve_archive,
    resolve_go,
    resolve_node,
)
from packager.lock.upstream import Upstream
from packager.oci.entries import CANONICALISER_ID
from packager.oci.layer import COMPRESSOR_ID
from packager.recipe.model import recipe_digest
from packager.sandbox.identity import SANDBOX_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.lock.clients import Clients
    from packager.recipe.model import Recipe
    from packager.store.store import Store


DEFAULT_SUITE = "bookworm"


@dataclass(frozen=True)
class Answer:
    """The gold patch and the hidden files of every target."""

    gold: Mapping[str, bytes]
    hidden: Mapping[str, HiddenFiles]

    def files(self, prompt: bytes) -> LockedFiles:
        """Return the digests that a lock keeps."""
        return LockedFiles(
            digest_of(prompt),
            {name: digest_of(patch) for name, patch in self.gold.items()},
            {name: digest_of(hidden_tar(files)) for name, files in self.hidden.items()},
        )


def read_answer(recipe: Recipe, repositories: Repositories) -> Answer:
    """Return the answer that a recipe describes, from its repositories and the files beside it."""
    gold: dict[str, bytes] = {}
    hidden: dict[str, HiddenFiles] = {}
    for target in recipe.targets:
        gold[target.name] = read_gold(recipe, target, repositories)
        hidden[target.name] = read_hidden(recipe, target, repositories)
    return Answer(gold, hidden)


@dataclass(frozen=True)
class Resolver:
    """What resolving needs: where things come from, and the digest of the Dockerfile."""

    store: Store
    clients: Clients
    repositories: Repositories
    dockerfile: Digest
    platform: str
    progress: Progress = silent

    def resolve(self, recipe: Recipe) -> Lock:
        """Return a lock of everything that needs no recording; git packs are in the store afterwards."""
        self.progress(Event("lock", message="reading repositories"))
        repos = lock_repositories(self.repositories, self.store, targets=[target.name for target in recipe.targets])
        contexts = {context.name: self.repositories.original(context.name) for context in recipe.contexts}
        times = {name: found.repository.commit_time(found.commit) for name, found in contexts.items()}
        refuse_young(recipe, times)
        answer = read_answer(recipe, self.repositories)
        self.progress(Event("lock", message="resolving packages and toolchains"))
        return Lock(
            task=recipe.id,
            platform=self.platform,
            recipe=recipe_digest(recipe),
            dockerfile=self.dockerfile,
            base=self._base(recipe),
            files=answer.files(recipe.file(recipe.prompt).read_bytes()),
            ids=current_ids(),
            repos=repos,
            toolchains=self._toolchains(recipe),
        )

    def _base(self, recipe: Recipe) -> LockedBase:
        suite = recipe.base.debian or DEFAULT_SUITE
        architecture = self.platform.partition("/")[2]
        return debian.resolve(suite, recipe.base.packages, clients=self.clients, architecture=architecture)

    def _toolchains(self, recipe: Recipe) -> tuple[LockedToolchain, ...]:
        upstream, architecture = Upstream(self.clients), self.platform.partition("/")[2]
        rows: list[LockedToolchain] = []
        for version in _wished(target.toolchain.go for target in recipe.targets):
            rows += resolve_go(version, upstream, self.store, architecture=architecture)
            self.clients.set_default("goproxy", go_default_proxy(self.store, rows[-1]).partition(",")[0])
        for version in _wished(target.toolchain.node for target in recipe.targets):
            rows += resolve_node(version, upstream, self.store, architecture=architecture)
        for archive in [target.toolchain.archive for target in recipe.targets if target.toolchain.archive]:
            digest = parse_digest(f"sha256:{archive.sha256}", where="toolchain.archive")
            rows += resolve_archive(
                ArchiveToolchain("archive", archive.url, digest, archive.strip), upstream, self.store
            )
        return tuple(dict.fromkeys(rows))


def _wished(versions: Iterable[str | None]) -> list[str]:
    """Return the one version that targets ask for; two of one kind would stand in one place."""
    found = sorted({version for version in versions if version is not None})
    if len(found) > 1:
        raise InputError(f"expected one version for all targets, found {', '.join(found)}", where="toolchain")
    return found


def wanted_of(recipe: Recipe, *, dockerfile: Digest, platform: str) -> Wanted:
    """Return what a recipe asks for today, as far as it can be known without network."""
    toolchains = {
        kind: wish if isinstance(wish, str) else f"archive strip {wish.strip}"
        for target in recipe.targets
        for kind, wish in target.toolchain
        if wish is not None
    }
    return Wanted(
        task=recipe.id,
        platform=platform,
        recipe=recipe_digest(recipe),
        dockerfile=dockerfile,
        suite=recipe.base.debian or DEFAULT_SUITE,
        ids=current_ids(),
        commits={one.name: one.commit for one in recipe.targets} | {one.name: one.commit for one in recipe.contexts},
        toolchains=toolchains,
        prompt=digest_of(recipe.file(recipe.prompt).read_bytes()),
    )


def refuse_drift(lock: Lock, wanted: Wanted) -> None:
    """Raise InputError if a lock is no longer what its recipe asks for."""
    found = drift_of(lock, wanted)
    if found:
        listed = "; ".join(str(one) for one in found)
        raise InputError(
            f"the lock does not fit the recipe: {listed}", where=lock.task, hint=f"wideswe-pack lock --task {lock.task}"
        )


def refuse_other_answer(lock: Lock, answer: Answer) -> None:
    """Raise IntegrityError if gold or hidden tests are not the bytes that the lock pins."""
    files = answer.files(b"")
    for what, pinned, found in (("gold", lock.files.gold, files.gold), ("hidden", lock.files.hidden, files.hidden)):
        for target in sorted({*pinned, *found}):
            if pinned.get(target) != found.get(target):
                raise IntegrityError(
                    f"expected {pinned.get(target)}, found {found.get(target)}",
                    where=f"{lock.task}: {what} of {target}",
                    hint=f"wideswe-pack lock --task {lock.task}",
                )


def current_ids() -> dict[str, str]:
    """Return the versions of what turns a lock into bytes."""
    return {
        "canonicaliser": CANONICALISER_ID,
        "compressor": COMPRESSOR_ID,
        "git": PACK_FORMAT_ID,
        "recorder": RECORDER_ID,
        "sandbox": SANDBOX_ID,
    }
