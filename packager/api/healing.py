"""Does work again after a damaged blob was set aside: what can be made or fetched anew is no reason to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from packager.base.errors import PackError
from packager.base.progress import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.base.progress import Progress
    from packager.store.store import Store

_Made = TypeVar("_Made")

_ROUNDS = 50
"""A disk or memory that damages whatever is written would go on for ever."""


def with_healing(store: Store, work: Callable[[], _Made], progress: Progress) -> _Made:
    """Return what `work` gives; it is called again as long as it fails after another blob was set aside."""
    for _ in range(_ROUNDS):
        before = store.set_aside()
        try:
            return work()
        except PackError as error:
            damaged = sorted(name for name, _ in store.set_aside() - before)
            if not damaged:
                raise
            progress(Event("store", message=f"damaged, made again: {', '.join(damaged)} ({error.reason[:200]})"))
    return work()
