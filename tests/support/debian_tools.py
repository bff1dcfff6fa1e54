"""Stock tools from Debian's newer suites, unpacked beside the system: fetched by package name from the host's own archive.

The archive is whatever apt on this machine is configured with; only the suite's name is replaced. Programs written in Go
run on any Debian as they are. Without apt, network or archive the test is skipped.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

import pytest

from packager.base.errors import WorldError
from packager.base.processes import Surroundings, find_program, run_ok

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_SOURCES = ("/etc/apt/sources.list.d", "/etc/apt/sources.list")
_DEB822 = re.compile(r"^URIs:\s*(\S+/debian)/?\s*$", re.MULTILINE)
_ONE_LINE = re.compile(r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+/debian)/?\s", re.MULTILINE)


def obtain_program(package: str, suite: str) -> Path:
    """Return the program of a package of a suite; it is kept in the user's cache directory."""
    place = _cache() / f"{package}-{suite}"
    program = place / "usr" / "bin" / package
    if not program.is_file():
        _unpack(package, suite, place)
    return program


def obtain_command(package: str, suite: str, *libraries: str) -> list[str]:
    """Return the words that run a program which needs newer libraries than this system has: its loader comes along."""
    place = obtain_root(package, suite, "libc6", *libraries)
    loader = place / "usr" / "lib64" / "ld-linux-x86-64.so.2"
    libs = place / "usr" / "lib" / "x86_64-linux-gnu"
    return [str(loader), "--library-path", str(libs), str(place / "usr" / "bin" / package)]


def obtain_root(package: str, suite: str, *libraries: str) -> Path:
    """Return the folder that a package of a suite and libraries of it are unpacked in."""
    place = _cache() / f"{package}-{suite}-whole"
    if not place.is_dir():
        _unpack(package, suite, place, *libraries)
    return place


def go_cache() -> str:
    """Return where Go keeps its own compiled standard library between runs: compiling it takes most of a minute."""
    return str(_cache() / "go-build")


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wideswe-pack" / "test-tools"


def _unpack(package: str, suite: str, place: Path, *libraries: str) -> None:
    archive = _find_archive()
    if archive is None or find_program("apt-get") is None or not KEYRING.is_file():
        pytest.skip("no apt with a Debian archive to take stock tools from")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as name:
        scratch = Path(name)
        options = _isolated_apt(scratch / "apt", f"deb [signed-by={KEYRING}] {archive} {suite} main\n")
        around = Surroundings(cwd=scratch, timeout_s=300)
        try:
            run_ok(["apt-get", *options, "-q", "update"], around)
            run_ok(["apt-get", *options, "-q", "download", package, *libraries], around)
        except WorldError as error:
            pytest.skip(f"{package} of {suite} cannot be fetched: {error}")
        debs = sorted(scratch.glob("*.deb"))
        assert len(debs) == 1 + len(libraries), debs
        for deb in debs:
            run_ok(["dpkg", "-x", str(deb), str(scratch / "root")], around)
        with contextlib.suppress(OSError):  # another run was first
            (scratch / "root").rename(place)


def _find_archive() -> str | None:
    """Return the address of the host's Debian archive, from either form of apt's sources."""
    for source in map(Path, _SOURCES):
        for path in sorted(source.iterdir()) if source.is_dir() else [source]:
            text = path.read_text(errors="replace") if path.is_file() else ""
            found = _DEB822.search(text) or _ONE_LINE.search(text)
            if found is not None:
                return found[1]
    return None


def _isolated_apt(folder: Path, sources: str) -> list[str]:
    """Make apt's directories below `folder` and return the options that keep apt in them."""
    for name in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "etc" / "sources.list").write_text(sources)
    (folder / "status").touch()
    options = {
        "Dir::Etc": folder / "etc",
        "Dir::Etc::sourceparts": "-",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
