"""The podman engine: `podman run` over trees that we stack ourselves, with runc and a storage of our own."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.processes import find_program
from packager.oci.tree import diff_trees
from packager.sandbox import cgroups
from packager.sandbox.contained import Runner
from packager.sandbox.guest import HOSTNAME, OPEN_FILES, PROCESSES, capability_names
from packager.sandbox.overlay import stacked
from packager.store.trees import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.oci.entries import Entry
    from packager.sandbox.contained import Setting
    from packager.sandbox.engine import Command, Ended, Streams
    from packager.sandbox.fetches import Reachable
    from packager.sandbox.overlay import Stack

_RUN_ROOT = f"wideswe-run-{Path('/proc/self/ns/pid').stat().st_ino}-"
_OWNER = re.compile(rf"{_RUN_ROOT}(\d+)-(\d+)-\d+")
_COUNTER = itertools.count()
_SEARCH = "/usr/sbin:/usr/bin:/sbin:/bin"


class PodmanEngine:
    """Runs commands by `podman run --rootfs`; `home` is a folder that lives as long as the engine."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._counter = itertools.count()
        self._run = _fresh_run_root(Path(tempfile.gettempdir()))
        (home / "containers.conf").touch()
        cgroups.sweep(cgroups.machine_parents())

    @property
    def name(self) -> str:
        """The name that `--engine` takes."""
        return "podman"

    @property
    def variables(self) -> dict[str, str]:
        """What podman itself reads: nothing of this machine's settings."""
        conf = str(self._home / "containers.conf")
        return {"PATH": _SEARCH, "HOME": str(self._home), "TMPDIR": str(self._home), "CONTAINERS_CONF": conf}

    def words(self, *words: str) -> list[str]:
        """Return a call of podman over a storage of our own."""
        places = ["--root", str(self._home / "root"), "--runroot", str(self._run)]
        places += ["--tmpdir", str(self._home / "tmp"), "--storage-driver", "overlay", "--cgroup-manager", "cgroupfs"]
        return [find_program("podman") or "podman", *places, *words]

    def close(self) -> None:
        """Remove what podman keeps of running containers."""
        remove_tree(self._run)

    @contextlib.contextmanager
    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> Iterator[PodmanTree]:
        """Stack unpacked layers (lowest first) under a new writable layer in a directory of its own."""
        directory = scratch.absolute() / f"podman-{os.getpid()}-{next(self._counter)}"
        with stacked(layers, directory) as stack:
            yield PodmanTree(self, stack, tuple(layers), directory)


class PodmanTree:
    """A mounted stack of layers that podman takes as the root of its containers."""

    def __init__(self, engine: PodmanEngine, stack: Stack, layers: tuple[Path, ...], folder: Path) -> None:
        self._engine = engine
        self.root = stack.root
        self.lower = stack.lower
        self.upper = stack.upper
        self._runner = Runner("podman", self._words, engine.variables, layers, folder)

    def changes(self) -> list[Entry]:
        """Return the entries of the layer that was written; only the upper layer is walked."""
        return diff_trees(self.lower, self.root, upper=self.upper)

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        """Run a command; with `fetches`, behind the loopback proxy."""
        return self._runner.run(command, streams, fetches=fetches)

    def _words(self, setting: Setting) -> list[str]:
        """Return the call that runs one command; what is added to another user than root would be his in effect."""
        kept = capability_names() if setting.user.startswith("0:") else []
        words = ["--runtime", find_program("runc") or "runc", "run", "--rm", "-i", "--log-driver", "none"]
        words += ["--hostname", HOSTNAME, "--no-hosts", "--network", f"ns:{setting.network}", "--cgroupns", "private"]
        words += [
            "--cgroups",
            "no-conmon",
            "--systemd",
            "false",
            "--pids-limit",
            "0",
            "--http-proxy=false",
            "--passwd=false",
        ]
        words += ["--cap-drop", "all", *(word for name in kept for word in ("--cap-add", name))]
        words += ["--ulimit", f"nofile={OPEN_FILES}:{OPEN_FILES}"]
        words += [
            "--ulimit",
            "core=0:0",
            "--ulimit",
            f"nproc={PROCESSES}:{PROCESSES}",
            "--user",
            setting.user,
            "--workdir",
            "/",
        ]
        words += ["--mount", "type=tmpfs,destination=/sys,ro"]
        for here, inside, writable in setting.binds:
            words += ["-v", f"{here}:{inside}:{'rw' if writable else 'ro'}"]
        for name, value in setting.env.items():
            words += ["--env", f"{name}={value}"]
        return self._engine.words(*words, "--rootfs", str(self.root), *setting.argv)


def _fresh_run_root(parent: Path) -> Path:
    """Make a folder whose path is short, as podman demands; those of killed commands are removed."""
    for path in parent.glob(f"{_RUN_ROOT}*"):
        match = _OWNER.fullmatch(path.name)
        if match is not None and cgroups.start_time(int(match[1])) != int(match[2]):
            remove_tree(path)
    place = parent / f"{_RUN_ROOT}{os.getpid()}-{cgroups.start_time(os.getpid())}-{next(_COUNTER)}"
    place.mkdir(mode=0o700)
    return place
