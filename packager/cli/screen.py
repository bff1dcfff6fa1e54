"""What a person sees: progress on standard error, results on standard output."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.progress import Event, Progress
    from packager.cli.place import Options

_PLAIN_INTERVAL_S = 5.0
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@contextlib.contextmanager
def progress_on_screen(options: Options) -> Iterator[Progress]:
    """Give a progress that draws bars on a terminal and writes a line now and then elsewhere."""
    if options.quiet:
        yield lambda _event: None
    elif sys.stderr.isatty():
        with _Bars() as bars:
            yield bars
    else:
        yield _Lines()


class _Lines:
    """For logs: a line when a piece of work begins or ends, and one every few seconds between."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        with self._lock:
            known = self._last.get(event.task)
            if known is not None and now - known < _PLAIN_INTERVAL_S and not event.finished:
                return
            self._last[event.task] = now
        count = f" {event.done}/{event.total} {event.unit}" if event.total else ""
        sys.stderr.write(printable(f"{event.task}{count} {event.message}".rstrip()) + "\n")


class _Bars:
    """For terminals: one bar per piece of work, drawn by rich when the first event comes."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._tasks: dict[str, Any] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, event: Event) -> None:
        with self._lock:
            if self._progress is None:
                self._progress = self._start()
            if event.task not in self._tasks:
                self._tasks[event.task] = self._progress.add_task(event.task, total=None, message="")
            task = self._tasks[event.task]
            self._progress.update(
                task, completed=event.done, total=event.total or None, message=printable(event.message[:80])
            )
            if event.finished:
                self._progress.remove_task(self._tasks.pop(event.task))

    def _start(self) -> Any:  # noqa: ANN401 - rich is imported only here
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[message]}", markup=False),
        )
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        progress.start()
        return progress


def show(options: Options, value: object, text: str) -> None:
    """Print a result: `text` for people, or `value` as one line of JSON."""
    click.echo(json.dumps(plain(value), sort_keys=True, ensure_ascii=True) if options.as_json else printable(text))


def printable(text: str) -> str:
    """Return text without what a terminal would obey: patches, reports and images may hold anything."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def plain(value: object) -> object:
    """Return dataclasses, tuples, paths, enums and mappings of any kind as JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under a head, in columns as wide as they need to be."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
