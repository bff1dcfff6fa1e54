"""One locked task as something to build: its Dockerfile, its inputs, its recorded fetches, and the images they give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.base.progress import Progress, silent
from packager.build.assemble import Image, assemble_image
from packager.build.dockerfile import Instruction, parse_dockerfile
from packager.build.execute import Builder, Stage
from packager.build.image import image_stage
from packager.build.inputs import seal_input, task_inputs
from packager.build.record import dependency_steps, replay_fetches
from packager.build.render import render_dockerfile
from packager.build.trace import Tracer, untraced

if TYPE_CHECKING:
    from packager.lock.model import Lock
    from packager.lock.repositories import Repositories
    from packager.recipe.model import Recipe
    from packager.sandbox.engine import Engine
    from packager.store.store import Store


@dataclass(frozen=True)
class TaskBuild:
    """A recipe with its lock and all that building it needs."""

    recipe: Recipe
    lock: Lock
    template: str
    store: Store
    repositories: Repositories
    engine: Engine
    progress: Progress = silent

    def dockerfile(self, *, sealed: bool) -> str:
        """Return the Dockerfile."""
        return render_dockerfile(
            self.recipe,
            template=self.template,
            platform=self.lock.platform,
            sealed=sealed,
            gold=self.lock.files.manifests,
        )

    def instructions(self, *, sealed: bool) -> tuple[Instruction, ...]:
        """Return the Dockerfile's instructions."""
        return parse_dockerfile(self.dockerfile(sealed=sealed))

    def builder(self) -> Builder:
        """Return a builder that answers fetches from the lock alone."""
        lock, steps = self.lock, dependency_steps(self.instructions(sealed=False))
        return Builder(
            store=self.store,
            engine=self.engine,
            inputs=task_inputs(self.recipe, lock, store=self.store, repositories=self.repositories),
            fetches=replay_fetches(self.store, steps, lock.fetches, lock.absent),
            images=self._base_image,
            platform=lock.platform,
            progress=self.progress,
        )

    def _base_image(self, name: str) -> Stage:
        if name != self.recipe.base.image or self.lock.base.manifest is None:
            hint = f"wideswe-pack lock --task {self.recipe.id}"
            raise InputError(f"base image {name!r} is not in the lock", where=self.recipe.id, hint=hint)
        return image_stage(self.store, self.lock.base.manifest)

    def environment(self, trace: Tracer = untraced) -> Stage:
        """Build everything but the seal; anybody with the lock gets the same."""
        return replace(self.builder(), trace=trace).build(self.instructions(sealed=False))

    def sealed(self, sealed: bytes, trace: Tracer = untraced) -> Stage:
        """Build the whole image around a sealed answer."""
        builder = replace(self.builder(), trace=trace)
        inputs = {**builder.inputs, "inputs/seal.tar": seal_input(sealed)}
        return replace(builder, inputs=inputs).build(self.instructions(sealed=True))

    def image(self, stage: Stage) -> Image:
        """Return the image of a stage."""
        return assemble_image(stage, self.store, task=self.recipe.id, platform=self.lock.platform)
