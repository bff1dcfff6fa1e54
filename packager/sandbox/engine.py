"""The door to whatever runs commands over a stack of layers: values in and out, and the protocol of engines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from packager.oci.entries import Entry
    from packager.sandbox.fetches import Reachable


@dataclass(frozen=True)
class Limits:
    """What one command may use; 0 means no limit."""

    cpus: int = 2
    memory_bytes: int = 4 << 30
    pids: int = 4096
    disk_bytes: int = 0
    """What a command may have on the disk of all that was written in its tree; the native engine looks now and then."""


@dataclass(frozen=True)
class Bind:
    """A directory or file of the host that the command sees at `target` (absolute), read-only unless said otherwise."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Command:
    """One command: its arguments, the whole of its environment, and where and as whom it runs."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    uid: int = 0
    gid: int = 0
    timeout_s: float = 3600.0
    limits: Limits = field(default_factory=Limits)
    binds: tuple[Bind, ...] = ()


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code (128 + signal when killed), and which limit ended it, if one did."""

    exit_code: int
    seconds: float
    timed_out: bool = False
    out_of_memory: bool = False
    out_of_disk: bool = False


@dataclass(frozen=True)
class Streams:
    """Where output goes, in blocks as it comes; called from one thread at a time. None drops it."""

    stdout: Callable[[bytes], None] | None = None
    stderr: Callable[[bytes], None] | None = None


class Tree(Protocol):
    """A writable file system over read-only layers; gone when its context ends."""

    @property
    def root(self) -> Path:
        """The merged view, mounted in this process's mount namespace."""

    @property
    def lower(self) -> Path:
        """The read-only merged view of the layers alone (what was there before)."""

    @property
    def upper(self) -> Path:
        """What was written, in overlayfs form (whiteouts: character devices 0:0; opaque directories: an xattr)."""

    def changes(self) -> list[Entry]:
        """Return what a layer over `lower` must hold so that it becomes `root`, in canonical order."""

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        """Run a command with no network but loopback; with `fetches`, proxies on loopback are answered from it."""


class Engine(Protocol):
    """Something that can run commands over layers."""

    @property
    def name(self) -> str:
        """The name that `--engine` takes; never part of a derivation's key."""

    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> AbstractContextManager[Tree]:
        """Stack unpacked layers (lowest first) under a new writable layer kept below `scratch`."""
