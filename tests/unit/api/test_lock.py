"""The verb lock, whole, over an engine that runs nothing: check, update, interruption. Registries are on loopback."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.api.place import PLATFORM, Place
from packager.base.digests import DiffId, Digest, digest_of
from packager.base.errors import InputError, UsageError
from packager.base.progress import silent
from packager.lock.model import Lock, format_lock
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import describe
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_LAYER_GZIP, MEDIA_MANIFEST, Manifest, format_manifest
from packager.recipe.model import recipe_digest
from tests.support.artifacts import make_wheel
from tests.support.fake_engine import FakeEngine, Prepared
from tests.support.fake_registry import FakeRegistry, fake_registry
from tests.support.registry import MemoryRegistry
from tests.support.suites import Sample, Suite, make_suite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHEEL, OTHER_WHEEL = make_wheel("foo", "1.0"), make_wheel("foo", "1.0", python=">=3")
FOO = "foo-1.0-py3-none-any.whl"
STEP = "one/dependencies"
INSTALL = "mkdir -p /workspace/one && cd /workspace/one && install"


@dataclass(frozen=True)
class PlaceWithoutEngine(Place):
    """A place whose engine runs nothing."""

    runs: FakeEngine = field(default_factory=lambda: FakeEngine({}))

    def engine_now(self) -> FakeEngine:
        """Return the engine."""
        return self.runs


class InterruptedEngine(FakeEngine):
    """Is interrupted by the keyboard at the n-th command."""

    def __init__(self, commands: dict[str, Prepared], *, at: int) -> None:
        super().__init__(commands)
        self._at = at

    def prepared(self, text: str) -> Prepared:
        """Count, and end at the n-th."""
        if len(self.ran) == self._at:
            raise KeyboardInterrupt
        return super().prepared(text)


@dataclass
class World:
    """A suite with its registries."""

    suite: Suite
    images: MemoryRegistry
    packages: FakeRegistry
    engine: FakeEngine

    @property
    def place(self) -> PlaceWithoutEngine:
        """The place."""
        found = self.suite.place
        return PlaceWithoutEngine(found.root, found.store_root, found.keys, mirrors=found.mirrors, runs=self.engine)

    def lock(self, update: str | None = None) -> tuple[str, ...]:
        """Lock and return the differences."""
        return api.lock(self.place, self.suite.task, update=update).changes

    def check(self) -> tuple[str, ...]:
        """Return the drift."""
        return api.check_lock(self.place, self.suite.task).changes

    def move_everything(self) -> tuple[Digest, str]:
        """Move base, repository and package; return the new image and commit."""
        image = publish(self.images, b"another base")
        sample = replace(self.suite.sample, base={"image": f"{self.images.host}/made/base@{image}"})
        commit = self.suite.git.commit({**sample.files, "more": "more\n"}, self.suite.base, message="moved")
        self.suite = replace(self.suite, sample=sample)
        self.suite.write_recipe(commit=commit)
        self.packages.add_file("foo", FOO, OTHER_WHEEL)
        return image, commit


def publish(registry: MemoryRegistry, text: bytes) -> Digest:
    """Publish an image whose only layer is empty; `text` makes it another one."""
    tar = bytes(10240)
    blob = gzip.compress(tar, mtime=0)
    config = format_config(ImageConfig("amd64", (DiffId(digest_of(tar)),), labels={"about": text.decode()}))
    rows = (describe(MEDIA_LAYER_GZIP, blob),)
    manifest = format_manifest(Manifest(describe(MEDIA_CONFIG, config), rows))
    for data in (config, blob):
        registry.put_blob("made/base", data)
    return Digest(registry.put_manifest("made/base", manifest, MEDIA_MANIFEST))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with MemoryRegistry() as images, fake_registry() as packages:
        packages.add_file("foo", FOO, WHEEL)
        monkeypatch.setenv("WIDESWE_REGISTRY_PYPI", f"{packages.url}/simple")
        sample = Sample(
            "one",
            files={"code": "1\n"},
            gold={"code": "2\n"},
            base={"image": f"{images.host}/made/base@{publish(images, b'a base')}"},
            fields={"dependencies": ["install"]},
        )
        install = Prepared({"opt/foo": b"foo"}, asks=[f"http://pypi.invalid/files/{FOO}"])
        suite = make_suite(tmp_path, sample, store=tmp_path / "store")
        yield World(suite, images, packages, FakeEngine({INSTALL: install}))


def parts(lock: Lock) -> dict[str, object]:
    """Return what can move of a lock by the name that moves it."""
    return {"base": lock.base, "one": lock.repos, STEP: lock.fetches, "answer": lock.files}


def test_a_lock_is_written_once_and_then_fits(world: World) -> None:
    assert world.lock() == ("new",)
    written = world.suite.lock_path.read_bytes()
    assert [command.argv[-1] for command in world.engine.ran] == [INSTALL] * 3
    assert [row.blob.digest for row in world.suite.lock().fetches] == [digest_of(WHEEL)]
    assert world.images.host.encode() not in written
    assert (world.check(), world.lock(), world.suite.lock_path.read_bytes()) == ((), (), written)


def test_whatever_drifts_is_named(world: World) -> None:
    world.lock()
    lock = world.suite.lock()
    (world.place.root / "recipes" / "one-001" / "prompt.md").write_text("Make it otherwise.\n")
    prompt = digest_of(b"Make it otherwise.\n")
    assert world.check() == (f"prompt: {lock.files.prompt} -> {prompt}",)
    template = world.place.root / "images" / "task.Dockerfile.j2"
    template.write_text("FROM scratch\n")
    world.suite.lock_path.write_bytes(format_lock(replace(lock, ids={**lock.ids, "sandbox": "older"})))
    image, commit = world.move_everything()
    assert world.check() == (
        f"base image: {lock.base.image} -> {image}",
        f"dockerfile: {lock.dockerfile} -> {digest_of(template.read_bytes())}",
        f"id sandbox: older -> {lock.ids['sandbox']}",
        f"prompt: {lock.files.prompt} -> {prompt}",
        f"recipe: {lock.recipe} -> {recipe_digest(world.place.recipe('one-001'))}",
        f"repository one: {lock.repos[0].commit} -> {commit}",
    )
    with pytest.raises(InputError, match=r"^one-001: the lock does not fit the recipe: base image: "):
        world.place.task_build(world.suite.task, PLATFORM, silent)


@pytest.mark.parametrize("name", ["base", "one", STEP])
def test_an_update_moves_only_what_it_names(world: World, name: str) -> None:
    world.lock()
    before = parts(world.suite.lock())
    image, commit = world.move_everything()
    subjects = {change.partition(":")[0] for change in world.lock(update=name)}
    after = parts(world.suite.lock())
    assert {part for part in after if after[part] != before[part]} == {name}
    assert subjects == {
        "recipe",
        "dockerfile",
        *{
            "base": ("base image", "base manifest"),
            "one": ("repository one", "pack one"),
            STEP: (f"fetch {STEP} pypi {FOO}",),
        }[name],
    }
    moved = world.suite.lock()
    assert (moved.base.image == image) is (name == "base")
    assert (moved.repos[0].commit == commit) is (name == "one")
    assert (moved.fetches[0].blob.digest == digest_of(OTHER_WHEEL)) is (name == STEP)


def test_an_update_of_nothing_is_refused_with_what_there_is(world: World) -> None:
    world.lock()
    with pytest.raises(UsageError) as caught:
        world.lock(update="two")
    assert str(caught.value) == (f"--update two names nothing in the lock\nhint: one of: answer, base, one, {STEP}")


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interrupted_lock_writes_nothing_and_the_next_goes_on_with_what_is_there(world: World, at: int) -> None:
    good = world.engine
    world.engine = InterruptedEngine(good.commands, at=at + 1)
    with pytest.raises(KeyboardInterrupt):
        world.lock()
    assert not world.suite.lock_path.exists()
    kept = blobs_of(world)
    assert len(kept) >= 4
    world.images.begin(None)
    world.engine = good
    assert world.lock() == ("new",)
    assert world.images.requests("GET", "/blobs/") == []
    assert kept <= blobs_of(world)


def blobs_of(world: World) -> set[str]:
    return {path.name for path in (world.place.store_root / "blobs" / "sha256").iterdir()}
