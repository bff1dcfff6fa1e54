"""Compares two files line by line (Myers, "An O(ND) Difference Algorithm", 1986), with a bound on the cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MAX_EDITS = 1000
"""Files that differ by more lines are replaced from the first difference to the last; cost grows with the square."""


@dataclass(frozen=True)
class Span:
    """Lines old[old_start:old_end] against new[new_start:new_end]; equal, or one replaced by the other."""

    is_equal: bool
    old_start: int
    old_end: int
    new_start: int
    new_end: int


def compare_lines(old: Sequence[bytes], new: Sequence[bytes]) -> list[Span]:
    """Return spans that cover both files in order; equal and changed spans take turns."""
    shortest = min(len(old), len(new))
    head = next((at for at in range(shortest) if old[at] != new[at]), shortest)
    rest = shortest - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    same = [(at, at) for at in range(head)]
    same += [(head + x, head + y) for x, y in _common(old_middle, new_middle)]
    same += [(len(old) - at, len(new) - at) for at in range(tail, 0, -1)]
    return list(_spans(same, len(old), len(new)))


def _spans(same: list[tuple[int, int]], old_size: int, new_size: int) -> Iterator[Span]:
    """Turn pairs of equal lines into spans."""
    x = y = at = 0
    while at < len(same):
        to_x, to_y = same[at]
        if (x, y) != (to_x, to_y):
            yield Span(is_equal=False, old_start=x, old_end=to_x, new_start=y, new_end=to_y)
        first = at
        while at < len(same) and same[at] == (to_x + at - first, to_y + at - first):
            at += 1
        x, y = to_x + at - first, to_y + at - first
        yield Span(is_equal=True, old_start=to_x, old_end=x, new_start=to_y, new_end=y)
    if (x, y) != (old_size, new_size):
        yield Span(is_equal=False, old_start=x, old_end=old_size, new_start=y, new_end=new_size)


def _common(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the pairs of lines that a shortest edit keeps; none if that takes more than the bound."""
    if not old or not new:
        return []
    numbers: dict[bytes, int] = {}
    left = [numbers.setdefault(line, len(numbers)) for line in old]
    right = [numbers.setdefault(line, len(numbers)) for line in new]
    furthest = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(_MAX_EDITS, len(left) + len(right)) + 1):
        trail.append({k: furthest[k] for k in range(-edits - 1, edits + 2) if k in furthest})
        for k in range(-edits, edits + 1, 2):
            x = _step(furthest, k, edits)
            while x < len(left) and x - k < len(right) and left[x] == right[x - k]:
                x += 1
            furthest[k] = x
            if x >= len(left) and x - k >= len(right):
                return _walk_back(trail, len(left), len(right))
    return []


def _step(furthest: dict[int, int], k: int, edits: int) -> int:
    if k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1]):
        return furthest[k + 1]
    return furthest[k - 1] + 1


def _walk_back(trail: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(trail) - 1, -1, -1):
        furthest, k = trail[edits], x - y
        goes_down = k == -edits or (k != edits and furthest[k - 1] < furthest[k + 1])
        before_k = k + 1 if goes_down else k - 1
        before_x = furthest[before_k] if edits else 0
        before_y = before_x - before_k if edits else 0
        while x > before_x and y > before_y:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = before_x, before_y
    return pairs[::-1]
