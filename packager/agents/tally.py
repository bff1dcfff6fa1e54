"""Counts what an agent asks of its model, and says when it has asked enough."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_OK = range(200, 300)


@dataclass(frozen=True)
class Caps:
    """What an agent may ask of its model in one run: requests, bytes both ways, seconds of silence and per answer."""

    requests: int = 200
    transfer_bytes: int = 4 << 30
    idle_s: float = 300.0
    answer_s: float = 1800.0


@dataclass(frozen=True)
class Counts:
    """What was asked: passed on, of these such as count as a request, answered whole with 2xx, refused by us.

    `statuses` counts the model's answers by their status, 0 where there was none or it broke off.
    """

    passed: int = 0
    counted: int = 0
    answered: int = 0
    refused: int = 0
    transfer_bytes: int = 0
    statuses: Mapping[int, int] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    """The first refusals, in words, each kind once."""


class Tally:
    """The numbers of one run; any thread may count."""

    _MOST_REFUSALS = 20

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._lock = threading.Lock()
        self._passed = self._counted = self._answered = self._refused = self._bytes = 0
        self._statuses: Counter[int] = Counter()
        self._refusals: dict[str, None] = {}

    def take(self, size_bytes: int, *, counts: bool) -> str:
        """Count a request, with a body so long, that is to be passed on; return why it is not, or nothing."""
        with self._lock:
            if self._passed >= self._caps.requests:
                return f"the cap of {self._caps.requests} requests is reached"
            if self._bytes + size_bytes > self._caps.transfer_bytes:
                return f"the cap of {self._caps.transfer_bytes} bytes is reached"
            self._bytes += size_bytes
            self._passed += 1
            self._counted += counts
            return ""

    def refuse(self, reason: str) -> int:
        """Count a refusal and return how many there were."""
        with self._lock:
            self._refused += 1
            if len(self._refusals) < self._MOST_REFUSALS:
                self._refusals[reason[:200]] = None
            return self._refused

    def carry(self, size_bytes: int) -> bool:
        """Count bytes that were carried; return whether more may follow."""
        with self._lock:
            self._bytes += size_bytes
            return self._bytes <= self._caps.transfer_bytes

    def end(self, status: int, *, whole: bool) -> None:
        """Count how a request that was passed on ended."""
        with self._lock:
            self._statuses[status if whole else 0] += 1
            self._answered += whole and status in _OK

    def counts(self) -> Counts:
        """Return the numbers as they are now."""
        with self._lock:
            numbers = (self._passed, self._counted, self._answered, self._refused, self._bytes)
            return Counts(*numbers, dict(sorted(self._statuses.items())), tuple(self._refusals))
