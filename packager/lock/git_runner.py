"""Runs git so that nothing of the machine, the user or a repository decides what it prints or starts."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from packager.base.errors import WorldError
from packager.base.files import NO_SPACE_HINT
from packager.base.processes import Finished, Surroundings, find_program, run, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_FIXED_SETTINGS = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.commitGraph", "false"),  # a source's own graph could lie about parents
    ("core.multiPackIndex", "false"),
    ("core.attributesFile", os.devnull),
    ("core.excludesFile", os.devnull),
    ("core.quotePath", "true"),
    ("attr.tree", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"),  # the empty tree: no .gitattributes of a bare HEAD
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("pack.threads", "1"),
    ("protocol.ext.allow", "never"),
)

_INHERITED_BY_FETCH = (
    "HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "GIT_SSH_COMMAND",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
    "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE",
    "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy",
    "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy",
)  # fmt: skip

_TAIL_BYTES = 1500
_PIPE, _DEVNULL = -1, -3  # as the subprocess module numbers them


@dataclass(frozen=True)
class Pipes:
    """Both ends of a running git."""

    stdin: IO[bytes]
    stdout: IO[bytes]


@dataclass(frozen=True)
class GitDirectory:
    """One git directory that we own, and the object stores of others that are read through it."""

    path: Path
    alternates: tuple[Path, ...] = field(default=())

    def run(self, *arguments: str, stdin: bytes = b"", pathspecs: Sequence[bytes] = ()) -> Finished:
        """Run git here without network, hooks or anybody's configuration."""
        argv = [git_program(), *arguments, *(os.fsdecode(path) for path in pathspecs)]
        return run(argv, Surroundings(env=self._environment(), cwd=self.path, stdin=stdin))

    def clear_locks(self) -> None:
        """Delete what a git that was killed here left; the caller holds the store's lock, so none is at work."""
        for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/??/tmp_obj_*"):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)

    def run_ok(self, *arguments: str, stdin: bytes = b"", pathspecs: Sequence[bytes] = ()) -> bytes:
        """Run git here and return its output; a failure raises WorldError with the end of git's own words."""
        done = self.run(*arguments, stdin=stdin, pathspecs=pathspecs)
        if done.exit_code != 0:
            raise WorldError(f"git {arguments[0]} failed: {said(done)}", where=str(self.path))
        return done.stdout

    def run_networked(self, *arguments: str) -> Finished:
        """Run git here with the user's own proxies, certificates and credentials: for fetching alone."""
        inherited = {name: os.environ[name] for name in _INHERITED_BY_FETCH if name in os.environ}
        env = self._environment() | {"GIT_CONFIG_NOSYSTEM": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_SSH_VARIANT": "ssh"}
        env |= {"GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file"}
        del env["GIT_CONFIG_GLOBAL"]
        return run([git_program(), *arguments], Surroundings(env=env | inherited, cwd=self.path))

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[Pipes]:
        """Start git with pipes on its standard input and output."""
        around = Surroundings(env=self._environment(), cwd=self.path, stdin=b"pipe")
        with running([git_program(), *arguments], around, stdout=_PIPE, stderr=_DEVNULL) as child:
            if child.stdin is None or child.stdout is None:
                raise WorldError("git was started without pipes")
            yield Pipes(child.stdin, child.stdout)

    def _environment(self) -> dict[str, str]:
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "HOME": "/nonexistent",
            "GIT_DIR": str(self.path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CONFIG_COUNT": str(len(_FIXED_SETTINGS)),
        }
        for number, (key, value) in enumerate(_FIXED_SETTINGS):
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        if self.alternates:
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(_quoted(path) for path in self.alternates)
        return env


def make_git_directory(path: Path) -> GitDirectory:
    """Write an empty bare git directory by hand, so that no template or default of the machine gets in; idempotent."""
    for folder in ("objects/pack", "objects/info", "refs"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
        ("HEAD", "ref: refs/heads/main\n"),
    ):
        if not (path / name).exists():
            temporary = path / f".{name}.{os.getpid()}"
            temporary.write_text(text)
            temporary.replace(path / name)
    return GitDirectory(path)


def git_program() -> str:
    """Return the path of git, or raise WorldError."""
    found = find_program("git")
    if found is None:
        raise WorldError("program not found: git", hint="install git 2.31 or newer")
    return found


def said(done: Finished) -> str:
    """Return the end of what git wrote about its failure."""
    return (done.stderr or done.stdout)[-_TAIL_BYTES:].decode(errors="replace").strip() or f"exit code {done.exit_code}"


def refuse_full_disk(done: Finished, *, where: str) -> None:
    """Raise WorldError if git failed for want of space."""
    full = os.strerror(errno.ENOSPC)
    if done.exit_code != 0 and full in said(done):
        raise WorldError(f"the disk says: {full}", where=where, hint=NO_SPACE_HINT)


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
