"""A seal is deterministic, padded, bound to its name, and refuses whatever it would not write itself."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pyrage
import pytest

from packager.base.canonical import format_canonical
from packager.base.errors import InputError, IntegrityError, TrustError
from packager.oci.entries import Entry, file_entry
from packager.oci.tar_writer import write_tar
from packager.seal.age_format import sealed_size
from packager.seal.bundle import (
    SYMLINK_MODE,
    SealContents,
    SealName,
    format_plain,
    open_seal,
    padded_size,
    parse_plain,
    seal,
)
from packager.seal.identities import RootSecret, create_root, task_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
ROOT = RootSecret(bytes(range(32)))
NAME = SealName("suite", "hello-wide-001", "1")
CONTENTS = SealContents(
    "suite",
    "hello-wide-001",
    "1",
    gold={"greeter": b"diff --git a/x b/x\n", "caller": b"\x00\xff"},
    hidden={
        "greeter": {
            "tests/test_x.py": (0o644, b"def test(): ..."),
            "tests/run": (0o755, b"#!/bin/sh\n"),
            "tests/link": (SYMLINK_MODE, b"test_x.py"),
            "caf\u00e9/\udcff": (0o644, b""),
        },
        "caller": {},
    },
    expected={"greeter": {"FAIL_TO_PASS": ["t::a", "t::b"], "PASS_TO_PASS": []}},
)
IDENTITY, _ = task_identity(ROOT, "suite", "hello-wide-001")


def backwards(mapping: Mapping[str, T]) -> dict[str, T]:
    return {key: mapping[key] for key in reversed(list(mapping))}


def test_a_seal_opens_to_what_was_sealed() -> None:
    assert open_seal(seal(CONTENTS, ROOT), IDENTITY, expect=NAME) == CONTENTS


def test_a_seal_is_the_same_whatever_the_order_of_its_parts() -> None:
    shuffled = replace(
        CONTENTS,
        gold=backwards(CONTENTS.gold),
        hidden={target: backwards(files) for target, files in backwards(CONTENTS.hidden).items()},
        expected={"greeter": {"PASS_TO_PASS": [], "FAIL_TO_PASS": ["t::b", "t::a", "t::b"]}},
    )
    data = seal(CONTENTS, ROOT)
    assert seal(shuffled, ROOT) == data
    assert hashlib.sha256(data).hexdigest() == "ca657b914edbc8e11a1813a2417401944b1bb09a08dbcb209b0ac02c93bcf5e8"


def test_the_plaintext_is_a_tar_that_anyone_reads_with_its_name_first() -> None:
    data = seal(CONTENTS, ROOT)
    plain = pyrage.decrypt(data, [pyrage.x25519.Identity.from_str(str(IDENTITY))])
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        members = {member.name: member for member in archive}
        first = archive.extractfile("SEAL.json")
        assert first is not None
        text = first.read()
    assert text == b'{"schema":"wideswe-seal/1","suite":"suite","task":"hello-wide-001","version":"1"}'
    assert next(iter(members)) == "SEAL.json"
    assert members["hidden/greeter/tests/run"].mode == 0o755
    assert members["hidden/greeter/tests/link"].linkname == "test_x.py"
    assert {member.mtime for member in members.values()} == {315532800}


def test_size_and_repr_tell_little() -> None:
    small = seal(SealContents("s", "t", "1"), ROOT)
    assert len(small) == len(seal(CONTENTS, ROOT)) == sealed_size(64 << 10, 1)
    assert repr(CONTENTS) == "SealContents(suite='suite', task='hello-wide-001', version='1')"


def test_a_sealed_file_names_nothing_but_its_format() -> None:
    data = seal(CONTENTS, ROOT)
    assert data.count(b"-> ") == 1
    for word in (b"suite", b"hello-wide-001", b"greeter", b"test_x", b"gold", b"SEAL"):
        assert word not in data


def test_sizes_are_padded_to_buckets_and_then_by_at_most_an_eighth() -> None:
    kib = 1 << 10
    buckets = [64 * kib, 256 * kib, 1024 * kib, 4096 * kib, 8192 * kib, 16384 * kib]
    assert [padded_size(size) for size in (0, 1, 65536, 65537, 1 << 20, (4 << 20) + 1, (8 << 20) + 1)] == [
        buckets[0],
        buckets[0],
        buckets[0],
        buckets[1],
        buckets[2],
        buckets[4],
        buckets[5],
    ]
    for size in range(16 << 20, 200 << 20, 999_983):
        padded = padded_size(size)
        assert size <= padded <= size * 1.12
        assert padded_size(padded) == padded
        assert padded % 512 == 0


def test_a_change_in_any_part_changes_the_whole_file() -> None:
    others = [
        replace(CONTENTS, version="2"),
        replace(CONTENTS, suite="other"),
        replace(CONTENTS, gold={**CONTENTS.gold, "caller": b"\x00\xfe"}),
        replace(CONTENTS, expected=None),
    ]
    files = [seal(contents, ROOT) for contents in (CONTENTS, *others)] + [seal(CONTENTS, create_root())]
    shares = [data.split(b"\n")[1] for data in files]
    assert len(set(shares)) == len(files)
    tails = [data[-64:] for data in files]
    assert len(set(tails)) == len(files)


def test_a_seal_in_the_place_of_another_task_is_noticed() -> None:
    other = replace(CONTENTS, version="2")
    with pytest.raises(TrustError) as caught:
        open_seal(seal(other, ROOT), IDENTITY, expect=NAME)
    assert (
        str(caught.value) == "seal: expected the seal of suite/hello-wide-001/1, found that of suite/hello-wide-001/2"
    )
    swapped = seal(replace(CONTENTS, task="hello-wide-002"), ROOT)
    both = "\n".join([IDENTITY, task_identity(ROOT, "suite", "hello-wide-002")[0]])
    with pytest.raises(TrustError, match=r"found that of suite/hello-wide-002/1$"):
        open_seal(swapped, both, expect=NAME)
    with pytest.raises(TrustError, match="none of 1 given identities opens it"):
        open_seal(swapped, IDENTITY, expect=NAME)


def test_every_flipped_byte_of_a_sealed_file_is_refused() -> None:
    data = seal(SealContents("suite", "hello-wide-001", "1"), ROOT)
    for place in [*range(300), 40_000, len(data) - 1]:
        broken = bytearray(data)
        broken[place] ^= 0x80
        with pytest.raises((IntegrityError, TrustError), match=r"^seal: "):
            open_seal(bytes(broken), IDENTITY)


BAD_CONTENTS: dict[str, tuple[Callable[[], SealContents], str]] = {
    "path outside": (
        lambda: replace(CONTENTS, hidden={"a": {"../x": (0o644, b"")}}),
        "hidden file: expected a plain path inside the tree, found '../x'",
    ),
    "absolute path": (
        lambda: replace(CONTENTS, hidden={"a": {"/x": (0o644, b"")}}),
        "hidden file: expected a plain path inside the tree, found '/x'",
    ),
    "mode": (
        lambda: replace(CONTENTS, hidden={"a": {"x": (0o4755, b"")}}),
        "hidden file x: expected mode 0o644, 0o755 or 0o120000, found 0o4755",
    ),
    "file as folder": (
        lambda: replace(CONTENTS, hidden={"a": {"x/y": (0o644, b""), "x": (0o644, b"")}}),
        "hidden file x: a file stands where a directory is needed",
    ),
    "link as folder": (
        lambda: replace(CONTENTS, hidden={"a": {"x/y": (0o644, b""), "x": (SYMLINK_MODE, b"/etc")}}),
        "hidden file x: a file stands where a directory is needed",
    ),
    "target": (
        lambda: replace(CONTENTS, gold={"a/b": b""}),
        "gold target: expected lower-case words joined by `.`, `-` or `_`, found 'a/b'",
    ),
    "lists": (
        lambda: replace(CONTENTS, expected={"a": {"FAIL_TO_PASS": []}}),
        "expected.a: expected the lists FAIL_TO_PASS and PASS_TO_PASS and nothing else",
    ),
    "name": (
        lambda: replace(CONTENTS, version="1/2"),
        "version: expected lower-case words joined by `.`, `-` or `_`, found '1/2'",
    ),
}


@pytest.mark.parametrize("kind", BAD_CONTENTS)
def test_contents_that_could_do_harm_are_not_sealed(kind: str) -> None:
    make, reason = BAD_CONTENTS[kind]
    with pytest.raises(InputError) as caught:
        seal(make(), ROOT)
    assert str(caught.value) == reason


def plain_of(entries: Iterable[Entry], *, padding: bytes | None = None) -> bytes:
    out = bytearray()
    write_tar(entries, out.extend)
    return bytes(out) + (bytes(padded_size(len(out)) - len(out)) if padding is None else padding)


def first_member(**changes: object) -> Entry:
    fields = {"schema": "wideswe-seal/1", "suite": "suite", "task": "hello-wide-001", "version": "1", **changes}
    return file_entry(b"SEAL.json", format_canonical(fields))


BAD_PLAINS = {
    "no tar": (b"x" * 65536, "what it holds is not a wideswe seal: "),
    "empty tar": (bytes(65536), "what it holds is not a wideswe seal: suite: expected lower-case words"),
    "other first member": (plain_of([file_entry(b"A", b""), first_member()]), "its first member is not SEAL.json"),
    "unknown member": (plain_of([first_member(), file_entry(b"zzz", b"")]), "not in canonical form"),
    "unknown schema": (
        plain_of([first_member(schema="wideswe-seal/2")]),
        "expected the schema wideswe-seal/1, found wideswe-seal/2",
    ),
    "unknown field": (plain_of([first_member(more=1)]), "not in canonical form"),
    "name of wrong type": (plain_of([first_member(task=1)]), "task: expected lower-case words"),
    "no padding": (plain_of([first_member()], padding=b""), "not in canonical form"),
    "padding with a message": (plain_of([first_member()], padding=b"\0" * 600 + b"leak"), "found more after it"),
    "gold without ending": (plain_of([first_member(), file_entry(b"gold/a", b"")]), "not in canonical form"),
    "odd mode": (plain_of([first_member(), file_entry(b"hidden/a/b", b"", mode=0o600)]), "found 0o600"),
    "bad lists": (
        plain_of([first_member(), file_entry(b"expected.json", b'{"a":{}}')]),
        "expected the lists FAIL_TO_PASS",
    ),
}


@pytest.mark.parametrize("kind", BAD_PLAINS)
def test_a_plaintext_that_we_would_not_write_is_refused(kind: str) -> None:
    plain, reason = BAD_PLAINS[kind]
    with pytest.raises(IntegrityError) as caught:
        parse_plain(plain)
    assert str(caught.value).startswith("seal: what it holds is not")
    assert reason in str(caught.value)


def test_what_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(IntegrityError, match="expected at most 536870912 bytes of seal, found 536870913"):
        open_seal(memoryview(bytearray((512 << 20) + 1)), IDENTITY)  # type: ignore[arg-type]


def test_plaintext_is_the_same_as_parsed_and_formatted_again() -> None:
    plain = format_plain(CONTENTS)
    assert parse_plain(plain) == CONTENTS
    assert len(plain) == 64 << 10
