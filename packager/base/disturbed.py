"""Another clock and another order of directories for this whole process, to prove that neither shows in an image."""

from __future__ import annotations

import datetime as dt
import os
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator


_REAL = dt.datetime
_TYPE: Any = type(dt.datetime)
_DATETIME: Any = dt.datetime


def shift_clock(seconds: int) -> None:
    """Let `time` and `datetime` be ahead from now on; files, other programs and clocks that only measure are not."""
    real_time, real_time_ns = time.time, time.time_ns
    delta = dt.timedelta(seconds=seconds)

    class Kind(_TYPE):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:  # noqa: N805 - the class of a class
            return isinstance(value, _REAL)  # also one made before, or by C code

    class Ahead(_DATETIME, metaclass=Kind):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:  # noqa: ANN401 - an Ahead
            moment = _REAL.now(tz) + delta
            return cls.combine(moment.date(), moment.timetz())

        @classmethod
        def today(cls) -> Any:  # noqa: ANN401
            return cls.now()

    time.time = lambda: real_time() + seconds
    time.time_ns = lambda: real_time_ns() + seconds * 10**9
    dt.datetime = Ahead  # type: ignore[misc]


def shuffle_listings(chance: random.Random) -> None:
    """Let os.listdir and os.scandir give another order each time."""
    real_listdir, real_scandir = os.listdir, os.scandir

    def listdir(*given: Any) -> list[Any]:  # noqa: ANN401 - texts, bytes or descriptors
        names = list(real_listdir(*given))
        chance.shuffle(names)
        return names

    def scandir(*given: Any) -> _Listing:  # noqa: ANN401
        with real_scandir(*given) as entries:
            found = list(entries)
        chance.shuffle(found)
        return _Listing(found)

    os.listdir = listdir  # type: ignore[assignment]
    os.scandir = scandir  # type: ignore[assignment]


class _Listing:
    """What os.scandir returns: an iterator that can be closed."""

    def __init__(self, entries: list[os.DirEntry[Any]]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self._entries

    def __next__(self) -> os.DirEntry[Any]:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""
