"""A small tree for sandbox tests: mount points and links of its own, the machine's programs bound read-only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from packager.sandbox.engine import Bind, Command, Streams

if TYPE_CHECKING:
    from packager.sandbox.engine import Ended, Tree
    from packager.sandbox.fetches import Reachable

HOST_USR = Bind(Path("/usr"), "/usr")
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


def make_host_layer(path: Path) -> Path:
    """Make a layer that runs the machine's own /usr."""
    for name in ("usr", "etc", "dev", "proc", "sys", "tmp", "run", "root", "work"):
        (path / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (path / name).symlink_to(f"usr/{name}")
    for name in ("hosts", "resolv.conf", "hostname"):
        (path / "etc" / name).write_text("from the layer\n")
    (path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nplain:x:1000:1000::/work:/bin/sh\n")
    (path / "etc/group").write_text("root:x:0:\nplain:x:1000:\n")
    (path / "tmp").chmod(0o1777)
    (path / "root").chmod(0o700)
    return path


def shell(script: str, **more: object) -> Command:
    """Return a command that runs a shell script on the machine's own programs."""
    binds = (HOST_USR, *more.pop("binds", ()))  # type: ignore[misc]
    env = {"PATH": PATH, "LC_ALL": "C.UTF-8", **more.pop("env", {})}  # type: ignore[dict-item]
    return Command(("/bin/sh", "-c", script), env=env, binds=binds, **more)  # type: ignore[arg-type]


def run_captured(tree: Tree, command: Command, fetches: Reachable | None = None) -> tuple[Ended, str, str]:
    """Run a command and return how it ended with what it wrote on both streams."""
    out, err = bytearray(), bytearray()
    ended = tree.run(command, Streams(out.extend, err.extend), fetches=fetches)
    return ended, out.decode(errors="replace"), err.decode(errors="replace")
