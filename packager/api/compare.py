"""The verbs that compare and explain: diff of images or locks, explain of a build."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from packager.api.place import LOCK_LIMIT_BYTES, PLATFORM, Place
from packager.base.canonical import LIMIT_BYTES, parse_json
from packager.base.digests import BLOCK_BYTES
from packager.base.errors import InputError, UsageError
from packager.base.files import full_disk_trouble, read_file
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.build.difference import Opened
    from packager.build.explain import Explained, Wanted
    from packager.build.reproduce import Found
    from packager.build.task import TaskBuild
    from packager.lock.drift import Difference
    from packager.lock.model import Lock
    from packager.oci.descriptor import Descriptor
    from packager.oci.layout import Layout
    from packager.oci.manifest import Manifest
    from packager.store.store import Store


@dataclass(frozen=True)
class Compared:
    """How two images (`found`, and `more` that are not listed) or two locks (`changes`) differ."""

    a: str
    b: str
    same: bool
    found: tuple[Found, ...] = ()
    more: int = 0
    changes: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """What a build of a task would do now, step by step."""

    task: str
    steps: tuple[Explained, ...]

    @property
    def idle(self) -> bool:
        """Whether nothing would run."""
        return all(step.state == "known" for step in self.steps)


@full_disk_trouble("diff")
def diff(place: Place, a: str, b: str, *, shown: int = 20) -> Compared:
    """Compare two images, each a task of the store, an OCI layout or an archive of one; or two lock files."""
    from packager.build.difference import compare_images
    from packager.store.scratch import scratch_folder
    from packager.store.store import Store

    locks = [_lock_in(name) for name in (a, b)]
    if locks[0] is not None and locks[1] is not None:
        from packager.lock.drift import compare_locks

        changes = compare_locks(locks[0], locks[1])
        return Compared(a, b, not changes, changes=changes)
    if any(locks):
        raise UsageError(f"expected two images or two locks, found one of each: {a}, {b}")
    store = place.store()
    with store.lease(), scratch_folder(store.root) as scratch:
        images = [_open(place, name, Store(scratch / str(number))) for number, name in enumerate((a, b))]
        found, more = compare_images(images[0], images[1], shown=shown)
    return Compared(a, b, not found, found, more)


def _lock_in(name: str) -> Lock | None:
    from packager.lock.model import parse_lock

    path = Path(name)
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        if stream.read(1) != b"{":
            return None
    return parse_lock(read_file(path, limit=LOCK_LIMIT_BYTES), where=name)


def _open(place: Place, name: str, scratch: Store) -> Opened:
    """Open an image; what is in a file or folder is copied into a store of its own, verified."""
    if not Path(name).exists():
        return _opened(place.store(), place.record(name).manifest)
    from packager.oci.layout import open_layout

    with open_layout(Path(name)) as layout:
        return _opened(scratch, _import(layout, scratch, where=name))


def _import(layout: Layout, store: Store, *, where: str) -> Descriptor:
    """Copy the one image of a layout into a store and return its manifest."""
    from packager.oci.layout import INDEX_FILE, read_small
    from packager.oci.manifest import MANIFEST_TYPES, parse_index, parse_manifest

    rows = parse_index(read_small(layout, INDEX_FILE, limit=LIMIT_BYTES), where=f"{where}: {INDEX_FILE}").manifests
    images = [row for row in rows if row.media_type in MANIFEST_TYPES]
    manifests = {}
    for row in images:
        _copy(layout, store, row)
        manifests[row.digest] = parse_manifest(store.read(row.digest, LIMIT_BYTES), where=where)
    chosen = [row for row in images if _is_image(manifests[row.digest])]
    if len(chosen) != 1:
        raise InputError(f"expected one image, found {len(chosen)}", where=where, hint="bundle export --task ID")
    manifest = manifests[chosen[0].digest]
    for blob in {one.digest: one for one in (manifest.config, *manifest.layers)}.values():
        _copy(layout, store, blob)
    return chosen[0]


def _is_image(manifest: Manifest) -> bool:
    """Tell an image from the signatures and referrers that lie beside it: its layers are tars."""
    return bool(manifest.layers) and all(".tar" in layer.media_type for layer in manifest.layers)


def _copy(layout: Layout, store: Store, blob: Descriptor) -> None:
    from packager.oci.layout import blob_name

    name = blob_name(blob.digest)
    if name not in layout.sizes:
        raise InputError("expected a blob, found none", where=name)
    with layout.open(name) as stream, store.writer(blob.digest, blob.size) as out:
        while block := stream.read(BLOCK_BYTES):
            out.write(block)
        out.commit()


def _opened(store: Store, manifest: Descriptor) -> Opened:
    from packager.build.difference import Opened
    from packager.oci.config import parse_config
    from packager.oci.manifest import parse_manifest
    from packager.trust.layers import open_bounded

    data = store.read(manifest.digest, LIMIT_BYTES)
    parsed = parse_manifest(data, where=manifest.digest)
    config = store.read(parsed.config.digest, LIMIT_BYTES)
    diff_ids = parse_config(config, where=parsed.config.digest).diff_ids
    if len(diff_ids) != len(parsed.layers):
        raise InputError("config and manifest name different layers", where=manifest.digest)

    @contextlib.contextmanager
    def opened(layer: Descriptor) -> Iterator[IO[bytes]]:
        with open_bounded(store, layer) as stream:
            yield io.BufferedReader(stream, BLOCK_BYTES)
            stream.finish()

    rows = [(diff_id, partial(opened, layer)) for diff_id, layer in zip(diff_ids, parsed.layers, strict=True)]
    return Opened(data, config, rows)


def explain(place: Place, task: str, *, platform: str = PLATFORM, progress: Progress = silent) -> Explanation:
    """Say which steps of a locked task would run if it was built now, and why; nothing is fetched or run."""
    from packager.build.explain import explain_steps
    from packager.build.trace import NAMES, parse_steps

    task_build = place.task_build(task, platform, progress)
    kept = task_build.store.name(NAMES, task)
    before = None if kept is None else parse_steps(kept, where=f"steps of {task}")
    with task_build.store.lease():
        return Explanation(task, explain_steps(before, _wanted(task_build)))


def _wanted(task_build: TaskBuild) -> list[Wanted]:
    """Return the steps of a build as they would be carried out, up to the first that would have to work."""
    from packager.build.execute import WouldWorkError
    from packager.build.explain import Wanted
    from packager.build.trace import Step, Traced, steps_of

    instructions = task_build.instructions(sealed=False)
    traced: list[Traced] = []
    key = None
    try:
        replace(task_build.builder(), dry=True, trace=traced.append).build(instructions)
    except WouldWorkError as found:
        key = found.key
    rows = [Wanted(step, known=True) for step in steps_of(traced, task_build.store)]
    for instruction in [one for one in instructions if one.kind in {"ADD", "COPY", "RUN"}][len(rows) :]:
        document = {} if key is None else parse_json(task_build.store.read(key, LIMIT_BYTES), where=key)
        text = f"{instruction.kind} {instruction.arguments}"
        rows.append(Wanted(Step(text, instruction.step, instruction.line, document, None), known=False))
        key = None
    return rows
