"""How a command starts inside a container of another engine, so that it sees what identity.py promises."""

from __future__ import annotations

import contextlib
import resource
import stat
from typing import TYPE_CHECKING, NamedTuple

from packager.sandbox.identity import FIXED_FILES, HOSTNAME
from packager.sandbox.launcher import CAPABILITIES
from packager.sandbox.loopback import loopback_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packager.sandbox.engine import Command
    from packager.sandbox.fetches import Reachable

__all__ = ["HOSTNAME", "OPEN_FILES", "PROCESSES", "Guest", "capability_names", "fixed_binds", "guest_of"]

_NAMES = {
    0: "CHOWN",
    1: "DAC_OVERRIDE",
    3: "FOWNER",
    4: "FSETID",
    5: "KILL",
    6: "SETGID",
    7: "SETUID",
    8: "SETPCAP",
    10: "NET_BIND_SERVICE",
    13: "NET_RAW",
    18: "SYS_CHROOT",
    29: "AUDIT_WRITE",
    31: "SETFCAP",
}
_FOREIGN = ("HOME", "HOSTNAME", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM", "_", "container")
"""What engines and shells add to an environment."""

_MOST_OPEN_FILES = 16_384
_HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
OPEN_FILES = _MOST_OPEN_FILES if resource.RLIM_INFINITY == _HARD else min(_HARD, _MOST_OPEN_FILES)
PROCESSES = resource.getrlimit(resource.RLIMIT_NPROC)[1]
"""As many as this process may have; how many a command may is the matter of its control group."""

_START = """\
umask 022
cd -- "$1" 2>/dev/null || {{ echo "wideswe-pack: cannot enter $1: No such file or directory" >&2; exit 127; }}
shift
unset {foreign}
"$@"
code=$?
kill -9 -1 2>/dev/null
exit $code
"""
"""The shell's own `kill` spares itself and process 1: what the command left running ends with it."""


class Guest(NamedTuple):
    """A command as an engine starts it: a shell that prepares what engines do differently, and the environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


def guest_of(command: Command, fetches: Reachable | None) -> Guest:
    """Return what to start for a command; the variables of `fetches` win over the command's own, as elsewhere."""
    env = dict(command.env)
    if fetches is not None:
        env |= loopback_environment(fetches)
    script = _START.format(foreign=" ".join(name for name in _FOREIGN if name not in env))
    return Guest(("/bin/sh", "-c", script, "sh", command.cwd, *command.argv), env)


def capability_names() -> list[str]:
    """Return what root keeps, by name, without CAP_."""
    return [_NAMES[number] for number in CAPABILITIES]


def fixed_binds(folder: Path, layers: Sequence[Path], trusted: Mapping[Path, str]) -> list[tuple[str, str]]:
    """Return (file here, path inside) of what is laid over the stack's own regular files; `folder` holds them.

    `trusted` is what a proxy has written for clients to trust.
    """
    binds = []
    for number, (target, text) in enumerate(sorted(FIXED_FILES.items())):
        source = folder / f"f{number}"
        if not source.exists():
            source.write_text(text)
            source.chmod(0o644)
        if stat.S_ISREG(_mode_in(layers, target)):
            binds.append((str(source), f"/{target}"))
    return [*binds, *((str(path), place) for path, place in trusted.items())]


def _mode_in(layers: Sequence[Path], target: str) -> int:
    """Return the mode of a file in a stack, 0 if there is none: the highest layer that has the path decides."""
    for layer in reversed(layers):
        with contextlib.suppress(OSError):
            return (layer / target).lstat().st_mode
    return 0
