"""Git in a sandbox: a pinned commit is recorded and replayed, and what tells two clones apart is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.sandbox.namespaces import may_mount
from tests.support.client_walk import Project, needs, walk
from tests.support.git_builder import GitBuilder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root: the sandbox mounts")]

FETCH = "git init -q r && cd r && git fetch -q https://git.example/o/thing {commit} && git checkout -q FETCH_HEAD"
TIDY = " && rm -f .git/index .git/FETCH_HEAD && git read-tree HEAD"


def project(folder: Path, end: str) -> tuple[Project, str]:
    git = GitBuilder(folder / "git" / "o" / "thing.git")
    commit = git.commit({"note": "wanted\n"}, message="wanted")
    git.ref("refs/heads/main", git.commit({"note": "later\n"}, commit, message="later"))
    mirrors = {"https://git.example/": f"{folder / 'git'}/"}
    return Project(FETCH.format(commit=commit) + end, mirrors=mirrors), commit


def test_a_commit_is_recorded_and_replayed_in_a_sandbox(tmp_path: Path) -> None:
    needs("git")
    made, commit = project(tmp_path, TIDY)
    done = walk(tmp_path, made)
    assert done.files["work/r/note"] == b"wanted\n"
    assert done.purls == [f"pkg:generic/thing@{commit}"]
    assert [name for name, data in done.files.items() if b"later" in data] == []
    assert done.never("git.example")


def test_an_index_that_knows_inodes_and_times_is_named(tmp_path: Path) -> None:
    needs("git")
    made, _ = project(tmp_path, "")
    with pytest.raises(InputError) as caught:
        walk(tmp_path, made)
    said = str(caught.value).splitlines()
    assert said[0] == "lock: layer 1 replayed twice differs"
    assert said[1].startswith("work/r/.git/index: content: ")
    assert said[2:] == ["hint: G1 (git index): delete .git/index, then git read-tree HEAD"]
