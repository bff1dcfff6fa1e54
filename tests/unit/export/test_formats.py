"""The files of each format, whole, over a made-up task; none but SWE-bench's holds anything that is sealed."""

from __future__ import annotations

import ast
import base64
import io
import json
import tomllib
import zipfile

import pytest
import yaml

from packager.base.errors import InputError, IntegrityError
from packager.evaluate.profile import Profile, TargetProfile
from packager.evaluate.trees import Kind
from packager.export.harbor import format_harbor, format_keys
from packager.export.inspect import format_inspect
from packager.export.swebench import (
    Instance,
    derived_name,
    format_dockerfile,
    format_repository,
    format_row,
    format_rows,
    instances_of,
)
from packager.export.view import ExportedTarget, ExportedTask, collect_command, read_view
from packager.sandbox.engine import Limits
from packager.seal.bundle import SealContents, parse_plain
from tests.support.memory_tree import MemoryTree

IMAGE = "registry.example.org/wideswe/tides-001@sha256:" + "a" * 64
TARGETS = tuple(
    TargetProfile(name, "", "run", ".", "tap", "stdout", 120.0, (), (), ()) for name in ("gauge", "tide-watch")
)
PROFILE = Profile("tides-001", TARGETS, Limits(2, 512 << 20, 256))
VIEW = ExportedTask(
    task="tides-001",
    image=IMAGE,
    platform="linux/amd64",
    prompt='Make it "so".\n',
    kind="feature",
    relation="parallel",
    targets=(ExportedTarget("gauge", "1" * 40), ExportedTarget("tide-watch", "2" * 40)),
    env={"PATH": "/usr/bin", "A": 'b"c'},
    profile=PROFILE,
)
GOLD = b"diff --git a/lib/a b/lib/a\n--- a/lib/a\n+++ b/lib/a\n@@ -1 +1 @@\n-old\n+new\n"
CONTENTS = SealContents(
    suite="wideswe",
    task="tides-001",
    version="v1",
    gold={"gauge": GOLD, "tide-watch": b""},
    hidden={"gauge": {"t/x.t": (0o755, b"ok\n"), "t/old.t": (0o644, b"new test\n")}, "tide-watch": {}},
    expected={
        "gauge": {"FAIL_TO_PASS": ["a b"], "PASS_TO_PASS": ["c\td"]},
        "tide-watch": {"FAIL_TO_PASS": ["e"], "PASS_TO_PASS": []},
    },
    profile=b"{}",
)
BASE = {b"gauge/lib/a": (Kind.FILE, b"old\n"), b"gauge/t/old.t": (Kind.FILE, b"old test\n")}
SOLVED = {**BASE, b"gauge/lib/a": (Kind.FILE, b"new\n")}
COLLECT = (
    "mkdir -p /logs/artifacts/wideswe && cd /workspace && find ./gauge ./tide-watch -name .git -prune -o "
    "\\( -type f -o -type l \\) -print0 | tar --null --no-recursion --hard-dereference --owner=0 --group=0 -T - "
    "-cf /logs/artifacts/wideswe/workspace.tar"
)


def test_a_harbor_task_is_what_harbor_reads() -> None:
    files = format_harbor(VIEW)
    assert tomllib.loads(files["task.toml"][1].decode()) == {
        "schema_version": "1.4",
        "task": {
            "name": "wideswe/tides-001",
            "description": "feature in 2 repositories (parallel)",
            "keywords": ["cross-repository", "feature", "parallel"],
        },
        "metadata": {
            "image": IMAGE,
            "platform": "linux/amd64",
            "targets": ["gauge", "tide-watch"],
            "commits": ["1" * 40, "2" * 40],
        },
        "environment": {
            "docker_image": IMAGE,
            "network_mode": "no-network",
            "workdir": "/workspace",
            "cpus": 2,
            "memory_mb": 512,
        },
        "verifier": {
            "environment_mode": "separate",
            "network_mode": "no-network",
            "timeout_sec": 300.0,
            "env": {"WIDESWE_TASK_KEY": "${WIDESWE_KEY_TIDES_001}"},
            "collect": [{"command": COLLECT, "service": "main", "timeout_sec": 600.0, "user": "root"}],
        },
        "solution": {"env": {"WIDESWE_TASK_KEY": "${WIDESWE_KEY_TIDES_001}"}},
    }
    assert {name: mode for name, (mode, _) in files.items()} == {
        "task.toml": 0o644,
        "instruction.md": 0o644,
        "environment/Dockerfile": 0o644,
        "tests/test.sh": 0o755,
        "tests/score.pyz": 0o644,
        "solution/solve.sh": 0o755,
        "solution/solve.pyz": 0o644,
    }
    assert files["instruction.md"][1] == b'Make it "so".\n'
    assert files["environment/Dockerfile"][1].decode() == f"FROM {IMAGE}\n"
    assert files["tests/test.sh"][1] == b"#!/bin/sh\nexec python3 -I /tests/score.pyz\n"
    assert settings_in(files["tests/score.pyz"][1]) == {"mode": "harbor", "task": "tides-001", "env": dict(VIEW.env)}
    assert settings_in(files["solution/solve.pyz"][1]) == {"mode": "solve", "task": "tides-001", "env": dict(VIEW.env)}


def settings_in(scorer: bytes) -> object:
    with zipfile.ZipFile(io.BytesIO(scorer)) as archive:
        call = archive.read("__main__.py").decode().splitlines()[-1]
    return ast.literal_eval(call.removeprefix("raise SystemExit(main(").removesuffix("))"))


def test_without_the_evaluators_key_an_hour_per_target_is_given() -> None:
    view = ExportedTask(**{**vars(VIEW), "profile": None})
    found = tomllib.loads(format_harbor(view)["task.toml"][1].decode())
    assert found["verifier"]["timeout_sec"] == 7200.0
    assert "memory_mb" not in found["environment"]
    assert "mem_limit" not in json.loads(format_inspect([view])["compose/tides-001.yaml"][1])["services"]["default"]


def test_keys_are_variables_of_the_host_one_a_task() -> None:
    keys = {"tides-001": "AGE-SECRET-KEY-1A\nAGE-SECRET-KEY-1B\n", "a.b_c": "AGE-SECRET-KEY-1C"}
    assert format_keys(keys).decode() == (
        "WIDESWE_KEY_A_B_C=AGE-SECRET-KEY-1C\nWIDESWE_KEY_TIDES_001=AGE-SECRET-KEY-1A,AGE-SECRET-KEY-1B\n"
    )


def test_an_inspect_task_has_a_sample_and_a_compose_file_for_each_task() -> None:
    files = format_inspect([VIEW])
    assert sorted(files) == ["compose/tides-001.yaml", "samples.jsonl", "wideswe_task.py"]
    assert yaml.safe_load(files["compose/tides-001.yaml"][1]) == {
        "services": {
            "default": {
                "image": IMAGE,
                "command": ["tail", "-f", "/dev/null"],
                "init": True,
                "network_mode": "none",
                "working_dir": "/workspace",
                "cpus": 2,
                "mem_limit": 512 << 20,
                "pids_limit": 256,
            }
        }
    }
    assert json.loads(files["samples.jsonl"][1]) == {
        "task": "tides-001",
        "prompt": 'Make it "so".\n',
        "image": IMAGE,
        "targets": ["gauge", "tide-watch"],
        "collect": COLLECT.replace("/logs/artifacts/wideswe", "/tmp/wideswe"),
        "compose": "compose/tides-001.yaml",
    }
    text = files["wideswe_task.py"][1].decode()
    assert text.startswith('"""tides-001 for Inspect, by wideswe-pack.\n')
    assert {
        node.name for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    } == {
        "wideswe",
        "wideswe_pack",
        "ask",
        "expect",
        "unreadable",
        "sealed_gold",
        "no_answer",
        "verdict",
    }


def row_of(alone: str | None) -> dict[str, object]:
    instance = Instance(f"id-{alone}", alone, IMAGE)
    return format_row(VIEW, instance, CONTENTS, base=MemoryTree(BASE), solved=MemoryTree(SOLVED))


def test_a_row_for_the_whole_task_has_all_targets_below_their_names() -> None:
    row = row_of(None)
    patch, tests = str(row["patch"]), str(row["test_patch"])
    assert patch.startswith("diff --git a/gauge/lib/a b/gauge/lib/a\n")
    assert patch.endswith("--- a/gauge/lib/a\n+++ b/gauge/lib/a\n@@ -1,1 +1,1 @@\n-old\n+new\n")
    assert "new file mode 100755\n" in tests
    assert "+++ b/gauge/t/old.t\n@@ -1,1 +1,1 @@\n-old test\n+new test\n" in tests
    del row["eval_script"]
    assert row == {
        "instance_id": "id-None",
        "repo": "gauge+tide-watch",
        "version": "v1",
        "base_commit": f"{'1' * 40}+{'2' * 40}",
        "environment_setup_commit": f"{'1' * 40}+{'2' * 40}",
        "created_at": "",
        "hints_text": "",
        "problem_statement": 'Make it "so".\n',
        "patch": patch,
        "test_patch": tests,
        "FAIL_TO_PASS": ["gauge: a b", "tide-watch: e"],
        "PASS_TO_PASS": ["gauge: c\\u0009d"],
        "split": "test",
        "datasets": ["wideswe/wideswe"],
        "image": IMAGE,
        "log_parser": "parse_log_jest_json",
        "eval_type": "pass_and_fail",
    }


def test_a_row_for_one_target_has_that_one_alone() -> None:
    row = row_of("gauge")
    assert str(row["patch"]).startswith("diff --git a/lib/a b/lib/a\n")
    assert (row["repo"], row["base_commit"], row["FAIL_TO_PASS"]) == ("gauge", "1" * 40, ["gauge: a b"])
    assert (row_of("tide-watch")["patch"], row_of("tide-watch")["test_patch"]) == ("", "")


def test_the_script_of_a_row_carries_scorer_and_seal() -> None:
    script = str(row_of("gauge")["eval_script"])
    lines = script.splitlines()
    body = lines[lines.index("base64 -d > /tmp/wideswe.pyz <<'WIDESWE'") + 1 : lines.index("WIDESWE")]
    scorer = base64.b64decode("".join(body), validate=True)
    assert lines[:3] == ["#!/bin/bash", "set -uxo pipefail", "exec 2>&1"]
    assert lines[-3:] == [": '>>>>> Start Test Output'", "python3 -I /tmp/wideswe.pyz", ": '>>>>> End Test Output'"]
    expected = {"mode": "swebench", "task": "tides-001", "env": dict(VIEW.env), "alone": "gauge"}
    assert settings_in(scorer) == expected
    with zipfile.ZipFile(io.BytesIO(scorer)) as archive:
        assert parse_plain(archive.read("seal.tar")) == CONTENTS


def test_a_task_repository_says_the_same_as_the_rows() -> None:
    rows = [row_of(None), row_of("gauge")]
    files = format_repository(rows, {str(row["instance_id"]): "FROM x\n" for row in rows})
    assert yaml.safe_load(files["sweb.yaml"][1]) == {"datasets": ["wideswe/wideswe"], "splits": ["test"]}
    facts = yaml.safe_load(files["tasks/id-gauge/task.yaml"][1])
    assert (facts["image"], facts["pinned_image"]) == ("swebench/sweb.eval.x86_64.id-gauge:latest", IMAGE)
    assert json.loads(files["tasks/id-gauge/tests.json"][1]) == {
        "FAIL_TO_PASS": ["gauge: a b"],
        "PASS_TO_PASS": ["gauge: c\\u0009d"],
    }
    assert files["tasks/id-gauge/gold.patch"] == (0o644, str(rows[1]["patch"]).encode())
    assert files["tasks/id-gauge/eval.sh"] == (0o755, str(rows[1]["eval_script"]).encode())
    read = [json.loads(line) for line in format_rows(rows).splitlines()]
    lists = ("FAIL_TO_PASS", "PASS_TO_PASS")
    assert [{**row, **{key: json.loads(row[key]) for key in lists}} for row in read] == rows


def test_names_of_instances_and_of_their_images() -> None:
    ids = (("tides-001", None), ("tides-001__gauge", "gauge"), ("tides-001__tide-watch", "tide-watch"))
    assert instances_of(VIEW) == ids
    assert derived_name("Tides-001__gauge") == "swebench/sweb.eval.x86_64.tides-001_1776_gauge:latest"
    assert format_dockerfile(VIEW, None) == f"FROM {IMAGE}\nRUN ln -s /workspace /testbed\n"
    assert format_dockerfile(VIEW, "gauge") == f"FROM {IMAGE}\nRUN ln -s /workspace/gauge /testbed\n"


def test_tests_that_no_text_can_hold_are_refused() -> None:
    contents = SealContents(**{**vars(CONTENTS), "hidden": {"gauge": {"t/x": (0o644, b"\xff\n")}, "tide-watch": {}}})
    with pytest.raises(InputError) as refusal:
        format_row(VIEW, Instance("id", "gauge", IMAGE), contents, base=MemoryTree(BASE), solved=MemoryTree(SOLVED))
    assert str(refusal.value) == "id: the hidden tests are not UTF-8, and rows hold text"


TASK_FILE = {
    "schema": "wideswe-task/1",
    "task": "tides-001",
    "platform": "linux/amd64",
    "kind": "feature",
    "relation": "parallel",
    "targets": [{"name": one.name, "commit": one.commit} for one in VIEW.targets],
}


def image_files(task: object, prompt: bytes = b'Make it "so".\n') -> MemoryTree:
    files = {"opt/wideswe/task.json": json.dumps(task).encode(), "opt/wideswe/prompt.md": prompt}
    return MemoryTree({name.encode(): (Kind.FILE, data) for name, data in files.items()})


def test_an_image_tells_what_is_exported() -> None:
    assert read_view(image_files(TASK_FILE), "tides-001", image=IMAGE, env=VIEW.env, profile=PROFILE) == VIEW


@pytest.mark.parametrize(
    ("task", "prompt", "told"),
    [
        (
            {**TASK_FILE, "task": "other"},
            b"",
            "/opt/wideswe/task.json: expected the task file of tides-001, found another",
        ),
        ({**TASK_FILE, "targets": []}, b"", "/opt/wideswe/task.json: it names no target"),
        ([], b"", "/opt/wideswe/task.json: not a task file: "),
        ({**TASK_FILE, "targets": [{}]}, b"", "/opt/wideswe/task.json: not a task file: KeyError('name')"),
        (TASK_FILE, b"\xff", "/opt/wideswe/prompt.md: expected a prompt in UTF-8"),
    ],
    ids=["another task", "no target", "a list", "a target without a name", "no text"],
)
def test_an_image_that_tells_it_wrongly_is_refused(task: object, prompt: bytes, told: str) -> None:
    with pytest.raises((InputError, IntegrityError)) as refusal:
        read_view(image_files(task, prompt), "tides-001", image=IMAGE, env={}, profile=None)
    assert str(refusal.value).startswith(told)


def test_the_command_that_collects_names_each_checkout() -> None:
    assert collect_command(VIEW.targets, "/logs/artifacts/wideswe/workspace.tar") == COLLECT
