"""Laws of patches: what we capture applies back, and we take and make exactly what `git apply` does."""

# ruff: noqa: PTH118 - names are bytes, and must stay so

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packager.base.errors import InputError
from packager.base.processes import Surroundings, find_program, run, run_ok
from packager.evaluate.capture import capture_patch
from packager.evaluate.patches import apply_patch
from packager.evaluate.trees import DirectoryTree, Kind
from tests.support.file_trees import Files, edited, file_trees, read_files, write_files
from tests.support.memory_tree import MemoryTree

SCRATCH = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
needs_git = pytest.mark.skipif(find_program("git") is None, reason="git is not installed")

PAIRS = file_trees().flatmap(lambda files: st.tuples(st.just(files), edited(files)))


def git(place: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    return run_ok(["git", *arguments], Surroundings(env=env, cwd=place, stdin=stdin))


def git_applies(place: Path, patch: bytes) -> bool:
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": "/"}
    return run(["git", "apply", "-"], Surroundings(env=env, cwd=place, stdin=patch)).exit_code == 0


def we_apply(place: Path, patch: bytes) -> bool:
    with DirectoryTree(place) as tree:
        try:
            apply_patch(patch, tree)
        except InputError:
            return False
    return True


@SCRATCH
@given(PAIRS)
def test_what_we_capture_applies_back_on_disk_and_in_memory(pair: tuple[Files, Files]) -> None:
    before, after = pair
    with tempfile.TemporaryDirectory() as folder:
        base, changed = write_files(Path(folder, "base"), before), write_files(Path(folder, "changed"), after)
        patch = capture_patch(base, changed, "greet")
        assert (patch == b"") == (before == after)
        assert we_apply(base, patch)
        assert read_files(base) == after
    tree = MemoryTree(before)
    apply_patch(patch, tree)
    assert tree.files == after


@pytest.mark.engine
@needs_git
@SCRATCH
@given(PAIRS)
def test_git_applies_what_we_capture_to_the_same_tree(pair: tuple[Files, Files]) -> None:
    before, after = pair
    with tempfile.TemporaryDirectory() as folder:
        base, changed = write_files(Path(folder, "base"), before), write_files(Path(folder, "changed"), after)
        patch = capture_patch(base, changed, "greet")
        if patch:
            assert git_applies(base, patch)
        assert read_files(base) == after


@pytest.mark.engine
@needs_git
@SCRATCH
@given(PAIRS, st.sampled_from(["", "-M50%", "-C50%", "-B"]), st.sampled_from(["-U3", "-U1", "-U10"]))
def test_we_apply_what_git_diffs_to_the_same_tree(pair: tuple[Files, Files], moves: str, context: str) -> None:
    before, after = pair
    with tempfile.TemporaryDirectory() as folder:
        repository = write_files(Path(folder, "repository"), before)
        git(repository, "init", "-q")
        git(repository, "add", "-Af")
        tree_before = git(repository, "write-tree").decode().strip()
        for path in before:
            Path(os.fsdecode(os.path.join(os.fsencode(repository), path))).unlink()
        write_files(repository, after)
        git(repository, "add", "-Af")
        tree_after = git(repository, "write-tree").decode().strip()
        options = [one for one in (moves, context) if one]
        patch = git(repository, "diff", "--binary", "--no-textconv", *options, tree_before, tree_after)
        base = write_files(Path(folder, "base"), before)
        assert we_apply(base, patch)
        assert read_files(base) == after


@pytest.mark.engine
@needs_git
@SCRATCH
@given(
    st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"c\n"]), min_size=1, max_size=16),
    st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"x\n"]), min_size=1, max_size=16),
    st.lists(st.tuples(st.integers(0, 16), st.sampled_from([b"a\n", b"n\n"])), max_size=3),
)
def test_on_a_tree_that_moved_on_we_do_exactly_what_git_does(
    old: list[bytes], new: list[bytes], drift: list[tuple[int, bytes]]
) -> None:
    drifted = list(old)
    for at, line in drift:
        drifted.insert(min(at, len(drifted)), line)
    name = b"f"
    with tempfile.TemporaryDirectory() as folder:
        trees: list[Files] = [{name: (kind, b"".join(lines))} for kind, lines in _files(old, new, drifted)]
        base, changed = (write_files(Path(folder, str(n)), one) for n, one in enumerate(trees[:2]))
        ours, theirs = (write_files(Path(folder, one), trees[2]) for one in ("ours", "theirs"))
        patch = capture_patch(base, changed, "greet")
        if not patch:
            return
        assert we_apply(ours, patch) == git_applies(theirs, patch)
        assert read_files(ours) == read_files(theirs)


def _files(*contents: list[bytes]) -> list[tuple[Kind, list[bytes]]]:
    return [(Kind.FILE, lines) for lines in contents]
