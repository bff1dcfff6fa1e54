"""From a recipe to a lock, all but the recorded fetches: repositories, packages, toolchains, the answer's digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.digests import Digest, digest_of, parse_digest
from packager.base.errors import InputError
from packager.base.progress import Event, Progress, silent
from packager.lock import debian
from packager.lock.answers import keep_answer, read_answer
from packager.lock.clients import first_proxy
from packager.lock.drift import Wanted, by_kind, drift_of
from packager.lock.git_pack import PACK_FORMAT_ID
from packager.lock.model import Lock, LockedBase, LockedToolchain
from packager.lock.recorder import RECORDER_ID
from packager.lock.repositories import Repositories, lock_repositories, refuse_young
from packager.lock.rust_toolchain import resolve_rust
from packager.lock.toolchains import (
    SIDE_BY_SIDE,
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
    from collections.abc import Callable, Iterable

    from packager.lock.clients import Clients
    from packager.recipe.model import Recipe
    from packager.store.store import Store


DEFAULT_SUITE = "bookworm"


@dataclass(frozen=True)
class Resolver:
    """What resolving needs: where things come from, the Dockerfile's digest, and who pulls a base image by digest."""

    store: Store
    clients: Clients
    repositories: Repositories
    dockerfile: Digest
    platform: str
    progress: Progress = silent
    pull: Callable[[str], Digest] | None = None

    def resolve(self, recipe: Recipe) -> Lock:
        """Return a lock of everything that needs no recording; git packs and the answer are in the store afterwards."""
        if self.platform not in recipe.platforms:
            raise InputError(
                f"expected one of the recipe's platforms, {', '.join(recipe.platforms)}; found {self.platform}",
                where=recipe.id,
                hint="add it to `platforms` in the recipe",
            )
        self.progress(Event("lock", message="reading repositories"))
        repos = lock_repositories(self.repositories, self.store, targets=[target.name for target in recipe.targets])
        contexts = {context.name: self.repositories.repository(context.name) for context in recipe.contexts}
        times = {name: found.commit_time(self.repositories.base(name)) for name, found in contexts.items()}
        refuse_young(recipe, times)
        answer = read_answer(recipe, self.repositories)
        keep_answer(answer, self.store)
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
        if recipe.base.image is not None:
            if self.pull is None:
                raise InputError("a base image cannot be pulled here", where=f"{recipe.id}: base.image")
            return LockedBase(image=_image_digest(recipe), manifest=self.pull(recipe.base.image))
        suite = recipe.base.debian or DEFAULT_SUITE
        architecture = self.platform.partition("/")[2]
        return debian.resolve(suite, recipe.base.packages, clients=self.clients, architecture=architecture)

    def _toolchains(self, recipe: Recipe) -> tuple[LockedToolchain, ...]:
        upstream, architecture = Upstream(self.clients), self.platform.partition("/")[2]
        rows: list[LockedToolchain] = []
        for version in _wished("go", (target.toolchain.go for target in recipe.targets)):
            rows += resolve_go(version, upstream, self.store, architecture=architecture)
            proxy = first_proxy(go_default_proxy(self.store, rows[-1]))
            if proxy is not None:
                self.clients.set_default("goproxy", proxy)
        for version in _wished("node", (target.toolchain.node for target in recipe.targets)):
            rows += resolve_node(version, upstream, self.store, architecture=architecture)
        for version in _wished("rust", (target.toolchain.rust for target in recipe.targets)):
            rows += resolve_rust(version, upstream, self.store, architecture=architecture)
        for archive in [target.toolchain.archive for target in recipe.targets if target.toolchain.archive]:
            digest = parse_digest(f"sha256:{archive.sha256}", where="toolchain.archive")
            rows += resolve_archive(
                ArchiveToolchain("archive", archive.url, digest, archive.strip), upstream, self.store
            )
        return tuple(dict.fromkeys(rows))


def _image_digest(recipe: Recipe) -> Digest | None:
    image = recipe.base.image
    return None if image is None else parse_digest(image.partition("@")[2], where=f"{recipe.id}: base.image")


def _wished(kind: str, versions: Iterable[str | None]) -> list[str]:
    """Return the versions that targets ask for; of some kinds there can be only one."""
    found = sorted({version for version in versions if version is not None})
    if len(found) > 1 and kind not in SIDE_BY_SIDE:
        raise InputError(f"expected one version for all targets, found {', '.join(found)}", where=f"toolchain.{kind}")
    return found


def wanted_of(recipe: Recipe, *, dockerfile: Digest, platform: str) -> Wanted:
    """Return what a recipe asks for today, as far as it can be known without network."""
    asked = [(kind, wish) for target in recipe.targets for kind, wish in target.toolchain if wish is not None]
    return Wanted(
        task=recipe.id,
        platform=platform,
        recipe=recipe_digest(recipe),
        dockerfile=dockerfile,
        suite="" if recipe.base.image is not None else recipe.base.debian or DEFAULT_SUITE,
        image=_image_digest(recipe) or "",
        ids=current_ids(),
        commits={one.name: one.commit for one in recipe.targets} | {one.name: one.commit for one in recipe.contexts},
        toolchains=by_kind((kind, wish if isinstance(wish, str) else f"{kind}/{wish.strip}") for kind, wish in asked),
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


def current_ids() -> dict[str, str]:
    """Return the versions of what turns a lock into bytes."""
    return {
        "canonicaliser": CANONICALISER_ID,
        "compressor": COMPRESSOR_ID,
        "git": PACK_FORMAT_ID,
        "recorder": RECORDER_ID,
        "sandbox": SANDBOX_ID,
    }
