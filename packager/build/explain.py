"""Says why a step of a build would run again: the difference of two derivation keys."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.build.difference import flatten
from packager.oci.compare import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.build.trace import Step


_WAITS = "for an earlier step: if that gives an equal layer, nothing changes here"


@dataclass(frozen=True)
class Change:
    """One part of a key: what it was when the step last ran, and what it is."""

    field: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.field}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class Explained:
    """A step and its state: `known` (nothing is to be done), `would run`, or `waits` for one that would run."""

    step: str
    state: str
    reason: str = ""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """A step as it would be carried out now; without a key if that depends on a step that would have to run first."""

    step: Step
    known: bool


def explain_steps(before: Sequence[Step] | None, now: Sequence[Wanted]) -> tuple[Explained, ...]:
    """Return a row for each step; `before` is what the last build remembered, None if there was none."""
    makers: dict[str, str] = {step.layer.diff_id: step.label for step in before or () if step.layer is not None}
    makers |= {one.step.layer.diff_id: one.step.label for one in now if one.step.layer is not None}
    rows = []
    for number, one in enumerate(now):
        if one.known:
            rows.append(Explained(one.step.label, "known"))
        elif not one.step.key:
            rows.append(Explained(one.step.label, "waits", _WAITS))
        else:
            rows.append(_would_run(one.step, _counterpart(before, one.step, number), makers))
    return tuple(rows)


def _would_run(step: Step, old: Step | None, makers: Mapping[str, str]) -> Explained:
    if old is None:
        return Explained(step.label, "would run", "no earlier build of this step is remembered")
    changes = tuple(_changes(old.key, step.key, makers))
    if not changes:
        return Explained(step.label, "would run", "nothing changed; its result is not in the store any more")
    return Explained(step.label, "would run", "its key changed", changes)


def _counterpart(before: Sequence[Step] | None, step: Step, number: int) -> Step | None:
    """Return the step of the last build that stands for one: of the same name, the same words, or the same place."""
    if not before:
        return None
    named = [old for old in before if step.name and old.name == step.name]
    same = [old for old in before if old.instruction == step.instruction]
    placed = [before[number]] if number < len(before) and before[number].key.get("kind") == step.key["kind"] else []
    return next(iter((*named, *same, *placed)), None)


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], makers: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted(old.keys() | new.keys()):
        a, b = old.get(name), new.get(name)
        if a == b:
            continue
        if isinstance(a, list) and isinstance(b, list):
            yield from _list_changes(name, [_named(item, makers) for item in a], [_named(item, makers) for item in b])
            continue
        ours, theirs = (dict(flatten(value, name)) if value is not None else {} for value in (a, b))
        for part in sorted(ours.keys() | theirs.keys()):
            if ours.get(part) != theirs.get(part):
                yield Change(part, ours.get(part, ABSENT), theirs.get(part, ABSENT))


def _list_changes(name: str, ours: list[str], theirs: list[str]) -> Iterator[Change]:
    for kind, begin, end, start, stop in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for step in range(max(end - begin, stop - start)):
            a = ours[begin + step] if begin + step < end else ABSENT
            b = theirs[start + step] if start + step < stop else ABSENT
            yield Change(f"{name}[{begin + step}]", a, b)


def _named(item: object, makers: Mapping[str, str]) -> str:
    """Return a list's item as text; of a layer also the step that made it."""
    text = str(item)
    return f"{text} ({makers[text]})" if text in makers else text
