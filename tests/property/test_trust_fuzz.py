"""Foreign bytes in every parser of trust: what comes out is a value or a PackError, never another exception.

Valid documents are changed in one place, as text (bytes cut, doubled, swapped) and as JSON (a value of another kind).
WIDESWE_FUZZ_EXAMPLES makes it a long run: the number is how often each parser is tried.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packager.base.digests import digest_of
from packager.base.errors import PackError
from packager.seal.age_reader import read_age
from packager.seal.age_writer import write_age
from packager.seal.identities import parse_evaluators, parse_identities
from packager.seal.keys import format_identity, recipient_of
from packager.seal.shares import read_share, split_root, write_share
from packager.trust.attestations import RESULT_PREDICATE, format_statement
from packager.trust.dsse import Envelope, format_bundle, parse_bundle, parse_statement
from packager.trust.keyfiles import Password, format_private_key, import_private_key, parse_private_key
from packager.trust.keys import parse_public_key
from packager.trust.payload import Payload, format_payload, parse_payload
from packager.trust.pem import format_pem
from packager.trust.policy import SuitePolicy, format_policy, read_policy
from packager.trust.roots import parse_root, signed_by_enough
from packager.trust.seen import Seen, read_seen, write_seen
from packager.trust.suite_index import index_signed_by_enough, parse_index
from packager.trust.validation import TargetCounts, Validated, make_result, parse_result
from tests.support.sealed_images import KEY, REFERENCE, ROOT
from tests.support.trust_suites import NOW, first_index, first_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXAMPLES = int(os.environ.get("WIDESWE_FUZZ_EXAMPLES", "60"))
IMAGE = digest_of(b"an image")
RESULT = make_result(Validated(3, {"x": TargetCounts(1, 2)}), sealed=IMAGE)
STATEMENT = format_statement("x", IMAGE, RESULT_PREDICATE, RESULT)
IDENTITY = format_identity(bytes(range(32)))
PLAIN_KEY = format_pem("PRIVATE KEY", KEY.der)
SUITE_ROOT, INDEX = first_root(), first_index()


def judge_root(data: bytes) -> None:
    signed_by_enough(parse_root(data), None)


def judge_index(data: bytes) -> None:
    index_signed_by_enough(parse_index(data), SUITE_ROOT)


def judge_result(data: bytes) -> None:
    parse_result(parse_statement(data).predicate)


def judge_age(data: bytes) -> None:
    for _ in read_age(io.BytesIO(data), [IDENTITY]):
        pass


@cache
def key_file() -> bytes:
    return format_private_key(KEY, Password(""))


def read_key_file(data: bytes) -> None:
    parse_private_key(data, Password(""))


PARSERS: dict[str, tuple[Callable[[], bytes], Callable[[bytes], object]]] = {
    "payload": (lambda: format_payload(Payload(REFERENCE, IMAGE)), parse_payload),
    "bundle": (
        lambda: format_bundle(Envelope("application/vnd.in-toto+json", STATEMENT, b"x"), KEY.public),
        parse_bundle,
    ),
    "statement": (lambda: STATEMENT, judge_result),
    "root": (lambda: SUITE_ROOT.data, judge_root),
    "index": (lambda: INDEX.data, judge_index),
    "public key": (lambda: KEY.public.pem, parse_public_key),
    "plain key": (lambda: PLAIN_KEY, lambda data: import_private_key(data, where="key")),
    "age": (lambda: b"".join(write_age(b"x", [recipient_of(IDENTITY)], secret=bytes(32), context="x")), judge_age),
    "identities": (f"# a\n{IDENTITY}\n".encode, lambda data: parse_identities(data, where="k")),
    "evaluators": (
        f"{IDENTITY}\nAGE-PLUGIN-X-1QQQQQQ\n".encode,
        lambda data: parse_evaluators(data, where="k"),
    ),
}

EDITS = st.tuples(st.sampled_from(["cut", "flip", "insert", "swap"]), st.integers(0, 1 << 16), st.binary(max_size=4))
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1 << 62, 1.5, "", "x" * 70, "\ud800", [], [[]], {}, {"a": {}}, ["x"], "sha256:" + "0" * 64]
)


def changed(data: bytes, edit: tuple[str, int, bytes]) -> bytes:
    kind, number, more = edit
    place = number % (len(data) + 1)
    if kind == "cut":
        return data[:place]
    if kind == "flip":
        return data[:place] + bytes(byte ^ 1 for byte in data[place : place + 1]) + data[place + 1 :]
    if kind == "insert":
        return data[:place] + more + data[place:]
    return data[place:] + data[:place]


def survives(parse: Callable[[bytes], object], data: bytes) -> None:
    with contextlib.suppress(PackError):
        parse(data)


@pytest.mark.parametrize("kind", PARSERS)
@given(edits=st.lists(EDITS, min_size=1, max_size=3))
@settings(max_examples=EXAMPLES)
def test_changed_bytes_are_read_or_refused(kind: str, edits: list[tuple[str, int, bytes]]) -> None:
    make, parse = PARSERS[kind]
    data = make()
    parse(data)
    for edit in edits:
        data = changed(data, edit)
    survives(parse, data)


@pytest.mark.parametrize("kind", ["payload", "bundle", "statement", "root", "index"])
@given(place=st.integers(0, 1 << 16), value=VALUES, drop=st.booleans())
@settings(max_examples=EXAMPLES)
def test_a_value_of_another_kind_is_read_or_refused(kind: str, place: int, value: Any, drop: bool) -> None:
    make, parse = PARSERS[kind]
    document = json.loads(make())
    places = list(walk(document))
    holder, key = places[place % len(places)]
    if drop:
        del holder[key]
    else:
        holder[key] = value
    survives(parse, json.dumps(document, ensure_ascii=True).encode())


def walk(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(items):
        yield value, key
        yield from walk(child)


@given(edits=st.lists(EDITS, min_size=1, max_size=2))
@settings(max_examples=min(EXAMPLES, 1000))
def test_a_changed_key_file_is_read_or_refused(edits: list[tuple[str, int, bytes]]) -> None:
    data = key_file()
    for edit in edits:
        data = changed(data, edit)
    survives(read_key_file, data)


@pytest.mark.parametrize("kind", ["policy", "seen", "share"])
@given(edits=st.lists(EDITS, min_size=1, max_size=3))
@settings(max_examples=EXAMPLES)
def test_a_changed_file_is_read_or_refused(
    kind: str, edits: list[tuple[str, int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "file"
    write, read = files()[kind]
    write(path)
    read(path)
    data = path.read_bytes()
    for edit in edits:
        data = changed(data, edit)
    path.write_bytes(data)
    with contextlib.suppress(PackError):
        read(path)


def files() -> dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]]:
    policy = format_policy(SuitePolicy("small", IMAGE)).encode()
    return {
        "policy": (lambda path: path.write_bytes(policy), read_policy),
        "seen": (lambda path: write_seen(path, Seen(1, IMAGE, 1, IMAGE, NOW)), read_seen),
        "share": (lambda path: write_share(path, split_root(ROOT, 2)[0]), read_share),
    }
