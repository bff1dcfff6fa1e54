"""An engine that runs nothing: for each command that it knows, it asks prepared addresses and lays down prepared files."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packager.oci.tree import diff_trees
from packager.sandbox.engine import Ended
from packager.sandbox.fetches import Relay, Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.oci.entries import Entry
    from packager.sandbox.engine import Command, Streams
    from packager.sandbox.fetches import Reachable


@dataclass(frozen=True)
class Prepared:
    """What one command does: files that it writes, paths that it removes (root only), URLs that it asks, how it ends."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    removes: Sequence[str] = ()
    asks: Sequence[str] = ()
    says: bytes = b""
    exit_code: int = 0


class FakeEngine:
    """Knows commands by their shell text; `ran` lists what was run, in order."""

    name = "fake"

    def __init__(self, commands: Mapping[str, Prepared]) -> None:
        self.commands = dict(commands)
        self.ran: list[Command] = []

    def prepared(self, text: str) -> Prepared:
        """Return what a command does now."""
        return self.commands[text]

    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> AbstractContextManager[FakeTree]:
        """Stack copies of the layers."""
        return self._opened(layers, scratch)

    @contextlib.contextmanager
    def _opened(self, layers: Sequence[Path], scratch: Path) -> Iterator[FakeTree]:
        places = [scratch / name for name in ("lower", "root", "upper")]
        for place in places:
            place.mkdir()
        for layer in layers:
            for place in places[:2]:
                lay_over(layer, place)
        yield FakeTree(self, *places)


@dataclass(frozen=True)
class FakeTree:
    """Three folders: what was there, what is there, and what was written."""

    engine: FakeEngine
    lower: Path
    root: Path
    upper: Path

    def changes(self) -> list[Entry]:
        """Compare as the native engine does."""
        return diff_trees(self.lower, self.root, upper=self.upper)

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        """Do what was prepared for a command; KeyError if nothing was."""
        self.engine.ran.append(command)
        done = self.engine.prepared(command.argv[-1])
        for url in done.asks:
            if fetches is not None and not isinstance(fetches, Relay):
                fetches.answer(request_of(url))
        for name, data in done.files.items():
            for place in (self.upper, self.root):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(data)
        for name in done.removes:
            (self.upper / name).parent.mkdir(parents=True, exist_ok=True)
            os.mknod(self.upper / name, stat.S_IFCHR, 0)
            remove(self.root / name)
        if streams.stdout is not None and done.says:
            streams.stdout(done.says)
        return Ended(done.exit_code, 0.0)


def request_of(url: str) -> Request:
    """Return a GET request as the loopback proxy would make it."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return Request(
        "GET", parts.scheme, parts.hostname or "", port, parts.path + (f"?{parts.query}" * bool(parts.query))
    )


def lay_over(layer: Path, target: Path) -> None:
    """Copy a layer in overlayfs form over a folder."""
    for path in sorted(layer.iterdir()):
        place = target / path.name
        status = path.lstat()
        if stat.S_ISCHR(status.st_mode):
            remove(place)
        elif stat.S_ISDIR(status.st_mode):
            place.mkdir(exist_ok=True)
            lay_over(path, place)
            shutil.copystat(path, place)
        else:
            remove(place)
            shutil.copy2(path, place, follow_symlinks=False)


def remove(path: Path) -> None:
    """Remove whatever is at a path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
