"""Paths that never enter a layer: run state, logs, caches and what engines leave behind (they differ by machine)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Dropped:
    """Rules over paths: directories that stay but lose what is in them, single paths, and name endings by directory."""

    contents: frozenset[bytes] = frozenset()
    paths: frozenset[bytes] = frozenset()
    endings: dict[bytes, bytes] = field(default_factory=dict, hash=False)

    def inside(self, path: bytes) -> bool:
        """Say whether everything in the directory `path` is dropped."""
        return path in self.contents

    def names(self, path: bytes, parent: bytes) -> bool:
        """Say whether `path`, which lies directly in `parent`, is dropped."""
        if path in self.paths:
            return True
        ending = self.endings.get(parent)
        return ending is not None and path.endswith(ending)


NOTHING_DROPPED = Dropped()

DROPPED = Dropped(
    contents=frozenset(
        (
            b"tmp",
            b"var/tmp",
            b"run",
            b"dev",
            b"proc",
            b"sys",
            b"var/log",
            b"var/cache/apt",
            b"var/lib/apt/lists",
        )
    ),
    paths=frozenset(
        (
            b".dockerenv",
            b"etc/hostname",
            b"etc/hosts",
            b"etc/resolv.conf",
            b"etc/mtab",
            b"etc/passwd-",
            b"etc/group-",
            b"etc/shadow-",
            b"etc/gshadow-",
            b"etc/subuid-",
            b"etc/subgid-",
            b"etc/.pwd.lock",
            b"var/cache/ldconfig/aux-cache",
            b"var/lib/dpkg/lock",
            b"var/lib/dpkg/lock-frontend",
            b"var/lib/dpkg/triggers/Lock",
        )
    ),
    endings={b"var/lib/dpkg": b"-old", b"var/cache/debconf": b"-old"},
)
"""reference/engines.md 2.2; all engines agree on a tree once these are left out."""
