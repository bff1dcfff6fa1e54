"""What labs hand to evaluate: every form of a patch, patches that are wrong, and code that runs away."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.digests import digest_of
from packager.evaluate.profile import format_profile, parse_profile
from packager.evaluate.verdict import parse_verdict
from packager.oci.record import format_record
from packager.seal.bundle import seal
from packager.seal.identities import read_root
from tests.support.walk import TASK, Party, outcomes, read_contents, reasons, remembered, signed_by_authors, with_seal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.engine, *([] if os.environ.get("WIDESWE_INPUTS") else [pytest.mark.network])]

RESOLVED = {TASK: "resolved", "gauge": "resolved", "tidewatch": "resolved"}


def joint_patch(patches: dict[str, bytes]) -> str:
    """Return one patch over /workspace: the names of files begin with the target."""
    parts = [
        re.sub(rb"^(diff --git a/|--- a/)|(?<=^\+\+\+ b/)", rb"\g<0>%s/" % name.encode(), data, flags=re.MULTILINE)
        for name, data in patches.items()
    ]
    return b"".join(
        re.sub(rb"^(diff --git \S+ b/)", rb"\1%s/" % name.encode(), part, flags=re.MULTILINE)
        for name, part in zip(patches, parts, strict=True)
    ).decode()


def predictions(path: Path, **answer: object) -> Path:
    lines = [
        {"instance_id": "another-1", "model_patch": ""},
        {"instance_id": TASK, "model_name_or_path": "m", **answer},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_file_for_each_target_gives_a_verdict_that_binds_image_and_patches(
    author: Party, gold: dict[str, bytes], tmp_path: Path
) -> None:
    words: list[str | Path] = []
    for name, data in gold.items():
        (tmp_path / f"{name}-final.txt").write_bytes(data)
        words += ["--target-patch", f"{name}={tmp_path}/{name}-final.txt"]
    output = tmp_path / "out" / "verdict.json"
    shown = author.evaluate(*words, "--output", output)
    verdict = parse_verdict(output.read_bytes())
    assert shown == json.loads(output.read_bytes()) == verdict.document()
    assert outcomes(shown) == RESOLVED
    assert verdict.image == author.record.manifest.digest
    assert verdict.patches == {name: digest_of(data) for name, data in gold.items()}
    assert [verdict.grade.targets[name].fail_to_pass.passed for name in ("gauge", "tidewatch")] == [9, 10]
    tampered = output.read_bytes().replace(b'"passed": 9,', b'"passed": 8,')
    with pytest.raises(Exception, match=re.escape(f"verdict: expected {verdict.digest}, found sha256:")):
        parse_verdict(tampered)


def test_a_folder_of_tasks_is_as_good_as_a_folder_of_targets(
    author: Party, gold: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / TASK).mkdir()
    for name, data in gold.items():
        (tmp_path / TASK / f"{name}.diff").write_bytes(data)
    assert outcomes(author.evaluate("--patch", tmp_path)) == RESOLVED


@pytest.mark.parametrize("form", ["patches", "model_patch"])
def test_predictions_are_taken_in_both_forms(form: str, author: Party, gold: dict[str, bytes], tmp_path: Path) -> None:
    texts = {name: data.decode() for name, data in gold.items()}
    answer = texts if form == "patches" else joint_patch(gold)
    assert outcomes(author.evaluate("--patch", predictions(tmp_path / "p.jsonl", **{form: answer}))) == RESOLVED


def test_a_patch_that_does_not_apply_is_unresolved_and_names_the_hunk(author: Party, tmp_path: Path) -> None:
    (tmp_path / "gauge.patch").write_text(
        "diff --git a/lib/Gauge.pm b/lib/Gauge.pm\n--- a/lib/Gauge.pm\n+++ b/lib/Gauge.pm\n"
        "@@ -1,2 +1,2 @@\n package Gauge;\n-no such line\n+another\n"
    )
    verdict = author.evaluate("--patch", tmp_path, exit_code=1)
    assert outcomes(verdict) == {TASK: "unresolved", "gauge": "unresolved", "tidewatch": "unresolved"}
    assert reasons(verdict)["gauge"] == (
        "lib/Gauge.pm, hunk 1 (line 4 of the patch): does not fit: at line 2 expected 'no such line\\n', found '\\n'"
    )
    assert verdict["bound"]["targets"]["gauge"]["FAIL_TO_PASS"] == {"passed": 0, "total": 9}


UNKNOWN = f"error: task {TASK}: a patch for 'gaug', which is no target\nhint: targets: gauge, tidewatch\n"
EMPTY = "/dev/null"


def test_what_cannot_be_a_patch_for_the_task_ends_with_exit_code_3(author: Party, tmp_path: Path) -> None:
    (tmp_path / "gaug.patch").touch()
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    stray = predictions(tmp_path / "stray.jsonl", patches={"gaug": ""})
    said = {
        UNKNOWN: (["--target-patch", f"gaug={EMPTY}"], ["--patch", tmp_path], ["--patch", stray]),
        f"error: {tmp_path}/none.patch: cannot be read: No such file or directory\n": (
            ["--target-patch", f"gauge={tmp_path}/none.patch"],
        ),
        f"error: 1 problem\n{bad}:1: expected an object with instance_id\n": (["--patch", bad],),
    }
    found = {
        text: [author.refuse("evaluate", TASK, *words, exit_code=3) for words in ways] for text, ways in said.items()
    }
    assert found == {text: [text] * len(ways) for text, ways in said.items()}


USAGE = {
    "error: give the patches in one way\nhint: --patch PATH, --target-patch TARGET=FILE, or --gold\n": (
        ["--gold", "--patch", "."],
        [],
    ),
    "error: --target-patch takes TARGET=FILE\n": (["--target-patch", "gauge"],),
    "error: --output holds the verdict of one task\nhint: evaluate one task, or use --json\n": (
        ["another-1", "--gold", "--output", "verdict.json"],
    ),
}


@pytest.mark.parametrize("text", USAGE)
def test_a_wrong_command_line_ends_with_exit_code_2(text: str, author: Party) -> None:
    for words in USAGE[text]:
        assert author.refuse("evaluate", TASK, *words, exit_code=2) == text


def test_a_verdict_that_cannot_be_written_ends_with_exit_code_6(author: Party, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "verdict.json"
    words = ("--target-patch", f"gauge={EMPTY}", "--output", output)
    assert author.refuse("evaluate", TASK, *words, exit_code=6) == f"error: {output}: cannot be written: File exists\n"


def test_a_registry_that_is_not_there_ends_with_exit_code_6(author: Party) -> None:
    said = author.refuse("pull", f"127.0.0.1:9/wideswe/{TASK}:v1", exit_code=6)
    assert said.startswith("error: 127.0.0.1:9/wideswe/")


# Code that runs away --------------------------------------------------------------------------------------------------

LIMIT_S = 4
TESTING = "'pytest' in __import__('sys').modules"
FIRST_LINES = {
    "gauge": ("lib/Gauge.pm", "package Gauge;"),
    "tidewatch": (
        "tidewatch/__init__.py",
        '"""Watches the tide: reads what water gauges recorded, and answers questions about it."""',
    ),
}


def insert(target: str, code: str) -> bytes:
    """Return a patch that adds a line after the first one of a file that every test loads."""
    path, line = FIRST_LINES[target]
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,3 @@\n {line}\n+{code}\n \n".encode()


@pytest.fixture
def hurried(author: Party) -> Iterator[Party]:
    """Give the author with an image whose seal allows a few seconds per target; it is signed and granted as usual."""
    contents = read_contents(author)
    profile = parse_profile(contents.profile)
    targets = tuple(replace(target, timeout_s=LIMIT_S) for target in profile.targets)
    changed = replace(contents, profile=format_profile(replace(profile, targets=targets)))
    record = signed_by_authors(author, with_seal(author, seal(changed, read_root(author.keys / "root.key"))))
    with remembered(author, replace(record, grants=author.record.grants)):
        yield author


def evaluate(party: Party, folder: Path, patches: dict[str, bytes]) -> Any:
    for name, data in patches.items():
        (folder / f"{name}.patch").write_bytes(data)
    return party.evaluate("--patch", folder, exit_code=1)


def test_tests_that_never_end_are_a_timeout(hurried: Party, tmp_path: Path) -> None:
    endless = {
        "gauge": insert("gauge", "1 while $0 =~ /all/;"),
        "tidewatch": insert("tidewatch", f"while {TESTING}: pass"),
    }
    verdict = evaluate(hurried, tmp_path, endless)
    assert outcomes(verdict) == {TASK: "timeout", "gauge": "timeout", "tidewatch": "timeout"}
    assert reasons(verdict) == dict.fromkeys(endless, f"not finished after {LIMIT_S} s")
    assert all(LIMIT_S * 1000 <= spent < LIMIT_S * 3000 for spent in verdict["durations_ms"].values())


def test_a_patch_that_hangs_before_the_tests_is_a_timeout_too(hurried: Party, tmp_path: Path) -> None:
    verdict = evaluate(hurried, tmp_path, {"tidewatch": insert("tidewatch", "while True: pass")})
    assert outcomes(verdict) == {TASK: "unresolved", "gauge": "unresolved", "tidewatch": "timeout"}
    assert reasons(verdict)["tidewatch"] == f"prepare: not finished after {LIMIT_S * 10} s"


def test_a_memory_bomb_ends_at_the_limit_and_is_unresolved(author: Party, tmp_path: Path) -> None:
    bombs = {
        "gauge": insert("gauge", 'my @x; push @x, "x" x (1 << 26) while $0 =~ /all/;'),
        "tidewatch": insert("tidewatch", f"x = [bytearray(b'x') * (1 << 26) for _ in range(64 * ({TESTING}))]"),
    }
    verdict = evaluate(author, tmp_path, bombs)
    assert outcomes(verdict) == {TASK: "unresolved", "gauge": "unresolved", "tidewatch": "unresolved"}
    assert reasons(verdict) == dict.fromkeys(bombs, "no results: more memory than the limit allows")


def test_an_image_that_is_not_in_the_store_says_how_to_get_it(author: Party) -> None:
    assert author.refuse("verify", "localhost:5000/x/y:v1", exit_code=3) == (
        "error: localhost:5000/x/y:v1: there is no image of this task in the store\n"
        "hint: wideswe-pack pull localhost:5000/x/y:v1, then name the task that it prints\n"
    )
    assert format_record(author.record) == author.store.name("images", TASK)
