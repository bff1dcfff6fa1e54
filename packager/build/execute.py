"""Runs a Dockerfile's instructions as derivations: one key per instruction, one canonical layer per result.

A derivation's key is the digest of everything that can change its result and never names the engine. Results are kept
in the store, so an instruction whose key is known does no work, and an equal layer makes what follows equal too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from packager.base.canonical import format_canonical
from packager.base.digests import Digest, hex_of
from packager.base.errors import InputError, IntegrityError, PackError, WorldError
from packager.base.files import NO_SPACE_HINT, free_bytes
from packager.base.log import Log
from packager.base.progress import Event, Progress, silent
from packager.build.checklist import CHECKLIST
from packager.build.results import format_layer, parse_layer
from packager.build.trace import Traced, Tracer, untraced
from packager.oci.entries import CANONICALISER_ID, Kind
from packager.oci.layer import COMPRESSOR_ID, Layer, open_layer, unpack_layer, write_layer
from packager.oci.tree import diff_trees, scan_tree
from packager.sandbox.engine import Command, Streams
from packager.sandbox.foreign import refuse_foreign
from packager.sandbox.identity import SANDBOX_ID
from packager.store.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.build.dockerfile import Instruction
    from packager.oci.entries import Entry
    from packager.sandbox.engine import Ended, Engine, Tree
    from packager.sandbox.fetches import FetchSource
    from packager.store.store import Store

_STEP_TIMEOUT_S = 7200.0
_NO_SPACE = os.strerror(errno.ENOSPC)
_ROOM_BYTES = 4 << 20
"""A step that fails while less than this is left has not failed for its own sake."""
_REFUSED_SHOWN = 10
_OFFLINE = re.compile(
    "not in the lock|only GET and HEAD|resolve host|name resolution|name or service not known|unreachable|ENOTFOUND",
    re.IGNORECASE,
)
_HIDDEN_FETCH = f"checklist {CHECKLIST['I']}"


@dataclass(frozen=True)
class Input:
    """One file under `inputs/`: what it is (part of the key), and how its entries are made, given a scratch folder."""

    spec: Mapping[str, Any]
    entries: Callable[[Path], Iterable[Entry]]


@dataclass(frozen=True)
class Fetches:
    """The fetches of one step: their digest (part of the key), what answers them, and what it could not answer."""

    digest: str
    source: FetchSource
    refused: Callable[[], tuple[str, ...]] = tuple


@dataclass(frozen=True)
class Kept:
    """The result of a derivation that ran before: its layer, or None if it changed nothing."""

    layer: Layer | None


class WouldWorkError(Exception):
    """A dry build came to a derivation whose result is not known."""

    def __init__(self, key: Digest) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True)
class Stage:
    """A stack of layers, lowest first, and what the image's config says about running it."""

    layers: tuple[Layer, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    workdir: str = "/"
    command: tuple[str, ...] = ()

    def with_layer(self, layer: Layer | None) -> Stage:
        """Return the stage with one more layer; a step that changed nothing adds none."""
        return self if layer is None else replace(self, layers=(*self.layers, layer))


@dataclass(frozen=True)
class Builder:
    """What a build works with; the steps named in `fresh` really run, since their fetches are being recorded.

    Commands on the lines of `again` run although they are known: `trace` is told what that gave, and the build goes on
    with what is known. `trace` is told of every instruction that gives a layer; with `dry`, a step that would have to
    work raises WouldWorkError instead.
    """

    store: Store
    engine: Engine
    inputs: Mapping[str, Input]
    fetches: Mapping[str, Fetches] = field(default_factory=dict)
    images: Callable[[str], Stage] | None = None
    platform: str = "linux/amd64"
    progress: Progress = silent
    fresh: frozenset[str] = frozenset()
    again: frozenset[int] = frozenset()
    trace: Tracer = untraced
    dry: bool = False

    def build(self, instructions: Sequence[Instruction]) -> Stage:
        """Run all instructions and return the last stage."""
        stages: dict[str, Stage] = {}
        stage = Stage()
        name = ""
        for number, instruction in enumerate(instructions, 1):
            text = f"{instruction.kind} {instruction.arguments}"
            self.progress(Event("build", number, len(instructions), "steps", text[:100]))
            if instruction.kind == "FROM":
                stages[name] = stage
                image, _, name = instruction.arguments.partition(" AS ")
                stage = self._start(image.strip(), stages)
                name = name.strip() or "final"
                continue
            stage = self._step(stage, instruction, stages)
        return stage

    def tree(self, layer: Layer) -> Path:
        """Return the unpacked form of a layer, ready to be stacked."""

        def fill(target: Path) -> None:
            try:
                with open_layer(self.store, layer) as stream:
                    unpack_layer(stream, target, overlay_whiteouts=True)
            except IntegrityError:
                self.store.quarantine(
                    layer.digest
                )  # also where the result lies about it: the next build makes both anew
                raise

        return self.store.tree(hex_of(layer.diff_id), fill)

    def placed(self, name: str) -> Layer:
        """Return the layer that an input gives, the same whatever lies below it."""
        return self._placed(name)[1]

    def _placed(self, name: str) -> tuple[Digest, Layer]:
        given = self.inputs[name]

        def work() -> Layer:
            with scratch_folder(self.store.root) as scratch:
                return write_layer(given.entries(scratch), self.store)

        key, layer = self._once(self._key("add", input=dict(given.spec)), work)
        if layer is None:
            raise InputError("an input without any entry", where=name)
        return key, layer

    def _start(self, image: str, stages: Mapping[str, Stage]) -> Stage:
        if image == "scratch":
            return Stage()
        if image in stages:
            return stages[image]
        if self.images is None:
            raise InputError(f"base image {image!r} is not in the lock", where="Dockerfile", hint="wideswe-pack lock")
        return self.images(image)

    def _step(self, stage: Stage, instruction: Instruction, stages: Mapping[str, Stage]) -> Stage:
        match instruction.kind:
            case "ADD" | "COPY" | "RUN":
                key, layer = self._layer(stage, instruction, stages)
                repeat = instruction.kind == "RUN" and instruction.line in self.again
                seen = self._execute(stage, instruction) if repeat else layer
                self.trace(Traced(instruction, key, seen))
                return stage.with_layer(layer)
            case "ENV":
                return replace(stage, env=tuple(sorted({**dict(stage.env), **dict(instruction.pairs)}.items())))
            case "LABEL":
                return replace(stage, labels=tuple(sorted({**dict(stage.labels), **dict(instruction.pairs)}.items())))
            case "WORKDIR":
                return replace(stage, workdir=instruction.arguments)
            case "ENTRYPOINT":
                return self._without_entrypoint(stage, instruction)
            case _:
                return replace(stage, command=instruction.argv)

    def _without_entrypoint(self, stage: Stage, instruction: Instruction) -> Stage:
        if instruction.argv:
            raise InputError("only ENTRYPOINT [] is supported", where=f"Dockerfile:{instruction.line}")
        return stage

    def _layer(
        self, stage: Stage, instruction: Instruction, stages: Mapping[str, Stage]
    ) -> tuple[Digest, Layer | None]:
        if instruction.kind == "ADD":
            return self._add(instruction)
        if instruction.kind == "COPY":
            return self._copy(stage, instruction, stages)
        return self._run(stage, instruction)

    def _add(self, instruction: Instruction) -> tuple[Digest, Layer]:
        source, target = instruction.words
        given = self.inputs.get(source)
        if given is None or target != "/":
            raise InputError(
                f"ADD takes one of {sorted(self.inputs)} and /, found {instruction.arguments!r}",
                where=f"Dockerfile:{instruction.line}",
            )
        return self._placed(source)

    def _copy(self, stage: Stage, instruction: Instruction, stages: Mapping[str, Stage]) -> tuple[Digest, Layer | None]:
        option, *paths = instruction.words
        other = stages.get(option.removeprefix("--from="))
        if other is None or paths != ["/", "/"]:
            raise InputError("only COPY --from=STAGE / / is supported", where=f"Dockerfile:{instruction.line}")
        source = [layer.diff_id for layer in other.layers]
        if not stage.layers:
            return self._once(self._key("copy", source=source), lambda: self._copy_all(other))
        lower = [layer.diff_id for layer in stage.layers]
        return self._once(self._key("copy", source=source, lower=lower), lambda: self._copy_changed(stage, other))

    def _copy_all(self, other: Stage) -> Layer:
        with self._open(other) as tree:
            return write_layer(scan_tree(tree.lower), self.store)

    def _copy_changed(self, stage: Stage, other: Stage) -> Layer | None:
        """Write only what another stage has that this one has not; COPY deletes nothing."""
        with self._open(stage) as ours, self._open(other) as theirs:
            changed = diff_trees(ours.lower, theirs.lower)
            kept = [entry for entry in changed if entry.kind is not Kind.WHITEOUT]
            return write_layer(kept, self.store) if kept else None

    def _run(self, stage: Stage, instruction: Instruction) -> tuple[Digest, Layer | None]:
        fetches = self.fetches.get(instruction.step)
        key = self._key(
            "run",
            command=instruction.arguments,
            env=dict(stage.env),
            cwd=stage.workdir,
            lower=[layer.diff_id for layer in stage.layers],
            fetches=fetches.digest if fetches is not None else "",
            sandbox=SANDBOX_ID,
        )
        if instruction.step in self.fresh:
            return key, self._execute(stage, instruction)
        return self._once(key, lambda: self._execute(stage, instruction))

    def _execute(self, stage: Stage, instruction: Instruction) -> Layer | None:
        fetches = self.fetches.get(instruction.step)
        log = Log(self.progress, instruction.step or "run")
        command = Command(
            ("/bin/sh", "-c", instruction.arguments),
            env=dict(stage.env),
            cwd=stage.workdir,
            timeout_s=_STEP_TIMEOUT_S,
        )
        refuse_foreign(self.platform)
        with self._open(stage) as tree:
            source = fetches.source if fetches is not None else None
            ended = tree.run(command, Streams(log.write, log.write), fetches=source)
            if ended.exit_code != 0:
                raise self._failure(instruction, log, ended, () if fetches is None else fetches.refused())
            changed = tree.changes()
            return write_layer(changed, self.store) if changed else None

    def _failure(self, instruction: Instruction, log: Log, ended: Ended, refused: Iterable[str]) -> PackError:
        where = f"step {instruction.step}" if instruction.step else f"Dockerfile:{instruction.line}"
        text = log.tail().decode(errors="replace").strip()
        lines = [f"exit code {ended.exit_code} from: {instruction.arguments}", *filter(None, [text])]
        told = list(dict.fromkeys(refused))[:_REFUSED_SHOWN]
        reason = "\n".join([*lines, *told])
        if _NO_SPACE in text or free_bytes(self.store.root) < _ROOM_BYTES:
            return WorldError(f"the disk is full; {reason}", where=where, hint=NO_SPACE_HINT)
        return InputError(reason, where=where, hint=_HIDDEN_FETCH if _OFFLINE.search(f"{text} {told}") else None)

    @contextlib.contextmanager
    def _open(self, stage: Stage) -> Iterator[Tree]:
        trees = [self.tree(layer) for layer in stage.layers]
        with scratch_folder(self.store.root) as scratch, self.engine.open_tree(trees, scratch=scratch) as tree:
            yield tree

    def _key(self, kind: str, **parts: object) -> Digest:
        document = {
            "kind": kind,
            "canonicaliser": CANONICALISER_ID,
            "compressor": COMPRESSOR_ID,
            "platform": self.platform,
            **parts,
        }
        return self.store.put(format_canonical(document))

    def _once(self, key: Digest, work: Callable[[], Layer | None]) -> tuple[Digest, Layer | None]:
        with self.store.lock(f"derivation-{hex_of(key)}"):
            kept = self._kept(key)
            if kept is not None:
                return key, kept.layer
            if self.dry:
                raise WouldWorkError(key)
            layer = work()
            self.store.put_result(key, format_layer(layer))
            return key, layer

    def _kept(self, key: Digest) -> Kept | None:
        """Return an earlier result; one that cannot be read, or whose layer is gone or cut off, counts as none."""
        data = self.store.result(key)
        try:
            layer = None if data is None else parse_layer(data)
        except InputError:
            return None
        if data is None or (layer is not None and not self.store.has(layer.digest, layer.size)):
            return None
        if layer is not None:
            self.store.use(layer.digest)
        return Kept(layer)
