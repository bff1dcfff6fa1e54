"""Compares two builds of one lock, step by step; what differs is named with its place, both values and likely cause."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.build.causes import REPEATED, likely_cause
from packager.oci.compare import EntryDifference, compare_layers
from packager.oci.entries import show_path
from packager.oci.layer import open_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from packager.base.digests import DiffId
    from packager.build.trace import Step
    from packager.oci.layer import Layer
    from packager.store.store import Store

SHOWN = 20
"""Of so many differences of one step the details are given; the rest is counted."""


@dataclass(frozen=True)
class Remembered:
    """A build that is over: its steps, the store that has their layers, and the diff ids of the image."""

    steps: Sequence[Step]
    store: Store
    image: Sequence[DiffId] = ()

    def layer_number(self, layer: Layer | None) -> int:
        """Return where in the image a layer lies (0 is the lowest), or -1."""
        return -1 if layer is None or layer.diff_id not in self.image else list(self.image).index(layer.diff_id)


@dataclass(frozen=True)
class Found:
    """One difference: step, layer of the image (-1: none), path, field, both values, and the checklist's id of why."""

    step: str
    layer: int
    path: str
    field: str
    a: str
    b: str
    cause: str
    likely: str
    reacts: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"layer {self.layer}: " if self.layer >= 0 else ""
        lines = [
            f"step {self.step}: {place}{self.path or '(no path)'}: {self.field}",
            f"  a: {self.a}",
            f"  b: {self.b}",
        ]
        if self.reacts:
            lines.append(f"  varies with: {', '.join(self.reacts)}")
        return "\n".join([*lines, f"  likely cause: {self.likely}"])


@dataclass(frozen=True)
class Comparison:
    """What two builds differ in: differences, how many more there are, and steps that only follow from others."""

    found: tuple[Found, ...] = ()
    more: int = 0
    follow: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.found


@dataclass(frozen=True)
class Reactions:
    """Of each step (by line), the variations that alone change it; steps that were not tried are absent."""

    by_line: Mapping[int, Collection[str]] = field(default_factory=dict)

    def of(self, step: Step) -> tuple[str, ...]:
        """Return the variations that change a step."""
        return tuple(self.by_line.get(step.line, ()))

    def follows(self, step: Step) -> bool:
        """Tell whether a step was tried over the same layers as before, and then gave the same as before."""
        return step.line in self.by_line and not self.by_line[step.line]


TOGETHER = "several together"
"""Stands for all variations at once, where none of them alone makes a step differ."""


def find_reactions(
    lines: Collection[int],
    trials: Sequence[str],
    differing: Callable[[str, Sequence[int]], Collection[int]],
) -> Reactions:
    """Find out which variations (`trials`) change which steps, given by their lines.

    `differing` runs some steps over the layers that they had, under one variation (REPEATED: none; TOGETHER: all), and
    returns those that give something else. What differs when nothing is varied is not tried further.
    """
    found: dict[int, list[str]] = {line: [] for line in lines}
    for name in (REPEATED, *trials, TOGETHER):
        left = [line for line, names in found.items() if REPEATED not in names and (name != TOGETHER or not names)]
        if left:
            for line in differing(name, left):
                found[line].append(name)
    return Reactions(found)


def differing_steps(one: Remembered, other: Remembered) -> tuple[Step, ...]:
    """Return the first build's steps whose layers the other has not; a copy of stages that differ is none of them."""
    pairs = zip(one.steps, other.steps, strict=True)
    changed = [ours for ours, theirs in pairs if _diff_id(ours.layer) != _diff_id(theirs.layer)]
    return tuple(step for step in changed if step.key.get("kind") != "copy") or tuple(changed)


def compare_builds(one: Remembered, other: Remembered, reactions: Reactions) -> Comparison:
    """Return every difference of two builds of one lock."""
    found: list[Found] = []
    follow: list[str] = []
    more = 0
    theirs = {step.line: step for step in other.steps}
    for step in differing_steps(one, other):
        if reactions.follows(step):
            follow.append(step.label)
            continue
        reacts = reactions.of(step)
        rows = layer_differences((one.store, step.layer), (other.store, theirs[step.line].layer))
        more += max(0, len(rows) - SHOWN)
        number = max(one.layer_number(step.layer), other.layer_number(theirs[step.line].layer))
        found.extend(_found(step, number, row, reacts) for row in rows[:SHOWN])
    return Comparison(tuple(found), more, tuple(follow))


def layer_differences(
    one: tuple[Store, Layer | None], other: tuple[Store, Layer | None]
) -> tuple[EntryDifference, ...]:
    """Return the differences of two layers, either of which may be none."""
    ours, theirs = one[1], other[1]
    if ours is not None and theirs is not None:
        return compare_layers(lambda: open_layer(one[0], ours), lambda: open_layer(other[0], theirs))
    texts = ["none" if layer is None else f"{layer.diff_size} bytes, {layer.diff_id}" for layer in (ours, theirs)]
    return (EntryDifference(b"", "layer", texts[0], texts[1]),)


def _diff_id(layer: Layer | None) -> str:
    return "" if layer is None else layer.diff_id


def _found(step: Step, number: int, row: EntryDifference, reacts: tuple[str, ...]) -> Found:
    cause = likely_cause(row, reacts)
    path = show_path(row.path) if row.path else ""
    return Found(step.label, number, path, row.field, row.a, row.b, cause.id, str(cause), reacts)


def plain_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a comparison as people read it."""
    for row in comparison.found:
        yield str(row)
    if comparison.more:
        yield f"and {comparison.more} more differences in these steps"
    for label in comparison.follow:
        yield f"step {label}: differs only because what lies below it does"
