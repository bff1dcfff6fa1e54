"""Finds the `sleep` processes that a test started, by how long they sleep."""

from __future__ import annotations

from pathlib import Path


def sleeping(seconds: str) -> list[str]:
    """Return the status line (number, name, state, parent …) of each process `sleep SECONDS` of this PID namespace."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[:2] == [b"sleep", seconds.encode()]:
                found.append(path.with_name("stat").read_text())
        except OSError:
            continue
    return found
