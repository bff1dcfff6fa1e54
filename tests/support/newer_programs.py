"""Programs of Debian's newer suites that start themselves again (podman, dockerd): they find their own libc by themselves.

`obtain_command` runs a program through its loader; then /proc/self/exe is the loader. Here the program is a copy that
names a loader in its working directory, so that it runs there, and in what it starts, as if it were installed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, find_program, run
from tests.support.debian_tools import obtain_root

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.base.processes import Finished

_LOADER = b"/lib64/ld-linux-x86-64.so.2\0"
_LIBRARIES = ("libc6", "libseccomp2", "libsqlite3-0", "libacl1", "libattr1", "libbsd0", "libmd0", "libaudit1")
_FOR_PODMAN = ("libgpgme11t64", "libassuan9", "libgpg-error0", "libsubid5", "libcap-ng0", "libselinux1")
_ALSO_FOR_PODMAN = ("libpcre2-8-0", "libcrypt1", "libsemanage2", "libsepol2", "libbz2-1.0", "libpam0g")


@dataclass(frozen=True)
class NewerProgram:
    """A program in a folder of its own; it has to be started there."""

    program: Path
    libraries: Path

    def environment(self) -> dict[str, str]:
        """Return the variables under which it finds its libraries."""
        return {"LD_LIBRARY_PATH": str(self.libraries)}


def obtain_newer(package: str, suite: str, path: str, *more: str, folder: Path) -> NewerProgram:
    """Make a copy of a program of a suite in `folder` that runs there; skip where it cannot be had."""
    if os.uname().machine != "x86_64":
        pytest.skip("the copy is made for amd64")
    root = obtain_root(package, suite, *_LIBRARIES, *more)
    data = (root / path).read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / path.rpartition("/")[2]
    if data.count(_LOADER) != 1:
        pytest.skip(f"{package} of {suite} does not name its loader as expected")
    program.write_bytes(data.replace(_LOADER, b"ld.so\0".ljust(len(_LOADER), b"\0")))
    program.chmod(0o755)
    loader = folder / "ld.so"
    if not loader.is_symlink():
        loader.symlink_to(root / "usr" / "lib64" / "ld-linux-x86-64.so.2")
    return NewerProgram(program, root / "usr" / "lib" / "x86_64-linux-gnu")


@dataclass(frozen=True)
class NewerPodman:
    """podman of trixie (5.4), with a storage of its own: Debian 12 builds its podman without sigstore signatures."""

    found: NewerProgram
    folder: Path

    def call(self, *words: str) -> Finished:
        """Run podman, which can start no container here."""
        return run([str(self.found.program), *words], Surroundings(self._environment(), cwd=self.folder, timeout_s=120))

    def _environment(self) -> Mapping[str, str]:
        places = {"CONTAINERS_STORAGE_CONF": "storage.conf", "CONTAINERS_CONF": "containers.conf"}
        places["CONTAINERS_REGISTRIES_CONF"] = "registries.conf"
        named = {name: str(self.folder / place) for name, place in places.items()}
        path = {"PATH": str(self.folder / "bin"), "HOME": str(self.folder), "PODMAN_IGNORE_CGROUPSV1_WARNING": "1"}
        return {**self.found.environment(), **named, **path}


def newer_podman(folder: Path, registries: str) -> NewerPodman:
    """Return podman with a storage below `folder`, to which `registries` (a file of registries.d) applies."""
    if os.geteuid() != 0:
        pytest.skip("podman without a user namespace needs root")
    found = obtain_newer("podman", "trixie", "usr/bin/podman", *_FOR_PODMAN, *_ALSO_FOR_PODMAN, folder=folder)
    (folder / "bin").mkdir()
    true = find_program("true")
    for name in ("conmon", "runc"):
        (folder / "bin" / name).symlink_to(str(true))  # it wants to know where they are, even to pull
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'
    )
    (folder / "containers.conf").write_text('[engine]\nruntime = "runc"\n')
    (folder / "registries.conf").write_text("")
    place = folder / ".config" / "containers" / "registries.d"
    place.mkdir(parents=True)
    (place / "ours.yaml").write_text(registries)
    made = NewerPodman(found, folder)
    done = made.call("version")
    if done.exit_code != 0:
        pytest.skip(f"podman of trixie does not run here: {done.stderr.decode(errors='replace')[-500:]}")
    return made
