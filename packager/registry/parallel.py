"""Several transfers at once: the first fault stops them all, and their bytes add up to one progress line."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.base.progress import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packager.base.progress import Progress

_STEP_BYTES = 4 << 20


class StoppedError(WorldError):
    """A transfer ended because another one failed, or because the program was interrupted."""


class Tally:
    """Counts the bytes of many transfers; a transfer that reports after `stop` is ended. Thread-safe."""

    def __init__(self, progress: Progress, task: str, *, total: int) -> None:
        self._progress = progress
        self._task = task
        self._total = total
        self._lock = threading.Lock()
        self._done = 0
        self._said = 0
        self._stop = threading.Event()

    def add(self, count: int) -> None:
        """Count bytes that came or went (negative: they must come again)."""
        if self._stop.is_set():
            raise StoppedError("stopped", where=self._task)
        with self._lock:
            self._done += count
            if abs(self._done - self._said) < _STEP_BYTES:
                return
            self._said = self._done
            event = Event(self._task, self._done, self._total, "bytes")
        self._progress(event)

    def say(self, message: str) -> None:
        """Tell people something that is not a number."""
        self._progress(Event(self._task, self._done, self._total, "bytes", message))

    def finish(self, message: str) -> None:
        """Say that all is done."""
        self._progress(Event(self._task, self._done, self._total, "bytes", message, finished=True))

    def stop(self) -> None:
        """End all transfers at their next block."""
        self._stop.set()


class Meter:
    """Counts one transfer's bytes by its position, which may go back; used by one thread at a time."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._position = 0

    def reach(self, position: int) -> None:
        """Report where the transfer is now; StoppedError if it is to end."""
        before, self._position = self._position, position
        self._tally.add(position - before)


def run_all(jobs: Sequence[Callable[[], object]], tally: Tally, *, workers: int) -> None:
    """Run jobs on threads; when one fails, end the others and raise its error."""
    with ThreadPoolExecutor(max_workers=max(1, workers), thread_name_prefix="registry") as pool:
        try:
            futures = [pool.submit(job) for job in jobs]
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not all(future.done() and not future.cancelled() and future.exception() is None for future in futures):
                tally.stop()
            pool.shutdown(wait=True, cancel_futures=True)
    errors = [error for future in futures if not future.cancelled() and (error := future.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, StoppedError)):
        raise error
