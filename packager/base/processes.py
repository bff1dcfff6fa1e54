"""The one file that runs other programs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, TypeAlias

from packager.base.errors import WorldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_TAIL_BYTES = 2000
Started: TypeAlias = "subprocess.Popen[bytes]"


@dataclass(frozen=True)
class Finished:
    """How a program ended: exit code (negative: killed by that signal) and what it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class Surroundings:
    """What a program is given beside its arguments; an environment of None means the caller's own."""

    env: Mapping[str, str] | None = None
    cwd: Path | None = None
    stdin: bytes = b""
    timeout_s: float | None = None
    pass_fds: Sequence[int] = field(default=())


NOTHING_SPECIAL = Surroundings()


def find_program(name: str) -> str | None:
    """Return the path of a program, also where a plain user's PATH lacks the system directories."""
    import shutil  # noqa: PLC0415 - slow to import

    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")


def run(argv: Sequence[str], around: Surroundings = NOTHING_SPECIAL) -> Finished:
    """Run a program to its end and return what it wrote; a program that is missing or too slow raises WorldError."""
    try:
        done = subprocess.run(
            list(argv),
            input=around.stdin,
            capture_output=True,
            env=around.env,
            cwd=around.cwd,
            timeout=around.timeout_s,
            check=False,
            pass_fds=around.pass_fds,
        )
    except FileNotFoundError as error:
        raise WorldError(f"program not found: {argv[0]}", hint=f"install {argv[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise WorldError(f"still running after {around.timeout_s} s: {argv[0]}", retryable=True) from error
    return Finished(done.returncode, done.stdout, done.stderr)


def run_ok(argv: Sequence[str], around: Surroundings = NOTHING_SPECIAL) -> bytes:
    """Run a program that must succeed and return its standard output; else WorldError with the end of its messages."""
    return _must_succeed(argv, run(argv, around))


def _must_succeed(argv: Sequence[str], done: Finished) -> bytes:
    if done.exit_code != 0:
        said = (done.stderr or done.stdout)[-_TAIL_BYTES:].decode(errors="replace").strip()
        raise WorldError(f"exit code {done.exit_code}: {said}", where=" ".join(argv[:3]))
    return done.stdout


def run_fed(argv: Sequence[str], feed: Callable[[Callable[[bytes], object]], object]) -> bytes:
    """Run a program that must succeed; `feed` writes its standard input. Return its standard output.

    A program that ends before all is written is reported by what it says, not as a broken pipe.
    """
    import tempfile  # noqa: PLC0415 - slow to import

    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        with running(argv, Surroundings(stdin=b"-"), stdout=said.fileno(), stderr=complained.fileno()) as child:
            assert child.stdin is not None  # noqa: S101 - `running` made the pipe
            with contextlib.suppress(BrokenPipeError):
                feed(child.stdin.write)
                child.stdin.flush()
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
            code = child.wait()
        said.seek(0)
        complained.seek(0)
        done = Finished(code, said.read(), complained.read())
    return _must_succeed(argv, done)


@contextlib.contextmanager
def running(
    argv: Sequence[str],
    around: Surroundings = NOTHING_SPECIAL,
    *,
    stdout: IO[bytes] | int | None = None,
    stderr: IO[bytes] | int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in a session of its own; leaving the block kills whatever of that session still runs."""
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if around.stdin else subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=around.env,
            cwd=around.cwd,
            start_new_session=True,
            pass_fds=around.pass_fds,
        )
    except FileNotFoundError as error:
        raise WorldError(f"program not found: {argv[0]}", hint=f"install {argv[0]}") from error
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        child.wait()
