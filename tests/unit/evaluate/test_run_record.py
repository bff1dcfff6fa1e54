"""The record of a run beside its verdict: read back as it was written, and refused with every fault named."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from packager.base.errors import InputError
from packager.evaluate.run_record import Failure, RunRecord, parse_run
from packager.evaluate.verdict import format_verdict, parse_verdict
from tests.support.made_up_runs import made_up

LEAST: dict[str, Any] = {"mode": "joint", "targets": ["a", "b"], "requests": None, "agent": ""}
FULL = RunRecord(
    mode="independent",
    targets=("b",),
    agent="codex",
    requests=12,
    model="m",
    kind="bugfix",
    agent_ms=0,
    ended="finished",
    trajectory="one.b.jsonl",
    changes={"b": "edited"},
    strays=("docs",),
    failure=Failure("post-edit", "b", "edited, and 1 of 7 expected tests did not pass"),
    details={"capped": True, "bytes": 10, "note": None, "of": "x"},
)


def test_a_record_says_only_what_it_knows_and_four_things_always() -> None:
    assert parse_run(LEAST).plain() == LEAST
    assert RunRecord().plain() == {"mode": "joint", "targets": [], "requests": None, "agent": ""}


def test_a_record_is_read_back_as_it_was_written() -> None:
    assert parse_run(json.loads(json.dumps(FULL.plain()))) == FULL
    assert pickle.loads(pickle.dumps(FULL)) == FULL  # noqa: S301 - our own
    assert set(FULL.plain()) == {
        *("mode", "targets", "agent", "requests", "model", "kind", "agent_ms", "ended", "trajectory"),
        *("changes", "strays", "failure", "details"),
    }


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "expected an object"),
        ({}, "missing keys: mode, targets, requests, agent"),
        ({**LEAST, "colour": 1, "x": 2}, "unknown keys: colour, x"),
        ({**LEAST, "mode": ["joint"]}, "mode: expected joint or independent"),
        ({**LEAST, "mode": "independent"}, "targets: expected one target in an independent run, found 2"),
        ({**LEAST, "targets": "ab"}, "targets: expected a list of names"),
        ({**LEAST, "strays": [""]}, "strays: expected a list of names"),
        ({**LEAST, "requests": True}, "requests: expected a whole number, or null"),
        ({**LEAST, "requests": -1}, "requests: expected a whole number, or null"),
        ({**LEAST, "agent_ms": 1.5}, "agent_ms: expected a whole number, or null"),
        ({**LEAST, "agent": None}, "agent: expected text"),
        ({**LEAST, "kind": "chore"}, "kind: expected bugfix or feature"),
        ({**LEAST, "changes": {"a": "touched"}}, "changes: expected edited, untouched, refused by target"),
        ({**LEAST, "details": {"a": 1.5}}, "details: expected text, whole numbers, booleans or null by name"),
        ({**LEAST, "trajectory": "../x"}, "trajectory: expected the name of a file beside the verdict"),
        ({**LEAST, "failure": {"class": "scope"}}, "failure: expected class, target and evidence"),
        (
            {**LEAST, "failure": {"class": "luck", "target": 1, "evidence": ""}},
            "failure.class: expected scope, delivery, post-edit; failure: expected text as target and evidence",
        ),
        ({**LEAST, "mode": "both", "agent": 1}, "mode: expected joint or independent; agent: expected text"),
    ],
)
def test_a_record_that_cannot_be_is_refused_with_all_that_is_wrong(given: Any, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_run(given)
    assert str(caught.value) == f"run: {problem}"


def test_a_record_cannot_be_made_wrong_either() -> None:
    with pytest.raises(InputError) as caught:
        RunRecord(mode="independent", targets=("a", "b"))
    assert str(caught.value) == "run: targets: expected one target in an independent run, found 2"


def test_a_verdict_carries_the_record_and_its_digest_does_not_cover_it() -> None:
    verdict = made_up("one", {"a": "resolved", "b": "unresolved"})
    told = replace(
        verdict,
        run=RunRecord(targets=("a", "b"), agent="codex", requests=3),
        logs={"b": "end\n"},
        ended={"b": {"t": "absent"}},
    )
    assert parse_verdict(format_verdict(told)) == told
    assert (told.digest, told.document()["run"]["agent"]) == (verdict.digest, "codex")
    assert "run" not in verdict.document()
    assert not {"logs", "ended"} & set(verdict.document())


def test_a_verdict_with_the_others_at_gold_says_so_under_its_digest() -> None:
    verdict = made_up("one", {"b": "resolved"})
    alone = replace(verdict, at_gold=("a",), run=FULL)
    assert parse_verdict(format_verdict(alone)) == alone
    assert (alone.mode, alone.bound()["at_gold"], alone.digest != verdict.digest) == ("independent", ["a"], True)
    assert parse_verdict(format_verdict(replace(verdict, at_gold=()))).mode == "independent"


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"at_gold": ("b",)}, "verdict: expected no target both graded and at gold"),
        ({"run": FULL}, "run: expected the record of a run that is joint, found independent"),
        ({"at_gold": ("a",), "run": RunRecord()}, "run: expected the record of a run that is independent, found joint"),
    ],
)
def test_a_verdict_and_its_record_agree(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(made_up("one", {"b": "resolved"}), **changed)
    assert str(caught.value) == problem


def test_text_that_cannot_be_written_is_replaced() -> None:
    failure = Failure("scope", "a\ud800", "\udfff")
    record = RunRecord(model="m\ud800", strays=("\udc80",), details={"\ud800": "\ud800"}, failure=failure)
    verdict = replace(made_up("one", {"a": "unresolved"}), run=record)
    read = parse_verdict(format_verdict(verdict)).run
    assert read is not None
    assert (read.model, read.strays, dict(read.details)) == ("m\ufffd", ("\ufffd",), {"\ufffd": "\ufffd"})
    assert read.failure == Failure("scope", "a\ufffd", "\ufffd")
