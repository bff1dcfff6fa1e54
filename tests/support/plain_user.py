"""A user of this machine for one test, with subordinate ids, and a Python that he can read."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import pwd
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import find_program, run, run_ok

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
SYSTEM_PYTHON = Path("/usr/bin/python3")


@contextlib.contextmanager
def plain_user() -> Iterator[pwd.struct_passwd]:
    """Make a user and take him away again, with whatever he still runs."""
    programs = [find_program(name) for name in ("useradd", "userdel", "newuidmap")]
    if os.geteuid() != 0 or None in programs:
        pytest.skip("needs root, useradd and newuidmap to become a plain user")
    name = f"wideswe-{os.getpid()}"
    run_ok(["useradd", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/sh", name])
    try:
        if name not in _names_in("subuid"):
            run_ok(["usermod", "--add-subuids", "1000000-1065535", "--add-subgids", "1000000-1065535", name])
        yield pwd.getpwnam(name)
    finally:
        run_ok(["userdel", name])
        assert name not in _names_in("subuid")


def _names_in(table: str) -> list[str]:
    path = Path("/etc") / table
    return [line.split(":")[0] for line in path.read_text().splitlines()] if path.exists() else []


def give(user: pwd.struct_passwd, *folders: Path) -> None:
    """Make folders and all in them the user's own."""
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, user.pw_uid, user.pw_gid)


def as_user(user: pwd.struct_passwd) -> tuple[str, ...]:
    """Return what to put before a command that he shall run."""
    return ("setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups")


@contextlib.contextmanager
def reachable_folder(parent: Path) -> Iterator[Path]:
    """Make a folder that other users can reach, as those of pytest are not."""
    path = Path(tempfile.mkdtemp(prefix="wideswe-test-", dir=parent))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def copy_suite(target: Path, *, mask: int) -> None:
    """Copy what git knows of this working tree, with the modes that a clone under a umask would have."""
    listed = run_ok(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
    for name in filter(None, listed.split(b"\0")):
        source, copy = ROOT / os.fsdecode(name), target / os.fsdecode(name)
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            copy.chmod((0o777 if os.access(source, os.X_OK) else 0o666) & ~mask)


def copy_dependencies(target: Path) -> None:
    """Copy the packages that this program needs to where every user may read them, for the system's Python."""
    found = run([str(SYSTEM_PYTHON), "-c", "import sys; print(*sys.version_info[:2])"]).stdout.split()
    if found != [str(part).encode() for part in sys.version_info[:2]]:
        pytest.skip("the system's Python is another version than this one")
    for distribution in _distributions(_requirements()):
        for file in distribution.files or ():
            if ".." in file.parts or file.suffix == ".pyc":
                continue
            place = target / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), place)


def _requirements() -> list[str]:
    import tomllib  # noqa: PLC0415 - here alone

    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])


def _distributions(requirements: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """Return the distributions that requirements name and all that those need; those of other systems are absent."""
    wanted, found = list(requirements), {}
    while wanted:
        name = re.split(r"[^A-Za-z0-9_.-]", wanted.pop(), maxsplit=1)[0].lower()
        if name in found:
            continue
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.distribution(name)
            wanted += [need for need in found[name].requires or () if "extra ==" not in need]
    return list(found.values())
