"""The verb that turns a workspace into patches: capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.api.trusted import ImageQuestion, Trust, Verified, refuse_unverified
from packager.base.errors import IntegrityError
from packager.base.files import full_disk_trouble, write_atomic
from packager.base.progress import Event, Progress, silent

if TYPE_CHECKING:
    from pathlib import Path

    from packager.api.place import Place
    from packager.base.digests import Digest
    from packager.evaluate.judge import StoredImage
    from packager.evaluate.trees import Tree

_TASK_BYTES = 1 << 20


@dataclass(frozen=True)
class CapturedPatch:
    """The patch of one target in a file; 0 bytes if nothing was changed."""

    target: str
    file: Path
    size: int
    digest: Digest


@dataclass(frozen=True)
class Captured:
    """The patches of a workspace, against the base in an image."""

    task: str
    manifest: str
    patches: tuple[CapturedPatch, ...]


@dataclass(frozen=True)
class CaptureRequest:
    """A workspace as an agent left it, where its patches go, which new files are no part of them, whom to trust."""

    workspace: Path
    into: Path
    leave_out: tuple[str, ...] = ()
    trust: Trust | None = None


@full_disk_trouble("capture")
def capture(place: Place, task: str, request: CaptureRequest, *, progress: Progress = silent) -> Captured:
    """Write one patch per target, TARGET.patch: what a workspace's files became of those in the verified image."""
    from packager.base.digests import digest_of
    from packager.evaluate.capture import capture_target
    from packager.recipe.globs import parse_glob

    leave_out = tuple(parse_glob(glob, where="--leave-out") for glob in request.leave_out)
    store, engine = place.store(), place.engine_now()
    with store.lease():
        image, _ = verified_image(place, task, request.trust or Trust(), progress=progress)
        from packager.evaluate.trees import DirectoryTree
        from packager.store.scratch import scratch_folder

        layers = image.trees(store, progress=progress)
        with scratch_folder(store.root) as scratch, engine.open_tree(layers, scratch=scratch) as tree:
            with DirectoryTree(tree.lower) as files:
                targets, _ = repositories_in(files, task)
            patches = {}
            for target in targets:
                progress(Event("capture", message=target))
                patches[target] = capture_target(
                    tree.lower / "workspace", request.workspace, target, leave_out=leave_out
                )
    written = []
    for target, data in patches.items():
        file = request.into / f"{target}.patch"
        write_atomic(file, data)
        written.append(CapturedPatch(target, file, len(data), digest_of(data)))
    return Captured(task, image.record.manifest.digest, tuple(written))


def verified_image(
    place: Place, task: str, trust: Trust, *, progress: Progress = silent
) -> tuple[StoredImage, Verified]:
    """Return a task's image and its checks if every one is a yes; else raise the error of the first no."""
    from packager.evaluate.judge import read_image

    record = place.record(task)
    verified = ImageQuestion(place, record, task, trust).ask(recall=True, progress=progress)
    refuse_unverified(verified.checks, task)
    return read_image(place.store(), record), verified


def repositories_in(files: Tree, task: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the targets and the contexts that an image's own task file names."""
    from packager.base.canonical import parse_json
    from packager.oci.places import TASK_PATH, TASK_SCHEMA

    where = f"/{TASK_PATH.decode()}"
    try:
        plain = parse_json(files.read(TASK_PATH), where=where, limit=_TASK_BYTES)
        targets, contexts = (tuple(str(one["name"]) for one in plain[key]) for key in ("targets", "contexts"))
        known = (plain["schema"], plain["task"]) == (TASK_SCHEMA, task)
    except (KeyError, TypeError) as error:
        raise IntegrityError(f"not a task file: {error!r}", where=where) from error
    if not known or not targets:
        raise IntegrityError(f"expected the targets of {task}, found something else", where=where)
    return targets, contexts
