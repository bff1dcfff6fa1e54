"""The verbs of benchmark authors: list, lock, fetch, render, build."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from packager.api.place import LOCK_LIMIT_BYTES, PLATFORM, ROOT_SECRET, SUITE, VERSION, Place
from packager.base.canonical import LIMIT_BYTES, format_canonical, parse_json
from packager.base.digests import hex_of
from packager.base.errors import InputError, PackError
from packager.base.files import full_disk_trouble, is_there, read_file, write_atomic
from packager.base.progress import Event, Progress, silent

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.build.assemble import Image
    from packager.build.task import TaskBuild
    from packager.lock.model import Lock
    from packager.lock.sources import Source


@dataclass(frozen=True)
class TaskRow:
    """One recipe of the suite and how far it has come: `recipe`, `locked`, `validated` or `built`."""

    task: str
    kind: str
    relation: str
    targets: tuple[str, ...]
    contexts: int
    state: str


@dataclass(frozen=True)
class LockReport:
    """What locking did: where the lock is, whether it was written, and how it differs from the one before."""

    task: str
    path: str
    written: bool
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Fetched:
    """How many locked inputs there are, and their size together."""

    task: str
    blobs: int
    size_bytes: int


@dataclass(frozen=True)
class Rendered:
    """A build context on disk."""

    task: str
    folder: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Built:
    """An image in the store; `environment_id` is the content id without the seal, which anybody can rebuild."""

    task: str
    manifest: str
    content_id: str
    environment_id: str
    validated: bool


def list_tasks(place: Place) -> tuple[TaskRow, ...]:
    """Return all recipes of the suite in order."""
    built = set(place.store().names("images"))
    rows = []
    for path in sorted((place.root / "recipes").glob("*.yaml")):
        recipe = place.recipe(path.stem)
        kinds = [kind for kind in ("lock", "expected") if is_there(place.file(recipe.id, PLATFORM, kind))]
        state = ("recipe", "locked", "validated")[len(kinds)] if recipe.id not in built else "built"
        targets = tuple(target.name for target in recipe.targets)
        rows.append(TaskRow(recipe.id, recipe.kind, recipe.relation, targets, len(recipe.contexts), state))
    return tuple(rows)


def check_lock(place: Place, task: str, *, platform: str = PLATFORM) -> LockReport:
    """Say how a recipe and its lock differ; nothing is fetched or written."""
    from packager.lock.drift import drift_of
    from packager.lock.resolve import wanted_of

    recipe, locked = place.recipe(task), place.lock(task, platform)
    path = place.file(task, platform, "lock")
    dockerfile = place.dockerfile_digest(recipe, platform, gold=locked.files.manifests)
    changes = tuple(
        str(found) for found in drift_of(locked, wanted_of(recipe, dockerfile=dockerfile, platform=platform))
    )
    return LockReport(task, str(path), written=False, changes=changes)


@full_disk_trouble("lock")
def lock(
    place: Place, task: str, *, platform: str = PLATFORM, update: str | None = None, progress: Progress = silent
) -> LockReport:
    """Pin every input of a recipe, record its fetches twice, prove them offline, then write the lock.

    With `update`, only the thing of that name moves.
    """
    from packager.lock.drift import compare_locks
    from packager.lock.model import format_lock
    from packager.lock.sources import format_sources
    from packager.lock.update import take_update

    path = place.file(task, platform, "lock")
    old, reason = _old_lock(place, task, platform)
    if update is not None and old is None:
        raise InputError(f"there is nothing to update: {reason}", where=str(path), hint="lock without --update")
    new, sources = _resolve(place, task, platform, progress)
    if update is not None and old is not None:
        new = take_update(old, new, update)
    changes = (reason,) if old is None else tuple(str(found) for found in compare_locks(old, new))
    written = old is None or format_lock(old) != format_lock(new)
    if written and sources:
        write_atomic(place.file(task, platform, "sources"), format_sources(sources))
    if written:  # last: where the lock is, its sources are
        write_atomic(path, format_lock(new))
    return LockReport(task, str(path), written, changes)


def _old_lock(place: Place, task: str, platform: str) -> tuple[Lock | None, str]:
    """Return the lock that is there, or why there is none to compare with."""
    if not is_there(place.file(task, platform, "lock")):
        return None, "new"
    try:
        return place.lock(task, platform), ""
    except InputError as error:
        return None, f"replaces a lock that cannot be read: {error.reason}"


def _resolve(place: Place, task: str, platform: str, progress: Progress) -> tuple[Lock, tuple[Source, ...]]:
    from packager.api.base_image import pull_base
    from packager.api.gold import read_gold_trees
    from packager.build.record import record_fetches, vouch
    from packager.build.task import TaskBuild
    from packager.lock.fetch import fetch_blobs
    from packager.lock.recorder import Recorder
    from packager.lock.resolve import Resolver

    engine = place.engine_now()
    recipe = place.recipe(task)
    template = place.template(recipe)
    store, repositories, clients = place.store(), place.repositories(recipe), place.clients()
    with store.lease():
        trees = read_gold_trees(recipe, repositories)
        resolver = Resolver(
            store,
            clients,
            repositories,
            place.dockerfile_digest(recipe, platform, gold=trees.changed()),
            platform,
            progress,
            pull=lambda image: pull_base(image, store, platform=platform, progress=progress),
        )
        resolved = trees.locked_in(resolver.resolve(recipe), store)
        fetch_blobs(resolved.blobs(), store, clients, progress=progress)
        task_build = TaskBuild(recipe, resolved, template, store, repositories, engine, progress)
        recording = record_fetches(
            task_build.builder(), task_build.instructions(sealed=False), lambda: Recorder(store, clients)
        )
        recording = vouch(recording, trees.files_by_step(), store)
        return replace(resolved, fetches=recording.fetches, absent=recording.absent), recording.sources


@full_disk_trouble("fetch")
def fetch(
    place: Place, task: str, *, platform: str = PLATFORM, into: Path | None = None, progress: Progress = silent
) -> Fetched:
    """Get every locked input into the store; with `into`, also lay them out as a folder for --inputs."""
    from packager.api.base_image import fetch_base
    from packager.api.gold import keep_manifests
    from packager.lock.answers import answer_digests, locked_answer
    from packager.lock.fetch import fetch_blobs

    store, locked, recipe = place.store(), place.lock(task, platform), place.recipe(task)
    repositories = place.repositories(recipe)
    answer = (*answer_digests(locked), *locked.files.manifests.values())
    digests = {blob.digest: blob.size for blob in locked.blobs()}
    digests.update({digest: size for repo in locked.repos for digest, size in repo.packs().items()})
    store.sweep()
    with store.lease():
        fetch_blobs(locked.blobs(), store, place.clients(), progress, sources=_sources(place, task, platform))
        for repo in locked.repos:
            if not repositories.is_here(repo):
                progress(Event("fetch", message=f"repository {repo.name}"))
                repositories.fetch(repo)
        if not all(map(store.has, answer_digests(locked))):
            locked_answer(recipe, locked, store=store, repositories=repositories)
        keep_manifests(recipe, locked, store, repositories)
        digests.update({digest: store.path(digest).stat().st_size for digest in answer})
        digests.update(fetch_base(recipe.base.image, locked, store, progress=progress))
        if into is not None:
            for digest in sorted(digests):
                _lay_out(store.path(digest), into / "blobs" / "sha256" / hex_of(digest))
    return Fetched(task, len(digests), sum(digests.values()))


def _sources(place: Place, task: str, platform: str) -> tuple[Source, ...]:
    from packager.lock.sources import parse_sources

    path = place.file(task, platform, "sources")
    if not is_there(path):
        return ()
    return parse_sources(read_file(path, limit=LOCK_LIMIT_BYTES), where=str(path))


def _lay_out(source: Path, target: Path) -> None:
    import shutil

    if target.is_file() and target.stat().st_size == source.stat().st_size:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(source, temporary)
    temporary.replace(target)


@full_disk_trouble("render")
def render(place: Place, task: str, *, platform: str = PLATFORM, into: Path, progress: Progress = silent) -> Rendered:
    """Write a task's Dockerfile and inputs, without the seal, into a folder that any engine can build."""
    from packager.build.context import write_context

    task_build = place.task_build(task, platform, progress)
    with task_build.store.lease():
        fetch(place, task, platform=platform, progress=progress)
        files = write_context(task_build, into)
    return Rendered(task, str(into), files)


@full_disk_trouble("render")
def render_fetches(
    place: Place, task: str, *, platform: str = PLATFORM, into: Path, progress: Progress = silent
) -> Rendered:
    """Write beside a rendered context what the dependency steps fetch, with a small server that answers them."""
    from packager.build.overheard import write_fetches

    task_build = place.task_build(task, platform, progress)
    with task_build.store.lease():
        files = write_fetches(task_build, into)
    return Rendered(task, str(into), files)


@full_disk_trouble("build")
def build(place: Place, task: str, *, platform: str = PLATFORM, progress: Progress = silent) -> Built:
    """Build the sealed image of a locked task and remember it; nothing is parsed when nothing has changed."""
    from packager.build.known import build_key

    path = place.keys / ROOT_SECRET
    if not is_there(path):
        raise InputError("there is no suite root secret to seal with", where=str(path), hint="wideswe-pack keygen")
    store = place.store()
    key = build_key(place.root, task, platform=platform, secret=read_file(path, limit=LIMIT_BYTES))
    kept = store.result(key)
    built = None if kept is None else _still_there(place, task, kept)
    if built is None:
        from packager.api.healing import with_healing

        built = with_healing(store, lambda: _build(place, task, platform, progress), progress)
        store.put_result(key, format_canonical(asdict(built)))
    return built


def _still_there(place: Place, task: str, kept: bytes) -> Built | None:
    """Return what an earlier build gave, if its image is the task's and its blobs are here (they are not read)."""
    from packager.base.digests import parse_digest
    from packager.oci.manifest import parse_manifest

    store = place.store()
    try:
        built = Built(**parse_json(kept, where="build result"))
        record = store.name("images", task)
        if record is None or built.manifest.encode() not in record:
            return None
        manifest = parse_manifest(store.read(parse_digest(built.manifest), LIMIT_BYTES))
    except (PackError, TypeError):  # what cannot be read is made again
        return None
    blobs = (manifest.config, *manifest.layers)
    return built if all(store.has(blob.digest, blob.size) for blob in blobs) else None


def _build(place: Place, task: str, platform: str, progress: Progress) -> Built:
    from packager.oci.record import ImageRecord, format_record

    task_build = place.task_build(task, platform, progress)
    store = task_build.store
    with store.lease():
        fetch(place, task, platform=platform, progress=progress)
        environment_id = task_build.image(task_build.environment()).content_id
        image, validated = seal_image(place, task_build, environment_id)
        known = store.name("images", task)
        if known is None or place.record(task).manifest != image.manifest:
            store.set_name("images", task, format_record(ImageRecord(image.manifest)))
    return Built(task, image.manifest.digest, image.content_id, environment_id, validated)


def seal_image(place: Place, task_build: TaskBuild, environment_id: Digest) -> tuple[Image, bool]:
    """Build the sealed image over a built environment, and remember its steps; say whether it was validated."""
    from packager.build.trace import NAMES, Traced, format_steps, steps_of

    expected = _expected(place, task_build, environment_id)
    sealed = _seal(place, task_build, expected)
    traced: list[Traced] = []
    image = task_build.image(task_build.sealed(sealed, traced.append))
    steps = format_steps(steps_of(traced, task_build.store))
    task_build.store.set_name(NAMES, task_build.recipe.id, steps)
    return image, expected is not None


def _expected(place: Place, task_build: TaskBuild, environment: Digest) -> dict[str, dict[str, list[str]]] | None:
    from packager.evaluate.profile import profile_of
    from packager.evaluate.validate import read_expected, subject_of

    task, lock = task_build.recipe.id, task_build.lock
    path = place.file(task, lock.platform, "expected")
    if not is_there(path):
        return None
    seen_in, cases = read_expected(read_file(path, limit=LOCK_LIMIT_BYTES), where=str(path))
    subject = subject_of(environment, lock.files, profile_of(task_build.recipe))
    if seen_in != subject:
        raise InputError(
            f"the expected tests were seen with {seen_in}; recipe and lock now give {subject}",
            where=str(path),
            hint=f"wideswe-pack validate --task {task}",
        )
    return {name: found.plain() for name, found in cases.items()}


def _seal(place: Place, task_build: TaskBuild, expected: dict[str, dict[str, list[str]]] | None) -> bytes:
    from packager.evaluate.profile import format_profile, profile_of
    from packager.lock.answers import locked_answer
    from packager.seal.bundle import SealContents, seal
    from packager.seal.identities import read_root

    answer = locked_answer(
        task_build.recipe, task_build.lock, store=task_build.store, repositories=task_build.repositories
    )
    contents = SealContents(
        SUITE,
        task_build.recipe.id,
        VERSION,
        gold=answer.gold,
        hidden=answer.hidden,
        expected=expected,
        profile=format_profile(profile_of(task_build.recipe)),
    )
    return seal(contents, read_root(place.keys / ROOT_SECRET))
