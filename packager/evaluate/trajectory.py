"""What an agent wrote and said on its way, from the JSON lines that it left: which files, and its own words.

Read are Codex CLI's `exec --json`, Claude Code's `--output-format stream-json`, and, for any other agent, lines such as
{"type": "said", "text": "…"}, {"type": "edited", "path": "…"} and {"type": "requests", "count": 3}. What tools print is
not the agent's word and is not read, nor is the prompt. What a shell command writes is not seen. Lines of any other
shape say nothing. Requests to the model are counted where an agent tells them apart: Claude Code numbers its answers.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LINE_BYTES = 8 << 20
_MOST_BYTES = 1 << 30
_MOST_WORDS = 4 << 20
_MOST_REQUESTS = 1 << 53
_ROOT = "/workspace/"
_EDITORS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})


@dataclass(frozen=True)
class Trajectory:
    """Paths that were written, and what the agent said, both in their order; how often it asked, if it tells."""

    edited: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    requests: int | None = None

    def repositories(self) -> frozenset[str]:
        """Return the repositories that something was written to, by the first folder of a path below /workspace."""
        return frozenset(path.removeprefix(_ROOT).partition("/")[0] for path in self.edited if _is_below(path))


def _is_below(path: str) -> bool:
    return "/" in path.removeprefix(_ROOT) and (path.startswith(_ROOT) or not path.startswith("/"))


def read_trajectory(path: Path) -> Trajectory:
    """Read a file of JSON lines; one that cannot be read at all, or is no file, is an InputError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError("expected a file, found something else", where=str(path))
            return parse_trajectory(iter(lambda: stream.readline(_LINE_BYTES), b""))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error


def parse_trajectory(lines: Iterable[bytes]) -> Trajectory:
    """Return what lines say; beyond a gibibyte they are not read, and of words the first four million characters."""
    edited: dict[str, None] = {}
    said: list[str] = []
    answers: set[str] = set()
    stated: int | None = None
    read = words = 0
    for line in lines:
        read += len(line)
        if read > _MOST_BYTES:
            break
        value = _value(line)
        stated = _count(value) or stated
        for kind, text in _notes(value):
            if kind == "edited":
                edited[text] = None
            elif kind == "answer":
                answers.add(text)
            elif words < _MOST_WORDS:
                words += len(text)
                said.append(text)
    return Trajectory(tuple(edited), tuple(said), stated or len(answers) or None)


def _count(value: Any) -> int | None:  # noqa: ANN401 - anything that JSON can say
    found = _of(value, "count") if _of(value, "type") == "requests" else None
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found <= _MOST_REQUESTS else None


def _value(line: bytes) -> Any:  # noqa: ANN401 - anything that JSON can say
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _notes(value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - anything that JSON can say
    """Yield what one line says: ("edited", path), ("said", words) or ("answer", number)."""
    kind, item, message = _of(value, "type"), _of(value, "item"), _of(value, "message")
    if kind == "said":
        yield from _said(_of(value, "text"))
    elif kind == "edited":
        yield from _wrote(_of(value, "path"))
    elif kind == "result":
        yield from _said(_of(value, "result"))
    elif kind == "assistant":
        if isinstance(number := _of(message, "id"), str):
            yield "answer", number
        for part in _list(_of(message, "content")):
            yield from _claude(part)
    elif kind == "item.completed":
        yield from _codex(item)


def _claude(part: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - anything that JSON can say
    yield from _said(_of(part, "text"))
    yield from _said(_of(part, "thinking"))
    given = _of(part, "input")
    for todo in _list(_of(given, "todos")):
        yield from _said(_of(todo, "content"))
    if _of(part, "type") == "tool_use" and _of(part, "name") in _EDITORS:
        yield from _wrote(_of(given, "file_path"))
        yield from _wrote(_of(given, "notebook_path"))


def _codex(item: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - anything that JSON can say
    if _of(item, "type") in ("agent_message", "reasoning"):
        yield from _said(_of(item, "text"))
    for todo in _list(_of(item, "items")):
        yield from _said(_of(todo, "text"))
    if _of(item, "type") == "file_change":
        for change in _list(_of(item, "changes")):
            yield from _wrote(_of(change, "path"))


def _of(value: Any, key: str) -> Any:  # noqa: ANN401 - anything that JSON can say
    return value.get(key) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - anything that JSON can say
    return value if isinstance(value, list) else []


def _said(text: object) -> Iterator[tuple[str, str]]:
    if isinstance(text, str) and text.strip():
        yield "said", text


def _wrote(path: object) -> Iterator[tuple[str, str]]:
    if isinstance(path, str) and path:
        yield "edited", path
