"""Judges patches against a verified image in the store: opens its seal, runs the tests, grades, binds the verdict."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from packager import __version__
from packager.base.canonical import LIMIT_BYTES, parse_json
from packager.base.digests import BLOCK_BYTES, hex_of
from packager.base.errors import InputError, IntegrityError, WorldError
from packager.base.files import free_bytes
from packager.base.progress import Progress, silent
from packager.evaluate.controls import plant_all
from packager.evaluate.expected import parse_expected
from packager.evaluate.guards import derive_guards
from packager.evaluate.predictions import Patch
from packager.evaluate.profile import parse_profile
from packager.evaluate.results import End
from packager.evaluate.run import Control, Session
from packager.evaluate.trees import DirectoryTree, Kind
from packager.oci.config import parse_config
from packager.oci.manifest import parse_manifest
from packager.oci.places import SEALED_PATH, TASK_PATH
from packager.oci.tar_reader import read_tar
from packager.trust.layers import LIMIT_BYTES as LAYER_LIMIT_BYTES
from packager.trust.layers import open_bounded
from packager.trust.marks import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.evaluate.expected import ExpectedCases
    from packager.evaluate.profile import Profile
    from packager.evaluate.run import Tested
    from packager.evaluate.run_record import RunRecord
    from packager.evaluate.verdict import Verdict
    from packager.oci.config import ImageConfig
    from packager.oci.descriptor import Descriptor
    from packager.oci.record import ImageRecord
    from packager.sandbox.engine import Engine
    from packager.seal.bundle import SealContents
    from packager.store.store import Store


@dataclass(frozen=True)
class StoredImage:
    """An image in the store: its record, its config, and its layers' descriptors, lowest first, the seal last."""

    record: ImageRecord
    config: ImageConfig
    layers: tuple[Descriptor, ...]
    config_bytes: bytes = field(repr=False)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def tars(self, store: Store) -> Iterator[IO[bytes]]:
        """Yield every layer's tar, lowest first, each open until the next is asked for."""
        for descriptor in self.layers:
            with open_bounded(store, descriptor, limit_bytes=LAYER_LIMIT_BYTES) as stream:
                yield io.BufferedReader(stream, BLOCK_BYTES)

    def sealed(self, store: Store) -> bytes:
        """Return the sealed file of the last layer."""
        with open_bounded(store, self.layers[-1], limit_bytes=LAYER_LIMIT_BYTES) as stream:
            for entry, reader in read_tar(io.BufferedReader(stream, BLOCK_BYTES)):
                if entry.path == SEALED_PATH:
                    return reader.read()
        raise IntegrityError(f"the last layer has no {SEALED_PATH.decode()}", where=self.record.manifest.digest)

    def trees(self, store: Store, *, progress: Progress = silent) -> list[Path]:
        """Return the unpacked layers without the seal; a layer that is not unpacked yet is unpacked now."""
        pairs = zip(self.layers[:-1], self.config.diff_ids[:-1], strict=True)
        return [_tree(store, descriptor, hex_of(diff_id), progress) for descriptor, diff_id in pairs]


def read_image(store: Store, record: ImageRecord) -> StoredImage:
    """Return the image that a record names."""
    manifest = parse_manifest(store.read(record.manifest.digest, LIMIT_BYTES))
    config_bytes = store.read(manifest.config.digest, LIMIT_BYTES)
    config = parse_config(config_bytes)
    if len(config.diff_ids) != len(manifest.layers) or not manifest.layers:
        raise IntegrityError("config and manifest name different layers", where=record.manifest.digest)
    return StoredImage(record, config, manifest.layers, config_bytes, manifest.annotations)


def _tree(store: Store, descriptor: Descriptor, diff_hex: str, progress: Progress) -> Path:
    def fill(target: Path) -> None:
        measured, _ = Memory(store, recall=True, progress=progress).measure(descriptor)
        if hex_of(measured.diff_id) != diff_hex:
            raise IntegrityError(f"expected diff id {diff_hex}, found {measured.diff_id}", where=descriptor.digest)
        from packager.oci.layer import Layer, open_layer, unpack_layer  # noqa: PLC0415 - all but the first run need none

        refuse_too_large(target, measured.diff_size, descriptor.digest)
        layer = Layer(measured.diff_id, descriptor.digest, descriptor.size, measured.diff_size, descriptor.media_type)
        try:
            with open_layer(store, layer) as stream:
                unpack_layer(stream, target, overlay_whiteouts=True)
        except InputError as error:  # an image is not what somebody here wrote
            raise IntegrityError(error.complaint, where=descriptor.digest) from error

    return store.tree(diff_hex, fill)


def refuse_too_large(target: Path, size: int, digest: str) -> None:
    """Refuse a layer that cannot fit before any of it is written; what else is on the disk stays usable."""
    free = free_bytes(target)
    if size > free:
        hint = "wideswe-pack gc, or --store on a larger disk"
        raise WorldError(f"unpacks to {size} bytes, the store's disk has {free} left", where=digest, hint=hint)


@dataclass(frozen=True)
class Judge:
    """What judging needs beside image, seal and patches."""

    engine: Engine
    store: Store
    progress: Progress = silent
    word: str = ""
    """What control tests are called, to be told only by tests; else each run has a word of its own."""

    def judge(
        self,
        image: StoredImage,
        contents: SealContents,
        patches: Mapping[str, Patch | None],
        *,
        only: str | None = None,
    ) -> Verdict:
        """Run the hidden tests over an image with the patches applied, and return the verdict.

        With `only`, that target alone is graded, and the others have their sealed gold patches.
        """
        profile = parse_profile(contents.profile)
        names = [target.name for target in profile.targets]
        expected = _expected(contents, names)
        judged = names if only is None else [only]
        if only is not None and only not in names:
            hint = f"targets of this task: {', '.join(names)}"
            raise InputError(f"{only!r} is no target", where=contents.task, hint=hint)
        _refuse_strangers(patches, judged, contents.task)
        session = self._session(image, contents, profile, expected)
        given = {name: patches.get(name) for name in judged}
        at_gold = {name: Patch(contents.gold[name]) for name in names if name not in judged}
        tested = session.run({**at_gold, **given}, only=only)
        from packager.evaluate.grade import Outcome, grade_target, grade_task, how_ended  # noqa: PLC0415 - after the tests
        from packager.evaluate.verdict import Verdict  # noqa: PLC0415

        grade = grade_task({name: grade_target(expected[name], tested[name].run) for name in judged})
        return Verdict(
            task=contents.task,
            image=image.record.manifest.digest,
            tool=__version__,
            grade=grade,
            patches={name: None if patch is None else patch.digest for name, patch in given.items()},
            durations_ms={name: round(tested[name].seconds * 1000) for name in judged},
            at_gold=None if only is None else tuple(at_gold),
            run=_record(given, tested, alone=only is not None, kind=_kind(session.layers)),
            logs={
                name: tested[name].log.decode("utf-8", "replace")
                for name, one in grade.targets.items()
                if one.outcome is not Outcome.RESOLVED and tested[name].log
            },
            ended={name: how_ended(one, tested[name].run) for name, one in grade.targets.items() if one.failing},
        )

    def _session(
        self, image: StoredImage, contents: SealContents, profile: Profile, expected: Mapping[str, ExpectedCases]
    ) -> Session:
        word = self.word or os.urandom(4).hex()
        hidden, controlled = plant_all(profile.targets, contents.hidden, expected, word)
        return Session(
            engine=self.engine,
            layers=image.trees(self.store, progress=self.progress),
            env=dict(pair.partition("=")[::2] for pair in image.config.env),
            profile=profile,
            hidden=hidden,
            store_root=self.store.root,
            progress=self.progress,
            guards=derive_guards(profile, contents.gold),
            control=Control(word, controlled),
        )


def _record(given: Mapping[str, Patch | None], tested: Mapping[str, Tested], *, alone: bool, kind: str) -> RunRecord:
    """Return what judging itself knows of a run: mode, targets, and which of them the patches change."""
    from packager.evaluate.run_record import Change, RunRecord  # noqa: PLC0415 - not before the tests have run

    changes: dict[str, Change] = {}
    for name, patch in given.items():
        if patch is not None:
            refused = tested[name].run.end is End.PATCH_REFUSED
            changes[name] = "refused" if refused else "edited" if patch.data.strip() else "untouched"
    return RunRecord("independent" if alone else "joint", tuple(given), kind=kind, changes=changes)


def _kind(layers: Sequence[Path]) -> str:
    """Return whether the task is a bugfix or a feature, as its image says; nothing if it does not."""
    from packager.evaluate.run_record import KINDS  # noqa: PLC0415 - not before the tests have run

    for layer in reversed(layers):
        with DirectoryTree(layer) as files:
            if files.look(TASK_PATH) is Kind.FILE:
                task = parse_json(files.read(TASK_PATH), where=TASK_PATH.decode())
                kind = task.get("kind") if isinstance(task, dict) else None
                return kind if kind in KINDS else ""
    return ""


def _expected(contents: SealContents, names: list[str]) -> dict[str, ExpectedCases]:
    if contents.expected is None or set(contents.expected) != set(names):
        raise InputError(
            "this image was never validated: it does not say which tests count",
            where=contents.task,
            hint="its authors must run wideswe-pack validate and build again",
        )
    return {name: parse_expected(lists, where=f"seal: {name}") for name, lists in contents.expected.items()}


def _refuse_strangers(patches: Mapping[str, Patch | None], names: list[str], task: str) -> None:
    unknown = sorted(set(patches) - set(names))
    if unknown:
        hint = f"targets of this task: {', '.join(names)}"
        raise InputError(f"a patch for {', '.join(unknown)}, which is no target", where=task, hint=hint)
