"""What the engine tells its launcher: plain values that `marshal` carries."""

from __future__ import annotations

from typing import TypedDict


class Spec(TypedDict):
    """One command and its sandbox. Descriptors are -1 where there is nothing to pass."""

    parent: int
    root: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    uid: int
    gid: int
    hostname: str
    files: list[tuple[str, str]]
    """Host file, path in the tree: laid over the tree's own regular file, if it has one."""
    binds: list[tuple[str, str, bool]]
    """Host path, absolute path in the tree, writable."""
    room: str
    """The directory in memory that is made when something is bound below it."""
    port: int
    """Where to listen in the sandbox's network; the listening socket goes out through `listener`."""
    listener: int
    status: int
    """Where the reason goes if the sandbox cannot be made; nothing is written when it can."""
    cgroups: list[str]
    """Files to write one's own process number to."""
    open_files: int
    memory: int
    """Bytes: bounds /dev/shm; 0 means no limit."""
    rlimit_memory: int
    rlimit_processes: int
    cpus: list[int]
    """What no control group limits, limited per process instead; 0 and empty mean not."""
