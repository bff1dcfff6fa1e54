"""Failure classes: from final diffs and trajectories of three agents' shapes, with the evidence."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import InputError
from packager.evaluate.failures import classify_failure, recognised
from packager.evaluate.run_record import Failure
from packager.evaluate.trajectory import Trajectory, parse_trajectory, read_trajectory
from tests.support.made_up_runs import made_up

if TYPE_CHECKING:
    from pathlib import Path

    from packager.evaluate.run_record import Change

HALF = {"boxo": "resolved", "kubo": "unresolved"}
REASON = "1 of 7 expected tests did not pass, first 't'"
SILENT = Trajectory()


def failure(
    outcomes: dict[str, str], changes: dict[str, Change], trajectory: Trajectory | None = SILENT, **more: Any
) -> Failure | None:
    return classify_failure(made_up("one", outcomes).grade, changes, trajectory, **more)


def said(*words: str) -> Trajectory:
    return Trajectory(said=words)


def test_a_target_that_was_never_thought_of_is_scope() -> None:
    reads = said("Let me read kubo for reference", "boxo must expose the new option.")
    expected = Failure("scope", "kubo", "not changed, and never named as what is to be changed")
    assert failure(HALF, {"boxo": "edited", "kubo": "untouched"}, reads) == expected
    astray = failure(HALF, {"boxo": "edited", "kubo": "untouched"}, reads, strays=("docs", "helia"))
    assert astray == Failure("scope", "kubo", f"{expected.evidence}; changed instead: docs, helia")


def test_a_target_that_was_known_and_left_alone_is_delivery() -> None:
    words = "I fixed boxo. Next I will update the call site in kubo."
    assert failure(HALF, {"boxo": "edited", "kubo": "untouched"}, said(words)) == Failure(
        "delivery", "kubo", "said: Next I will update the call site in kubo"
    )


def test_what_was_written_and_is_gone_is_delivery() -> None:
    wrote = Trajectory(edited=("/workspace/boxo/a.go", "/workspace/kubo/core/b.go"))
    assert failure(HALF, {"boxo": "edited", "kubo": "untouched"}, wrote) == Failure(
        "delivery", "kubo", "wrote /workspace/kubo/core/b.go, and nothing of it is left"
    )


def test_a_patch_that_does_not_apply_is_delivery_even_without_a_trajectory() -> None:
    assert failure(HALF, {"boxo": "edited", "kubo": "refused"}, None) == Failure(
        "delivery", "kubo", f"a patch that does not apply: {REASON}"
    )


def test_a_change_that_does_not_pass_is_post_edit() -> None:
    assert failure(HALF, {"boxo": "edited", "kubo": "edited"}, None) == Failure(
        "post-edit", "kubo", f"changed, and {REASON}"
    )


def test_the_first_stage_that_broke_counts() -> None:
    three = dict.fromkeys(("go", "php", "ruby"), "unresolved")
    knows = said("ruby needs the same change")
    changes: dict[str, Change] = {"go": "edited", "php": "untouched", "ruby": "untouched"}
    assert failure(three, changes, knows) == Failure(
        "scope", "php", "not changed, and never named as what is to be changed"
    )
    later = failure(three, {**changes, "php": "edited"}, knows)
    assert later == Failure("delivery", "ruby", "said: ruby needs the same change")


@pytest.mark.parametrize(
    ("outcomes", "changes", "words", "found"),
    [
        (
            {"sentry-go": "resolved", "sentry-python": "unresolved", "sentry-ruby": "unresolved"},
            {"sentry-go": "edited", "sentry-python": "untouched", "sentry-ruby": "untouched"},
            "The target is sentry-go. Let me read sentry-python/tracing.py as a reference. Now I will add it to sentry-go.",
            ("scope", "sentry-python"),
        ),
        (
            {"sentry-native": "resolved", "sentry-godot": "unresolved"},
            {"sentry-native": "edited", "sentry-godot": "untouched"},
            "The call in sentry-godot/src/sdk.cpp is wrong and has to use the new function. First the native API.",
            ("delivery", "sentry-godot"),
        ),
        (
            {"sentry-php": "resolved", "sentry-laravel": "resolved", "sentry-symfony": "unresolved"},
            dict.fromkeys(("sentry-php", "sentry-laravel", "sentry-symfony"), "edited"),
            "All three accept the option now.",
            ("post-edit", "sentry-symfony"),
        ),
    ],
)
def test_runs_like_the_papers_three_examples_have_its_classes(
    outcomes: dict[str, str], changes: dict[str, Change], words: str, found: tuple[str, str]
) -> None:
    made = failure(outcomes, changes, said(words))
    assert made is not None
    assert (made.failure_class, made.target) == found


def test_only_targets_that_are_not_resolved_are_looked_at() -> None:
    assert failure(HALF, {"boxo": "untouched", "kubo": "edited"}) == Failure(
        "post-edit", "kubo", f"changed, and {REASON}"
    )


def test_what_was_not_judged_or_cannot_be_known_has_no_class() -> None:
    untouched: dict[str, Change] = {"boxo": "untouched", "kubo": "untouched"}
    for outcome in ("resolved", "timeout", "infra", "missing"):
        assert failure({"boxo": "resolved", "kubo": outcome}, untouched) is None
    assert failure(HALF, untouched, None) is None
    assert failure(HALF, {}, SILENT) is None


@pytest.mark.parametrize(
    "words",
    [
        "I need to update kubo to use the new type",
        "- fix the caller in kubo",
        "2. Adapt `core/node.go` in kubo",
        "Then I should also change /workspace/kubo/core/node.go",
        "The plan: first boxo, then wire the option into **kubo**",
        "kubo needs the option as well",
        "kubo's constructor must take the new argument",
        "The call site kubo/core/node.go is wrong",
        "Updating kubo's configuration",
        "Now let's modify KUBO",
    ],
)
def test_words_that_say_that_a_target_is_to_be_changed(words: str) -> None:
    assert recognised("kubo", said("Hello\n" + words)) == words.removeprefix("2. ")


@pytest.mark.parametrize(
    "words",
    [
        "Let me look at kubo for reference",
        "I will implement it in boxo as kubo does",
        "kubo implements this with a map",
        "kubo needs no changes",
        "I will not touch kubo; I should update boxo",
        "kubo doesn't need the option",
        "update kubo-desktop to the new type",
        "fix kubo.example",
        "We should fix mykubo",
        "The tests of kubo pass",
        "I'll add it to boxo, following kubo",
        "fix boxo\nkubo",
    ],
)
def test_words_that_do_not(words: str) -> None:
    assert recognised("kubo", said(words)) == ""


def test_names_with_dots_and_dashes_are_taken_literally() -> None:
    assert recognised("update.example.org", said("We must fix update.example.org now")) != ""
    assert recognised("update.example.org", said("We must fix updatexexample.org now")) == ""


def test_no_text_makes_the_rule_slow() -> None:
    start = time.process_time()
    hostile = ["update " * 250 + "kubo", "kubo " * 390, "a/" * 900 + "kubo", "must add " + "x " * 900 + "kubo"]
    for _ in range(20):
        recognised("kubo", said(*hostile))
    assert time.process_time() - start < 2


def lines(*values: object) -> list[bytes]:
    return [json.dumps(value).encode() + b"\n" for value in values]


def test_a_codex_trajectory_is_read() -> None:
    found = parse_trajectory(
        lines(
            {"type": "thread.started", "thread_id": "x"},
            {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
            {"type": "item.completed", "item": {"type": "agent_message", "text": "done"}},
            {"type": "item.completed", "item": {"type": "todo_list", "items": [{"text": "update kubo"}]}},
            {"type": "item.completed", "item": {"type": "command_execution", "aggregated_output": "fix kubo"}},
            {
                "type": "item.completed",
                "item": {"type": "file_change", "changes": [{"path": "/workspace/boxo/a.go", "kind": "update"}]},
            },
        )
    )
    assert found == Trajectory(("/workspace/boxo/a.go",), ("hm", "done", "update kubo"))


def test_a_claude_code_trajectory_is_read() -> None:
    def says(*content: object, number: str = "m1") -> object:
        return {"type": "assistant", "message": {"id": number, "content": list(content)}}

    edit = {"type": "tool_use", "name": "Edit", "input": {"file_path": "/workspace/boxo/a.go"}}
    found = parse_trajectory(
        lines(
            {"type": "system", "subtype": "init"},
            {"type": "user", "message": {"content": [{"type": "text", "text": "the prompt"}]}},
            says({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I will"}),
            says(edit, {"type": "tool_use", "name": "Read", "input": {"file_path": "/workspace/kubo/b.go"}}),
            says(
                {"type": "tool_use", "name": "TodoWrite", "input": {"todos": [{"content": "update kubo"}]}}, number="m2"
            ),
            {"type": "result", "result": "done"},
        )
    )
    assert found == Trajectory(("/workspace/boxo/a.go",), ("hm", "I will", "update kubo", "done"), requests=2)


@pytest.mark.parametrize(
    ("count", "found"), [(3, 3), (0, None), (True, None), ("3", None), (-1, None), (1 << 60, None)]
)
def test_an_agent_may_say_how_often_it_asked(count: object, found: int | None) -> None:
    assert parse_trajectory(lines({"type": "requests", "count": count})).requests == found


def test_any_other_agent_may_say_it_plainly(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(lines({"type": "said", "text": "hi"}, {"type": "edited", "path": "boxo/x/a.go"})))
    found = read_trajectory(path)
    assert found.said == ("hi",)
    assert found.repositories() == {"boxo"}
    with pytest.raises(InputError) as caught:
        read_trajectory(tmp_path / "none")
    assert str(caught.value) == f"{tmp_path / 'none'}: cannot be read: No such file or directory"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError) as caught:
        read_trajectory(tmp_path / "pipe")
    assert str(caught.value) == f"{tmp_path / 'pipe'}: expected a file, found something else"


@pytest.mark.parametrize(
    "line",
    [
        b"\n", b"plain words\n", b"\xff\xfe\n", b"[1]\n", b'"x"\n', b"null\n", b"[" * 200_000, b'{"type": []}',
        b'{"type": "assistant", "message": 1}', b'{"type": "assistant", "message": {"content": [1, null, {}]}}',
        b'{"type": "item.completed", "item": {"type": "file_change", "changes": {"path": "x"}}}',
        b'{"type": "said", "text": 1}', b'{"type": "edited", "path": ["x"]}',
    ],
)  # fmt: skip
def test_other_lines_say_nothing(line: bytes) -> None:
    assert parse_trajectory([line]) == SILENT


def test_paths_elsewhere_are_of_no_repository() -> None:
    found = Trajectory(edited=("/tmp/kubo/a", "kubo", "/workspace/kubo", "/workspace/boxo/a", "./x"))
    assert found.repositories() == {"boxo", "."}
