"""A release's lists against ours: the same tests under other spellings, and those that differ by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from packager.base.errors import InputError
from packager.evaluate.expected import ExpectedCases
from packager.evaluate.released import Comparison, ReleasedList, ReleasedLists, compare_released, parse_released

EXPECTED = ExpectedCases(
    fail_to_pass=("p::TestA", "p::TestB", "p::TestNew"),
    pass_to_pass=("p::TestC",),
    unstable={"p::TestSlow": "base failed, passed; gold passed, passed"},
    left_out={"p::TestOff": "base skipped; gold skipped"},
)


def compare(fail: tuple[str, ...], keep: tuple[str, ...] = (), **aliases: str) -> Comparison:
    return compare_released(ReleasedLists(fail, keep, aliases), EXPECTED)


def test_equal_lists_are_equal() -> None:
    found = compare(("p::TestA", "p::TestB", "p::TestNew"), ("p::TestC",))
    assert (found.equal, found.respelled) == (True, {})
    assert found.summary() == "FAIL_TO_PASS 3 of 3 as released; PASS_TO_PASS 1 of 1 as released"


def test_ids_that_differ_are_named_with_where_they_are_now() -> None:
    found = compare(("p::TestA", "p::TestC", "p::TestSlow", "p::TestOff", "p::Missing"))
    assert found.fail_to_pass == ReleasedList(
        released=5,
        same=1,
        gone={
            "p::TestC": "PASS_TO_PASS",
            "p::TestSlow": "unstable: base failed, passed; gold passed, passed",
            "p::TestOff": "left out: base skipped; gold skipped",
            "p::Missing": "not reported",
        },
        new=("p::TestB", "p::TestNew"),
    )
    assert found.pass_to_pass == ReleasedList(0, 0, {}, ("p::TestC",))
    assert found.summary() == ("FAIL_TO_PASS 1 of 5 as released, 2 more; PASS_TO_PASS 0 of 0 as released, 1 more")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("file.py::tests.x.Class::test[a]", "tests.x.Class::test[a]"),
        ("cargo::suite::works", "crate::bin::suite::works"),
        ("path.test.ts::suite > test", "path.test.ts::suite::test"),
        ("Class::method::#2", "Class::method"),
        ("a/b.rb::Spec::does it", "./a/b.rb::Spec::does it"),
        ("profile::transport_tests", "<command>"),
        ("TAP::a height may say that it is in metres", "a height may say that it is in metres"),
    ],
)
def test_other_spellings_are_recognised(theirs: str, ours: str) -> None:
    found = compare_released(ReleasedLists((theirs,), ()), ExpectedCases((ours,)))
    assert (found.equal, found.respelled) == (True, {theirs: ours})


def test_whole_titles_go_before_their_ends() -> None:
    ours = ("a height is in metres", "a record is in metres")
    found = compare_released(ReleasedLists(tuple(f"TAP::{one}" for one in ours), ()), ExpectedCases(ours))
    assert (found.equal, len(found.respelled)) == (True, 2)


def test_what_fits_two_ids_is_not_guessed() -> None:
    expected = ExpectedCases(("one::x::works", "two::y::works"))
    found = compare_released(ReleasedLists(("cargo::works",), ()), expected)
    assert found.respelled == {}
    assert found.fail_to_pass.gone == {"cargo::works": "not reported"}
    told = compare_released(ReleasedLists(("cargo::works",), (), {"cargo::works": "two::y::works"}), expected)
    assert (told.respelled, told.fail_to_pass.new) == ({"cargo::works": "two::y::works"}, ("one::x::works",))


def test_no_id_of_ours_stands_for_two_released_ones() -> None:
    found = compare_released(ReleasedLists(("a::works", "b::works"), ()), ExpectedCases(("c::works",)))
    assert (found.respelled, len(found.fail_to_pass.gone)) == ({}, 2)


def test_an_equal_id_is_never_taken_for_another() -> None:
    expected = ExpectedCases(("a::works",), ("b::works",))
    found = compare_released(ReleasedLists(("a::works", "c::works"), ()), expected)
    assert found.respelled == {"c::works": "b::works"}
    assert found.fail_to_pass.gone == {"c::works": "PASS_TO_PASS"}


def test_the_file_is_read() -> None:
    plain = {"a": {"FAIL_TO_PASS": ["x"], "PASS_TO_PASS": [], "MISSING_TO_PASS": ["x"], "aliases": {"x": "y"}}}
    data = json.dumps(plain).encode()
    assert parse_released(data, ["a", "b"], where="f") == {"a": ReleasedLists(("x",), (), {"x": "y"})}


LEAST: dict[str, Any] = {"FAIL_TO_PASS": ["x"], "PASS_TO_PASS": []}


@pytest.mark.parametrize(
    ("plain", "problem"),
    [
        ([], "f: expected lists by target"),
        ({"c": LEAST}, "f: lists of 'c', which is no target"),
        (
            {"a": {"FAIL_TO_PASS": []}},
            "f: a: expected FAIL_TO_PASS and PASS_TO_PASS, and beside them at most MISSING_TO_PASS, aliases",
        ),
        ({"a": {**LEAST, "PASS_TO_PASS": [1]}}, "f: a: expected a list of test ids in PASS_TO_PASS"),
        ({"a": {**LEAST, "aliases": []}}, "f: a: expected test ids by released test id in aliases"),
        ({"a": {**LEAST, "aliases": {"x": "z", "y": "z"}}}, "f: a: two aliases for one test id"),
    ],
)
def test_a_file_that_cannot_be_is_refused(plain: object, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_released(json.dumps(plain).encode(), ["a", "b"], where="f")
    assert str(caught.value) == problem
