"""The buildah engine: trees in a storage of our own, commands in containers that `buildah run` makes with runc."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import WorldError
from packager.base.processes import Surroundings, find_program, run, run_ok
from packager.oci.tree import diff_trees
from packager.sandbox import cgroups
from packager.sandbox.carrier import Carrier
from packager.sandbox.contained import Runner
from packager.sandbox.guest import HOSTNAME, OPEN_FILES, capability_names
from packager.sandbox.overlay import check_layers
from packager.sandbox.written import write_upper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.oci.entries import Entry
    from packager.sandbox.contained import Setting
    from packager.sandbox.engine import Command, Ended, Streams
    from packager.sandbox.fetches import Reachable

_NAME = "localhost/wideswe-step"
_SEARCH = "/usr/sbin:/usr/bin:/sbin:/bin"


class BuildahEngine:
    """Runs commands by `buildah run`; `home` is a folder that lives as long as the engine and holds its storage."""

    def __init__(self, home: Path) -> None:
        self._carrier = Carrier(home / "carrier")
        self._home = home
        self._images: dict[tuple[str, ...], str] = {}
        self._counter = itertools.count()
        (home / "containers.conf").touch()
        cgroups.sweep(cgroups.machine_parents())

    @property
    def name(self) -> str:
        """The name that `--engine` takes."""
        return "buildah"

    @property
    def variables(self) -> dict[str, str]:
        """What buildah itself reads: nothing of this machine's settings."""
        conf = str(self._home / "containers.conf")
        return {"PATH": _SEARCH, "HOME": str(self._home), "TMPDIR": str(self._home), "CONTAINERS_CONF": conf}

    def words(self, *words: str) -> list[str]:
        """Return a call of buildah over our own storage."""
        places = ("--root", str(self._home / "root"), "--runroot", str(self._home / "run"))
        return [find_program("buildah") or "buildah", *places, "--storage-driver", "overlay", *words]

    def call(self, *words: str) -> str:
        """Run buildah to its end and return what it wrote."""
        return run_ok(self.words(*words), Surroundings(env=self.variables, cwd=self._home)).decode().strip()

    def close(self) -> None:
        """Remove what a failed command may have left mounted."""
        with contextlib.suppress(WorldError):
            self.call("rm", "--all")

    @contextlib.contextmanager
    def open_tree(self, layers: Sequence[Path], *, scratch: Path) -> Iterator[BuildahTree]:
        """Make a working container over a stack of unpacked layers (lowest first), and one that stays as it is."""
        check_layers(layers)
        folder = scratch.absolute() / f"buildah-{next(self._counter)}"
        folder.mkdir(mode=0o700)
        tree = BuildahTree(self, self._image(layers), tuple(layers), folder)
        try:
            yield tree
        finally:
            tree.close()

    def _image(self, directories: Sequence[Path]) -> str:
        layers = self._carrier.pack(directories)
        key = tuple(layer.diff_id for layer in layers)
        if key not in self._images:
            tag = str(len(self._images))
            self._carrier.image(layers, name=f"{_NAME}:{tag}", labels={})
            self._images[key] = self.call("pull", "--quiet", "--policy", "always", f"oci:carrier:{tag}")
        return self._images[key]


class BuildahTree:
    """A working container, and one over the same image in which nothing runs."""

    def __init__(self, engine: BuildahEngine, image: str, layers: tuple[Path, ...], folder: Path) -> None:
        self._engine = engine
        self._counter = itertools.count()
        self._folder = folder
        self._made: list[str] = []
        self._container, self.root = self._start(image)
        _, self.lower = self._start(image)
        self._runner = Runner("buildah", self._words, engine.variables, layers, folder)

    @property
    def upper(self) -> Path:
        """What was written, as a copy."""
        return write_upper(self.changes(), self._folder / f"upper-{next(self._counter)}")

    def changes(self) -> list[Entry]:
        """Return what was written, found by comparing both views."""
        return diff_trees(self.lower, self.root)

    def run(self, command: Command, streams: Streams, *, fetches: Reachable | None = None) -> Ended:
        """Run a command; with `fetches`, behind the loopback proxy."""
        return self._runner.run(command, streams, fetches=fetches)

    def close(self) -> None:
        """Unmount and remove the containers."""
        for name in self._made:
            run(self._engine.words("rm", name), Surroundings(env=self._engine.variables, cwd=self._folder))

    def _start(self, image: str) -> tuple[str, Path]:
        limits = ("--ulimit", f"nofile={OPEN_FILES}:{OPEN_FILES}", "--ulimit", "core=0:0")
        name = self._engine.call("from", "--pull-never", "--quiet", "--dns", "none", *limits, image)
        self._made.append(name)
        root = Path(self._engine.call("mount", name))
        root.chmod(0o755)  # buildah's own is 0555; the other engines' is this
        return name, root

    def _words(self, setting: Setting) -> list[str]:
        """Return the call that runs one command; capabilities are buildah's own and two more, which makes ours."""
        words = ["run", "--isolation", "oci", "--runtime", find_program("runc") or "runc", "--no-hosts"]
        words += [
            "--hostname",
            HOSTNAME,
            "--network",
            f"ns:{setting.network}",
            "--cgroupns",
            "private",
            "--user",
            setting.user,
        ]
        words += ["--cap-drop", "CAP_MKNOD", "--cap-add", ",".join(f"CAP_{name}" for name in capability_names())]
        words += ["--mount", "type=tmpfs,destination=/sys,ro"]
        for here, inside, writable in setting.binds:
            words += ["-v", f"{here}:{inside}:{'rw' if writable else 'ro'}"]
        for name, value in setting.env.items():
            words += ["--env", f"{name}={value}"]
        return self._engine.words(*words, self._container, "--", *setting.argv)
