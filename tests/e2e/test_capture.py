"""A workspace as an agent left it becomes patches, and these are judged: the round trip on the shipped task."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.processes import Surroundings, run_ok
from packager.evaluate.judge import read_image
from packager.evaluate.patches import apply_patch
from packager.evaluate.trees import DirectoryTree
from packager.sandbox.namespaces import may_mount
from packager.sandbox.native import NativeEngine
from tests.support.walk import TARGETS, TASK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.walk import Party

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="looks into the image's layers as root")]


@pytest.fixture
def workspace(author: Party, tmp_path: Path) -> Path:
    """The image's /workspace, copied out."""
    layers = read_image(author.store, author.record).trees(author.store)
    folder = tmp_path / "workspace"
    with NativeEngine().open_tree(layers, scratch=tmp_path) as tree:
        shutil.copytree(tree.root / "workspace", folder, symlinks=True)
    return folder


def test_what_an_agent_left_is_captured_and_resolves_the_task(
    author: Party, gold: dict[str, bytes], workspace: Path, tmp_path: Path
) -> None:
    for target in TARGETS:
        with DirectoryTree(workspace / target) as files:
            apply_patch(gold[target], files)
    (workspace / "gauge" / "notes.log").write_text("ignored\n")
    (workspace / "gauge" / ".gitignore").write_text("*.log\n")
    shutil.rmtree(workspace / "tidewatch" / ".git")
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    commit = "git add -A && git -c user.name=a -c user.email=a@example.org commit -qm all && git gc -q"
    run_ok(["sh", "-ec", commit], Surroundings(env=env, cwd=workspace / "gauge"))
    answers = tmp_path / "answers"
    captured = author.ask("capture", "--task", TASK, "--workspace", str(workspace), "--into", str(answers))
    assert captured["manifest"] == author.record.manifest.digest
    assert {one["target"]: one["digest"] for one in captured["patches"]} == {
        name: digest_of((answers / f"{name}.patch").read_bytes()) for name in TARGETS
    }
    patch = (answers / "gauge.patch").read_bytes()
    assert b"+ignored\n" in patch
    assert b"+*.log\n" in patch
    verdict = author.evaluate("--patch", str(answers))
    assert verdict["bound"]["outcome"] == "resolved"
    assert {name: one["patch"] for name, one in verdict["bound"]["targets"].items()} == {
        one["target"]: one["digest"] for one in captured["patches"]
    }


def test_what_is_left_out_is_new_and_named(author: Party, workspace: Path, tmp_path: Path) -> None:
    (workspace / "gauge" / "lib" / "new.log").write_text("x\n")
    (workspace / "gauge" / "lib" / "Gauge.pm").write_text("1;\n")
    words = ("--task", TASK, "--workspace", str(workspace), "--into", str(tmp_path / "answers"), "--leave-out", "lib/*")
    captured = author.ask("capture", *words)
    assert [one["size"] for one in captured["patches"] if one["target"] == "tidewatch"] == [0]
    patch = (tmp_path / "answers" / "gauge.patch").read_bytes()
    assert patch.startswith(b"diff --git a/lib/Gauge.pm b/lib/Gauge.pm\nindex ")
    assert b"new.log" not in patch


@pytest.mark.parametrize("left", ["nothing", "a link"])
def test_a_target_that_is_no_folder_is_refused_and_nothing_outside_is_read(
    author: Party, workspace: Path, tmp_path: Path, left: str
) -> None:
    shutil.rmtree(workspace / "gauge")
    if left == "a link":
        (tmp_path / "secret").mkdir()
        (workspace / "gauge").symlink_to(tmp_path / "secret")
    found = "nothing" if left == "nothing" else "something else"
    words = ("--task", TASK, "--workspace", str(workspace), "--into", str(tmp_path / "answers"))
    assert author.refuse("capture", *words, exit_code=3) == (
        f"error: {workspace}/gauge: expected the folder of target gauge, found {found}\n"
        "hint: the workspace is the folder that holds gauge/, as /workspace does\n"
    )
    assert not (tmp_path / "answers").exists()
