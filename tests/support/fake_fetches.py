"""A hand-written FetchSource: answers from a table and remembers what it was asked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from packager.base.errors import WorldError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.sandbox.fetches import Answer, Request


class FakeFetches:
    """Knows the answers of a table from URL (without port, path with query) to Answer; the rest raises."""

    def __init__(self, answers: Mapping[str, Answer], variables: Mapping[str, str] | None = None) -> None:
        self.asked: list[Request] = []
        self._answers = dict(answers)
        self._variables = dict(variables or {})
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Answer:
        """Answer from the table."""
        with self._lock:
            self.asked.append(request)
        url = f"{request.scheme}://{request.host}{request.path}"
        if url == "http://bug.invalid/":
            raise KeyError(url)
        if url not in self._answers:
            raise WorldError(f"not in the lock: {request.method} {url}")
        return self._answers[url]

    def environment(self) -> Mapping[str, str]:
        """Return the table's variables."""
        return self._variables
