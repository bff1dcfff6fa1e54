"""What long work says about itself; only `cli/` draws it."""

from __future__ import annotations

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
