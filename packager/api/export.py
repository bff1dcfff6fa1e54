"""The verb that hands tasks to other harnesses: export."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from packager.api.bundle import published_name
from packager.api.place import EVALUATOR_KEY
from packager.api.sealed import EVALUATOR_VARIABLE, open_sealed, task_key
from packager.api.ship import bare_home
from packager.api.trusted import Trust
from packager.api.workspaces import verified_image
from packager.base.errors import InputError, UsageError
from packager.base.files import full_disk_trouble, is_there, write_atomic
from packager.base.progress import Event, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.api.place import Place
    from packager.evaluate.judge import StoredImage
    from packager.export.harbor import Files
    from packager.export.view import ExportedTask
    from packager.oci.descriptor import Descriptor
    from packager.oci.reference import Reference
    from packager.sandbox.engine import Engine, Tree
    from packager.seal.bundle import SealContents
    from packager.store.store import Store

Format = Literal["harbor", "swebench", "inspect"]


@dataclass(frozen=True)
class HarnessExport:
    """What an export is for, where its images are, whom to trust, and with whose key seals are opened.

    `namespace` is the REGISTRY/NAMESPACE to name images in (default: what their signatures say); `push` puts there what
    SWE-bench's instances need; `keys_into` is a file for the keys of Harbor's verifiers.
    """

    format: Format
    into: Path
    namespace: str | None = None
    push: bool = False
    keys_into: Path | None = None
    trust: Trust | None = None
    evaluator: Path | None = None


@dataclass(frozen=True)
class ExportedImage:
    """One instance of an export and its image."""

    instance: str
    image: str


@dataclass(frozen=True)
class ExportedTasks:
    """What was exported, and in which files."""

    format: Format
    folder: str
    instances: tuple[ExportedImage, ...]
    files: tuple[str, ...]


@full_disk_trouble("export")
def export_tasks(
    place: Place, tasks: Sequence[str], request: HarnessExport, *, progress: Progress = silent
) -> ExportedTasks:
    """Write tasks in another harness's format into a new folder; their images are verified first."""
    if is_there(request.into):
        raise InputError("exists already and is not written over", where=str(request.into))
    if request.keys_into is not None and request.format != "harbor":
        raise UsageError("--keys-into is for --format harbor")
    if request.push and request.format != "swebench":
        raise UsageError("--push is for --format swebench", hint="wideswe-pack push --task ID --to REGISTRY/NAMESPACE")
    engine, store = place.engine_now(), place.store()
    with store.lease():
        jobs = [_Job(place, store, engine, task, request) for task in dict.fromkeys(tasks)]
        files, instances = _FORMATS[request.format](jobs, progress)
    for name, (mode, data) in sorted(files.items()):
        write_atomic(request.into / name, data, mode=mode)
    return ExportedTasks(request.format, str(request.into), instances, tuple(sorted(files)))


@dataclass(frozen=True)
class _Job:
    """One task on its way."""

    place: Place
    store: Store
    engine: Engine
    task: str
    request: HarnessExport

    @contextlib.contextmanager
    def opened(self, progress: Progress, *, sealed: bool) -> Iterator[_Open]:
        """Verify the image, open its seal if that is needed or can be done, and give its files."""
        from packager.evaluate.profile import parse_profile
        from packager.evaluate.trees import DirectoryTree
        from packager.export.view import read_view
        from packager.store.scratch import scratch_folder

        progress(Event("export", message=self.task))
        trust = self.request.trust or Trust()
        image, _ = verified_image(self.place, self.task, trust, progress=progress)
        contents = self.contents(image) if sealed or self.has_key() else None
        reference = self.reference(image)
        layers = image.trees(self.store, progress=progress)
        env = dict(pair.partition("=")[::2] for pair in image.config.env)
        with (
            scratch_folder(self.store.root) as scratch,
            self.engine.open_tree(layers, scratch=scratch) as tree,
            DirectoryTree(tree.lower) as files,
        ):
            profile = None if contents is None else parse_profile(contents.profile)
            view = read_view(files, self.task, image=str(reference), env=env, profile=profile)
            yield _Open(image, view, contents, tree, reference)

    def has_key(self) -> bool:
        """Say whether an evaluator's key was given."""
        named = self.request.evaluator is not None or os.environ.get(EVALUATOR_VARIABLE)
        return bool(named) or is_there(self.place.keys / EVALUATOR_KEY)

    def contents(self, image: StoredImage) -> SealContents:
        """Return what is sealed."""
        return open_sealed(self.place, self.store, image, self.task, evaluator=self.request.evaluator)

    def reference(self, image: StoredImage) -> Reference:
        """Return the name of the image by digest."""
        from packager.oci.reference import parse_reference

        name = published_name(self.store, self.task, image.record)
        if self.request.namespace is not None:
            name = f"{bare_home(self.request.namespace)}/{self.task}"
        return replace(parse_reference(name), tag=None, digest=image.record.manifest.digest)


@dataclass(frozen=True)
class _Open:
    """A verified image and what is known of it."""

    image: StoredImage
    view: ExportedTask
    contents: SealContents | None
    tree: Tree
    reference: Reference


def _harbor(jobs: Sequence[_Job], progress: Progress) -> tuple[Files, tuple[ExportedImage, ...]]:
    from packager.export.harbor import format_harbor, format_keys

    files: Files = {}
    instances, keys = [], {}
    for job in jobs:
        with job.opened(progress, sealed=False) as found:
            _expect_python(found)
            files |= {f"{job.task}/{name}": content for name, content in format_harbor(found.view).items()}
            instances.append(ExportedImage(job.task, found.view.image))
            if job.request.keys_into is not None:
                keys[job.task] = task_key(job.place, job.store, found.image, evaluator=job.request.evaluator)
    into = jobs[0].request.keys_into if jobs else None
    if into is not None:
        write_atomic(into, format_keys(keys), mode=0o600)
    return files, tuple(instances)


def _inspect(jobs: Sequence[_Job], progress: Progress) -> tuple[Files, tuple[ExportedImage, ...]]:
    from packager.export.inspect import format_inspect

    views = []
    for job in jobs:
        with job.opened(progress, sealed=False) as found:
            views.append(found.view)
    return format_inspect(views), tuple(ExportedImage(view.task, view.image) for view in views)


def _swebench(jobs: Sequence[_Job], progress: Progress) -> tuple[Files, tuple[ExportedImage, ...]]:
    from packager.export.swebench import format_repository, format_rows

    rows: list[dict[str, object]] = []
    dockerfiles: dict[str, str] = {}
    for job in jobs:
        with job.opened(progress, sealed=True) as found:
            _expect_python(found)
            for row, dockerfile in _rows(job, found, progress):
                rows.append(row)
                dockerfiles[str(row["instance_id"])] = dockerfile
    files = format_repository(rows, dockerfiles)
    files["rows.jsonl"] = 0o644, format_rows(rows)
    return files, tuple(ExportedImage(str(row["instance_id"]), str(row["image"])) for row in rows)


def _rows(job: _Job, found: _Open, progress: Progress) -> Iterator[tuple[dict[str, object], str]]:
    from packager.evaluate.predictions import Patch
    from packager.evaluate.trees import DirectoryTree
    from packager.evaluate.workspace import Workspace
    from packager.export.swebench import Instance, format_dockerfile, format_row, instances_of

    assert found.contents is not None  # noqa: S101 - opened with sealed=True
    workspace = Workspace(found.tree)
    for name, patch in found.contents.gold.items():
        workspace.apply(name, Patch(patch))
    with (
        DirectoryTree(found.tree.lower / "workspace") as base,
        DirectoryTree(found.tree.root / "workspace") as solved,
    ):
        for instance_id, alone in instances_of(found.view):
            image = _with_testbed(job, found, alone, progress)
            instance = Instance(instance_id, alone, image)
            row = format_row(found.view, instance, found.contents, base=base, solved=solved)
            yield row, format_dockerfile(found.view, alone)


def _with_testbed(job: _Job, found: _Open, alone: str | None, progress: Progress) -> str:
    """Make the image of one instance in the store, push it if that is wanted, and return its name."""
    from packager.export.testbed import add_testbed
    from packager.oci.record import ImageRecord
    from packager.registry.push import Manner, push_image

    made: Descriptor = add_testbed(job.store, found.image, alone)
    reference = replace(found.reference, digest=made.digest)
    if job.request.push:
        manner = Manner(insecure=job.place.plain(reference.registry))
        push_image(job.store, ImageRecord(made), reference, progress=progress, manner=manner)
    return str(reference)


def _expect_python(found: _Open) -> None:
    """Refuse an image in which the scorer cannot run."""
    from packager.sandbox.engine import Command, Streams

    script = "import sys; raise SystemExit(sys.version_info < (3, 11))"
    command = Command(("/usr/bin/env", "python3", "-I", "-c", script), env=dict(found.view.env), timeout_s=60.0)
    if found.tree.run(command, Streams()).exit_code != 0:
        hint = "add python3 to the recipe's base packages; --format inspect needs none, its scorer runs outside"
        raise InputError("the image has no Python 3.11, which the scorer needs", where=found.view.task, hint=hint)


_FORMATS = {"harbor": _harbor, "swebench": _swebench, "inspect": _inspect}
