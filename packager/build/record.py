"""Records what a task's dependency steps fetch, twice from empty, and proves by an offline run that it is enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base.canonical import format_canonical
from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.base.progress import Event
from packager.build.causes import REPEATED, likely_cause
from packager.build.execute import Builder, Fetches
from packager.build.reproduce import layer_differences
from packager.lock.crosscheck import cross_check
from packager.lock.ecosystems.known import PAGES_STAY, UNLISTED
from packager.lock.recorder import compare_recordings
from packager.lock.replay import Replay
from packager.oci.entries import show_path
from packager.sandbox.foreign import refuse_foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from packager.build.dockerfile import Instruction
    from packager.lock.model import AbsentFetch, LockedFetch
    from packager.lock.recorder import Recorder
    from packager.lock.sources import Source
    from packager.oci.layer import Layer
    from packager.store.store import Store

_SHOWN = 5


@dataclass(frozen=True)
class Recording:
    """What the steps fetched, what they asked for in vain, and where those things are that no registry lists."""

    fetches: tuple[LockedFetch, ...] = ()
    absent: tuple[AbsentFetch, ...] = ()
    sources: tuple[Source, ...] = ()


def dependency_steps(instructions: Iterable[Instruction]) -> frozenset[str]:
    """Return the names of the steps that may use the network while a lock is made."""
    return frozenset(found.step for found in instructions if found.step.endswith("/dependencies"))


def replay_fetches(
    store: Store, steps: Iterable[str], fetches: Sequence[LockedFetch], absent: Sequence[AbsentFetch]
) -> dict[str, Fetches]:
    """Return, by step, the source that answers from the lock alone; the digest covers every row of the step."""
    found: dict[str, Fetches] = {}
    for step in sorted(steps):
        here = tuple(row for row in fetches if row.step == step)
        missing = tuple(row for row in absent if row.step == step)
        beside = tuple(row for row in fetches if row.step != step and row.blob.alias in PAGES_STAY)
        parts = {"fetches": _facts(here), "absent": [[row.alias, row.key] for row in missing]}
        parts |= {"beside": _facts(beside)} if beside else {}
        replay = Replay(store, here, missing, beside=beside)
        found[step] = _replayed(digest_of(format_canonical(parts)), replay)
    return found


def _facts(rows: Iterable[LockedFetch]) -> list[list[str]]:
    return [[row.blob.alias, row.blob.key, row.blob.digest, row.media_type] for row in rows]


def _replayed(digest: str, replay: Replay) -> Fetches:
    return Fetches(digest, replay, lambda: tuple(f"not in the lock: {one}" for one in replay.unknown()))


def _recorded(recorder: Recorder) -> Fetches:
    return Fetches("recording", recorder, lambda: tuple(f"not fetched: {one}" for one in recorder.failures()))


def vouch(recording: Recording, files: Mapping[str, Mapping[str, bytes]], store: Store) -> Recording:
    """Return the recording with origin `lock` where a lock file that the step reads vouches for a fetch.

    `files` has, by step, the project's files by path; a hash in them that a fetch does not have is an InputError.
    """
    steps = sorted({row.step for row in recording.fetches})
    checked = [
        cross_check([row for row in recording.fetches if row.step == step], files.get(step, {}), store)
        for step in steps
    ]
    return replace(recording, fetches=tuple(row for rows in checked for row in rows))


def record_fetches(
    builder: Builder, instructions: Sequence[Instruction], new_recorder: Callable[[], Recorder]
) -> Recording:
    """Run the dependency steps twice against the network and once against the recording; all three must agree."""
    steps = dependency_steps(instructions)
    if not steps:
        return Recording()
    refuse_foreign(builder.platform)
    last = max(number for number, found in enumerate(instructions) if found.step in steps)
    part = instructions[: last + 1]
    first, layers = _record(builder, part, steps, new_recorder)
    second, again = _record(builder, part, steps, new_recorder)
    for step in sorted(steps):
        ours, theirs = ([row for row in one.fetches if row.step == step] for one in (first, second))
        compare_recordings(ours, theirs, where=f"step {step}")
    if pages_stay := any(row.blob.alias in PAGES_STAY for row in first.fetches):
        layers = _replayed_layers(builder, part, first)
    else:
        _expect_same_layers(builder, layers, again, what="recorded twice")
    builder.progress(Event("lock", message="proving the recording by an offline run"))
    what = "replayed twice" if pages_stay else "recorded and replayed"
    _expect_same_layers(builder, layers, _replayed_layers(builder, part, first), what=what)
    return first


def _replayed_layers(builder: Builder, instructions: Sequence[Instruction], recording: Recording) -> tuple[Layer, ...]:
    steps = dependency_steps(instructions)
    fetches = replay_fetches(builder.store, steps, recording.fetches, recording.absent)
    return replace(builder, fetches=fetches, fresh=steps).build(instructions).layers


def _record(
    builder: Builder,
    instructions: Sequence[Instruction],
    steps: frozenset[str],
    new_recorder: Callable[[], Recorder],
) -> tuple[Recording, tuple[Layer, ...]]:
    recorders = {step: new_recorder() for step in sorted(steps)}
    sources = {step: _recorded(recorder) for step, recorder in recorders.items()}
    stage = replace(builder, fetches=sources, fresh=steps).build(instructions)
    fetches = tuple(row for step, recorder in recorders.items() for row in recorder.fetches(step))
    absent = tuple(row for step, recorder in recorders.items() for row in recorder.absent(step))
    where = tuple(row for recorder in recorders.values() for row in recorder.sources() if row.alias in UNLISTED)
    return Recording(fetches, absent, where), stage.layers


def _expect_same_layers(builder: Builder, ours: Sequence[Layer], theirs: Sequence[Layer], *, what: str) -> None:
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if one.diff_id == other.diff_id:
            continue
        found = layer_differences((builder.store, one), (builder.store, other))
        causes = dict.fromkeys(str(likely_cause(row, [REPEATED])) for row in found)
        shown = [f"{show_path(row.path)}: {row.field}: {row.a} and {row.b}" for row in found[:_SHOWN]]
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        raise InputError(
            "\n".join((f"layer {number} {what} differs", *shown, *more)),
            where="lock",
            hint="\n".join(list(causes)[:_SHOWN]),
        )
