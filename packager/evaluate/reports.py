"""What a test command left behind, read together with how it ended: the two must not contradict each other."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from packager.evaluate.readers import EXIT_STATUS, read_results, results_of_exit
from packager.evaluate.results import End, Results, TargetRun

if TYPE_CHECKING:
    from pathlib import Path

    from packager.evaluate.profile import TargetProfile
    from packager.sandbox.engine import Ended

REPORT_LIMIT_BYTES = 256 << 20
_KILLED = 128


def read_report(target: TargetProfile, written: Path, ended: Ended) -> TargetRun:
    """Return what a test command and its report say; a report that its exit code contradicts says nothing."""
    if ended.timed_out:
        return TargetRun(End.TIMEOUT, reason=f"not finished after {target.timeout_s:.0f} s")
    if why := _cut_off(ended):
        return _nothing(why)
    if target.results == EXIT_STATUS:
        return TargetRun(End.FINISHED, results_of_exit(ended.exit_code))
    found = _read(written)
    if found is None:
        return _nothing(f"no report was written (exit code {ended.exit_code})")
    if len(found) > REPORT_LIMIT_BYTES:
        return _nothing(f"the report is larger than {REPORT_LIMIT_BYTES} bytes")
    results = read_results(target.results, found)
    reason = _contradiction(results, ended.exit_code)
    return _nothing(reason) if reason else TargetRun(End.FINISHED, results, results.reason)


def _cut_off(ended: Ended) -> str:
    """Say what ended a command before it had said all, or nothing."""
    if ended.out_of_memory or ended.out_of_disk:
        return f"more {'memory' if ended.out_of_memory else 'space on the disk'} than the limit allows"
    return f"the test command was killed (exit code {ended.exit_code})" if ended.exit_code >= _KILLED else ""


def _nothing(reason: str) -> TargetRun:
    return TargetRun(End.FINISHED, Results(reason=reason), reason)


def _contradiction(results: Results, exit_code: int) -> str:
    """Say how report and exit code contradict each other: every runner ends with 0 exactly when nothing failed."""
    bad = next((name for name, status in results.statuses.items() if status.is_bad), None)
    if results.statuses and bad is None and exit_code != 0:
        return f"the report names no failure, but the test command ended with exit code {exit_code}"
    if bad is not None and exit_code == 0:
        return f"the report says that {bad[:200]!r} failed, but the test command ended with exit code 0"
    return ""


def _read(path: Path) -> bytes | None:
    """Return a file's bytes, at most one more than the limit; None if it is no regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        with os.fdopen(descriptor, "rb", closefd=False) if is_file else contextlib.nullcontext() as stream:
            return None if stream is None else stream.read(REPORT_LIMIT_BYTES + 1)
    finally:
        os.close(descriptor)
