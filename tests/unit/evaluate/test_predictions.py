"""Predictions: one file, a directory, or JSONL; and what an agent changed, captured."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.evaluate.capture import capture_patch
from packager.evaluate.line_diff import compare_lines
from packager.evaluate.patches import Patch, apply_patch, read_predictions
from packager.evaluate.trees import DirectoryTree, Kind
from tests.support.file_trees import read_files, write_files
from tests.support.memory_tree import MemoryTree

if TYPE_CHECKING:
    from pathlib import Path

TARGETS = ("greet", "caller")


def new(path: str) -> str:
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n"


def refused(path: Path, task: str = "t", targets: tuple[str, ...] = TARGETS) -> str:
    with pytest.raises(InputError) as caught:
        read_predictions(path).of(task, targets)
    return str(caught.value).replace(str(path.parent), "…")


def jsonl(path: Path, *lines: object) -> Path:
    file = path / "predictions.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return file


def test_a_file_is_the_patch_of_the_target_that_it_is_named_after(tmp_path: Path) -> None:
    (tmp_path / "greet.patch").write_text(new("x"))
    found = read_predictions(tmp_path / "greet.patch").of("any-task", TARGETS)
    assert found == {"greet": Patch(new("x").encode()), "caller": Patch(b"")}


def test_a_target_may_have_dots_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "update.example.org.diff").write_text(new("x"))
    assert read_predictions(tmp_path).of("t", ["update.example.org"]) == {
        "update.example.org": Patch(new("x").encode())
    }


def test_a_directory_holds_patches_of_one_task_or_of_many(tmp_path: Path) -> None:
    (tmp_path / "t1").mkdir()
    (tmp_path / "t1" / "greet.diff").write_text(new("x"))
    (tmp_path / "t2").mkdir()
    (tmp_path / "t2" / "caller.patch").write_text("")
    predictions = read_predictions(tmp_path)
    assert predictions.of("t1", TARGETS) == {"greet": Patch(new("x").encode()), "caller": Patch(b"")}
    assert predictions.of("t2", TARGETS) == {"greet": Patch(b""), "caller": Patch(b"")}
    assert predictions.of("t3", TARGETS) is None


def test_jsonl_names_patches_by_target_and_null_is_missing(tmp_path: Path) -> None:
    file = jsonl(
        tmp_path,
        {"instance_id": "a", "model_name_or_path": "m", "patches": {"greet": new("x"), "caller": None}},
        "",
        {"instance_id": "b", "model_patch": None, "more": 1},
        {"instance_id": "c", "model_patch": ""},
        {"instance_id": "d", "patches": {}},
        {"instance_id": "e", "patches": {"greet": "caf\udcc3\udca9"}},
    )
    predictions = read_predictions(file)
    assert predictions.of("a", TARGETS) == {"greet": Patch(new("x").encode()), "caller": Patch(b"")}
    assert predictions.by_task["a"].model == "m"
    assert predictions.of("b", TARGETS) is None
    assert predictions.of("c", TARGETS) == {"greet": Patch(b"", 2), "caller": Patch(b"", 2)}
    assert predictions.of("d", TARGETS) == {"greet": Patch(b""), "caller": Patch(b"")}
    assert predictions.by_task["e"].patches["greet"] == "café".encode()
    assert predictions.of("z", TARGETS) is None


def test_one_patch_for_all_targets_is_split_by_the_first_folder(tmp_path: Path) -> None:
    patch = (
        new("greet/a/b") + new("caller/c") + "diff --git a/greet/d b/greet/e\nrename from greet/d\nrename to greet/e\n"
    )
    found = read_predictions(jsonl(tmp_path, {"instance_id": "t", "model_patch": patch})).of("t", TARGETS)
    assert found is not None
    trees = {"greet": MemoryTree({b"d": (Kind.FILE, b"")}), "caller": MemoryTree()}
    for name, tree in trees.items():
        apply_patch(found[name].data, tree, strip=found[name].strip)
    assert (sorted(trees["greet"].files), sorted(trees["caller"].files)) == ([b"a/b", b"e"], [b"c"])


def test_one_patch_for_one_target_is_taken_as_it_is(tmp_path: Path) -> None:
    file = jsonl(tmp_path, {"instance_id": "t", "model_patch": new("x")})
    assert read_predictions(file).of("t", ["greet"]) == {"greet": Patch(new("x").encode())}


@pytest.mark.parametrize(
    "patch", [new("other/x"), new("x"), "diff --git a/greet/x b/caller/x\nrename from greet/x\nrename to caller/x\n"]
)
def test_a_joint_patch_for_what_is_no_target_is_refused(tmp_path: Path, patch: str) -> None:
    said = refused(jsonl(tmp_path, {"instance_id": "t", "model_patch": patch}))
    assert "belongs to no single target\nhint: with several targets, paths begin with the target: caller, greet" in said


def test_all_faults_of_a_jsonl_file_come_in_one_run(tmp_path: Path) -> None:
    file = jsonl(
        tmp_path,
        "{",
        [],
        {"model_patch": ""},
        {"instance_id": "a"},
        {"instance_id": "b", "model_patch": "", "patches": {}},
        {"instance_id": "c", "model_patch": 3},
        {"instance_id": "d", "patches": {"greet": ["x"]}},
        {"instance_id": "e", "patches": "x"},
        {"instance_id": "f", "model_patch": ""},
        {"instance_id": "f", "model_patch": ""},
        {"instance_id": "g", "model_patch": "", "model_name_or_path": 3},
        '{"instance_id": "h", "instance_id": "i", "model_patch": ""}',
        {"instance_id": "j", "model_patch": "\ud800"},
    )
    assert refused(file).splitlines() == [
        "12 problems",
        "…/predictions.jsonl:1: line: not acceptable JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "…/predictions.jsonl:2: expected an object with instance_id",
        "…/predictions.jsonl:3: expected an object with instance_id",
        "…/predictions.jsonl:4: a: expected model_patch or patches",
        "…/predictions.jsonl:5: b: expected model_patch or patches",
        "…/predictions.jsonl:6: c: expected a patch as text",
        "…/predictions.jsonl:7: d, greet: expected a patch as text",
        "…/predictions.jsonl:8: e: expected patches by target",
        "…/predictions.jsonl:10: f: a second prediction, first at line 9",
        "…/predictions.jsonl:11: g: expected text in model_name_or_path",
        "…/predictions.jsonl:12: line: not acceptable JSON: duplicate key 'instance_id'",
        "…/predictions.jsonl:13: j: expected text that can be written as UTF-8: surrogates not allowed",
    ]


def test_what_holds_no_predictions_is_refused(tmp_path: Path) -> None:
    assert refused(jsonl(tmp_path)) == "1 problem\n…/predictions.jsonl: no predictions"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refused(empty) == "…/empty: no .patch or .diff file\nhint: name them <target>.patch"
    assert refused(tmp_path / "x.txt") == (
        "…/x.txt: expected a .patch, .diff or .jsonl file, or a directory"
        "\nhint: name it <target>.patch, give a directory, or predictions.jsonl"
    )
    assert refused(tmp_path / "greet.patch") == "…/greet.patch: cannot be read: No such file or directory"
    (empty / "greet.patch").write_text("")
    (empty / "greet.diff").write_text("")
    assert refused(empty) == "…/empty: two patches for greet"


def test_a_patch_for_a_stranger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gret.patch").write_text("")
    assert (
        refused(tmp_path / "gret.patch")
        == "task t: a patch for 'gret', which is no target\nhint: targets: caller, greet"
    )


# Capture


def capture(tmp_path: Path, before: dict[bytes, tuple[Kind, bytes]], after: dict[bytes, tuple[Kind, bytes]]) -> bytes:
    base, changed = write_files(tmp_path / "base", before), write_files(tmp_path / "changed", after)
    patch = capture_patch(base, changed, "greet")
    with DirectoryTree(base) as tree:
        apply_patch(patch, tree)
    assert read_files(base) == after
    return patch


def test_a_captured_edit_reads_like_one_of_git(tmp_path: Path) -> None:
    old = b"".join(b"%d\n" % number for number in range(20))
    new_text = old.replace(b"\n5\n", b"\nfive\n").replace(b"18\n", b"")
    assert capture(tmp_path, {b"f": (Kind.FILE, old)}, {b"f": (Kind.FILE, new_text)}).decode() == (
        "diff --git a/f b/f\n"
        "index 19df0a2d8aeab0e8737c2c84bae50ff92cb31d28..5ad2988e8569b8693040b4b55dcee208f5422f2a 100644\n"
        "--- a/f\n+++ b/f\n"
        "@@ -3,7 +3,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        "@@ -16,5 +16,4 @@\n 15\n 16\n 17\n-18\n 19\n"
    )


def test_git_files_empty_folders_and_pipes_are_not_captured(tmp_path: Path) -> None:
    base, changed = (
        write_files(tmp_path / "base", {}),
        write_files(tmp_path / "changed", {b".gitignore": (Kind.FILE, b"*\n")}),
    )
    for folder in (".git", "sub/.git", "void"):
        (changed / folder).mkdir(parents=True)
    (changed / ".git" / "config").write_text("evil")
    (changed / "ignored").write_text("still captured\n")
    os.mkfifo(changed / "pipe")
    patch = capture_patch(base, changed, "greet")
    assert [line for line in patch.splitlines() if line.startswith(b"diff")] == [
        b"diff --git a/.gitignore b/.gitignore",
        b"diff --git a/ignored b/ignored",
    ]


def test_a_link_to_the_host_is_captured_as_a_link(tmp_path: Path) -> None:
    patch = capture(tmp_path, {}, {b"l": (Kind.SYMLINK, b"/etc/passwd"), b"d": (Kind.SYMLINK, b"/etc")})
    assert b"root:" not in patch
    assert b"+/etc/passwd\n\\ No newline" in patch


def test_a_large_rewrite_stays_quick(tmp_path: Path) -> None:
    before = b"".join(b"%d\n\n" % number for number in range(30_000))
    after = b"".join(b"\n%d\n" % (number * 7) for number in range(30_000))
    began = time.monotonic()
    capture(tmp_path, {b"f": (Kind.FILE, before)}, {b"f": (Kind.FILE, after)})
    assert time.monotonic() - began < 30


def test_spans_cover_both_files_and_take_turns() -> None:
    old, new_lines = [b"a", b"b", b"c", b"d", b"e"], [b"x", b"b", b"c", b"y", b"e", b"f"]
    spans = compare_lines(old, new_lines)
    assert [(one.is_equal, one.old_start, one.old_end, one.new_start, one.new_end) for one in spans] == [
        (False, 0, 1, 0, 1),
        (True, 1, 3, 1, 3),
        (False, 3, 4, 3, 4),
        (True, 4, 5, 4, 5),
        (False, 5, 5, 5, 6),
    ]
    assert compare_lines([], []) == []


def alone(only: str, **more: object) -> dict[str, object]:
    return {"instance_id": "t", "only": only, "patches": {only: new("x")}, **more}


def test_a_line_may_be_of_an_independent_run(tmp_path: Path) -> None:
    lines = [alone("greet", requests=4, trajectory="a.jsonl"), alone("caller"), {"instance_id": "t", "model_patch": ""}]
    found = read_predictions(jsonl(tmp_path, *lines))
    assert found.of("t", TARGETS, only="greet") == {"greet": Patch(new("x").encode())}
    assert found.of("t", TARGETS) == dict.fromkeys(TARGETS, Patch(b"", strip=2))
    prediction = found.find("t", only="greet")
    assert prediction is not None
    assert (prediction.requests, prediction.trajectory) == (4, tmp_path / "a.jsonl")


def test_an_independent_run_changes_one_target(tmp_path: Path) -> None:
    both = "".join(new(f"{name}/x") for name in TARGETS)
    path = jsonl(tmp_path, {"instance_id": "t", "only": "greet", "model_patch": both})
    with pytest.raises(InputError) as caught:
        read_predictions(path).of("t", TARGETS, only="greet")
    assert str(caught.value) == (
        "task t: a patch for 'caller', which stands at gold while greet is judged\n"
        "hint: an independent run changes one target; leave --only out to judge a joint one"
    )
    with pytest.raises(InputError) as caught:
        read_predictions(jsonl(tmp_path, {"instance_id": "t", "patches": {}})).of("t", ["greet", "x"], only="y")
    assert str(caught.value) == "task t: 'y' is no target\nhint: targets: greet, x"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([alone("greet"), alone("greet")], "2: t: a second prediction, first at line 1"),
        ([alone("greet", requests=1.5)], "1: t: expected a whole number, or null, as requests"),
        ([alone("greet", requests=True)], "1: t: expected a whole number, or null, as requests"),
        ([alone("greet", trajectory=["x"])], "1: t: expected the path of a file as trajectory"),
        (
            [alone("greet", trajectory="../x")],
            "1: t: trajectory: expected a plain path inside the tree, found '../x'",
        ),
        ([{"instance_id": "t", "only": 1, "model_patch": ""}], "1: t: expected text in only"),
        ([{"instance_id": "\ud800", "model_patch": ""}], "1: '\\ud800': expected names that can be written as UTF-8"),
    ],
)
def test_lines_of_independent_runs_that_cannot_be_are_refused(
    tmp_path: Path, lines: list[object], problem: str
) -> None:
    path = jsonl(tmp_path, *lines)
    with pytest.raises(InputError) as caught:
        read_predictions(path)
    assert str(caught.value).splitlines()[1:] == [f"{path}:{problem}"]


def test_what_stands_under_another_id_of_a_task_is_its_own(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"instance_id": "org_case_1", "model_patch": "", "model_name_or_path": "m"},
        {**alone("greet"), "instance_id": "c1"},
    ]
    found = read_predictions(jsonl(tmp_path, *lines)).known_as("t", ("c1", "org_case_1"))
    assert (set(found.by_task), set(found.alone)) == ({"t"}, {("t", "greet")})
    twice = read_predictions(jsonl(tmp_path, lines[0], {**lines[0], "instance_id": "c1"}))
    with pytest.raises(InputError) as caught:
        twice.known_as("t", ("c1", "org_case_1"))
    assert str(caught.value) == "t: two predictions for one task, under different ids of it"
