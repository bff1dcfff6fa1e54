"""A locked task over an engine that runs nothing and a base image of one empty layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.api.gold import read_gold_trees
from packager.base.digests import DiffId, digest_of
from packager.build.task import TaskBuild
from packager.lock.resolve import Resolver
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import describe
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_LAYER_TAR, Manifest, format_manifest
from tests.support.fake_engine import FakeEngine, Prepared
from tests.support.suites import Sample, make_suite

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.lock.model import Lock
    from packager.store.store import Store

INSTALL = "mkdir -p /workspace/one && cd /workspace/one && install"
IMAGE = f"registry.invalid/base@sha256:{'0' * 64}"


SAMPLE = Sample(
    "one",
    files={"code": "1\n", "need.txt": "a\n"},
    gold={"code": "2\n", "need.txt": "a\nb\n"},
    base={"image": IMAGE},
    fields={"manifests": ["need.txt"], "dependencies": ["install"]},
)


def put_base(store: Store) -> Digest:
    """Put an image with one empty layer into the store."""
    tar = bytes(10240)
    config = format_config(ImageConfig("amd64", (DiffId(digest_of(tar)),), env=("FROM=base",)))
    manifest = format_manifest(Manifest(describe(MEDIA_CONFIG, config), (describe(MEDIA_LAYER_TAR, tar),)))
    for data in (tar, config, manifest):
        store.put(data)
    return digest_of(manifest)


@dataclass(frozen=True)
class Made:
    """A task that is ready to be built, and its engine."""

    task_build: TaskBuild
    engine: FakeEngine

    def lock(self) -> Lock:
        """Return the lock."""
        return self.task_build.lock


def make(folder: Path, **fields: object) -> Made:
    """Make a task whose gold changes `need.txt`, with that as manifest unless `fields` say otherwise."""
    return make_task(folder, replace(SAMPLE, fields={**SAMPLE.fields, **fields}))


def make_task(folder: Path, sample: Sample) -> Made:
    """Make a task with one target named `one`."""
    suite = make_suite(folder, sample, store=folder / "store")
    place, recipe = suite.place, suite.place.recipe(suite.task)
    store, repositories, template = place.store(), place.repositories(recipe), place.template(recipe)
    trees = read_gold_trees(recipe, repositories)

    class NoClients:
        """Nothing here asks a registry."""

    resolver = Resolver(
        store,
        NoClients(),  # type: ignore[arg-type]
        repositories,
        digest_of(template.encode()),
        "linux/amd64",
        pull=lambda _: put_base(store),
    )
    lock = trees.locked_in(resolver.resolve(recipe), store)
    engine = FakeEngine({INSTALL: Prepared({"opt/lib": b"lib"}), "rm -rf /workspace/one": Prepared()})
    return Made(TaskBuild(recipe, lock, template, store, repositories, engine), engine)
