"""Makes hidden files of a patch against the base commit: git applies it to an index of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.lock.git_runner import GitDirectory, make_git_directory, said

if TYPE_CHECKING:
    from packager.lock.git import GitRepository

_MODES = {b"100644": 0o644, b"100755": 0o755}


def files_of_patch(repository: GitRepository, commit: str, patch: bytes) -> dict[str, tuple[int, bytes]]:
    """Return path → (mode, bytes) of every file that a patch makes or changes; a patch that does not apply is refused.

    Files that it deletes are refused, too: hidden tests are laid over a checkout and take nothing away.
    """
    where = f"{repository.name}: hidden patch"
    with tempfile.TemporaryDirectory() as folder:
        made = make_git_directory(Path(folder) / "git")
        git = GitDirectory(made.path, (*repository.directory.alternates, repository.directory.path / "objects"))
        git.run_ok("read-tree", commit)
        done = git.run("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch)
        if done.exit_code != 0:
            raise InputError(f"does not apply to {commit[:12]}: {said(done)}", where=where)
        changed = git.run_ok("diff-index", "--cached", "-z", "--no-renames", "--diff-filter=ACDMT", commit)
        fields = changed.split(b"\0")[:-1]
        return {
            path.decode("utf-8", "surrogateescape"): _file(git, row, path, where)
            for row, path in zip(fields[::2], fields[1::2], strict=True)
        }


def _file(git: GitDirectory, row: bytes, path: bytes, where: str) -> tuple[int, bytes]:
    _, mode, _, blob, status = row.removeprefix(b":").split(b" ")
    shown = path.decode(errors="replace")
    if status.startswith(b"D"):
        raise InputError(f"deletes {shown}", where=where, hint="hidden tests are laid over the checkout")
    if mode not in _MODES:
        raise InputError(f"{shown} is not a plain file", where=where)
    return _MODES[mode], git.run_ok("cat-file", "blob", blob.decode())
