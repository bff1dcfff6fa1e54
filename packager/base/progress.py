"""What long work says about itself; only `cli/` draws it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Event:
    """One piece of news.

    `task` names the work; `done` and `total` count in `unit` (total 0: unknown); `message` is for people.
    """

    task: str
    done: int = 0
    total: int = 0
    unit: str = ""
    message: str = ""
    finished: bool = False


class Progress(Protocol):
    """Takes news; must return quickly, must not raise and may be called from any thread."""

    def __call__(self, event: Event, /) -> None:
        """Take one piece of news."""


def silent(_event: Event, /) -> None:
    """Say nothing."""


class Overall:
    """Passes on the news of several pieces of work that count in one unit, and adds one line for all together."""

    def __init__(self, progress: Progress, task: str, count: int) -> None:
        self._progress = progress
        self._task = task
        self._count = count
        self._lock = threading.Lock()
        self._seen: dict[str, Event] = {}

    @classmethod
    def over(cls, progress: Progress, task: str, count: int) -> Progress:
        """Return a progress for `count` pieces of work; a single one needs no line for all."""
        return cls(progress, task, count) if count > 1 else progress

    def __call__(self, event: Event, /) -> None:
        """Take one piece of news."""
        with self._lock:
            self._seen[event.task] = event
            seen = list(self._seen.values())
        finished = sum(one.finished for one in seen)
        done, total = sum(one.done for one in seen), sum(one.total for one in seen)
        message = f"{finished} of {self._count}"
        self._progress(event)
        self._progress(Event(self._task, done, total, event.unit, message, finished=finished == self._count))
