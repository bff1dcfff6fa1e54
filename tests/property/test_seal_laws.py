"""Laws of the seal: open∘seal is the identity, order does not matter, padding is stable, age files read back."""

from __future__ import annotations

import io
from typing import Any

import pyrage
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packager.base.errors import InputError, IntegrityError, PackError, TrustError
from packager.seal.age_format import CHUNK_BYTES, sealed_size
from packager.seal.age_reader import read_age
from packager.seal.age_writer import write_age
from packager.seal.bech32 import format_bech32, parse_bech32
from packager.seal.bundle import FILE_MODES, SYMLINK_MODE, SealContents, open_seal, padded_size, seal
from packager.seal.identities import RootSecret, parse_identities, task_identity
from packager.seal.keys import format_identity, recipient_of

NAMES = st.from_regex(r"[a-z0-9]{1,6}([._-][a-z0-9]{1,6}){0,2}", fullmatch=True)
PARTS = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda part: part not in (".", "..") and not part.startswith(".wh.")
)
TOP_PATHS = st.lists(PARTS, min_size=1, max_size=1).map("/".join)
FILES = st.dictionaries(
    TOP_PATHS,
    st.one_of(
        st.tuples(st.sampled_from(FILE_MODES), st.binary(max_size=200)),
        st.tuples(st.just(SYMLINK_MODE), st.binary(min_size=1, max_size=50).filter(lambda link: b"\0" not in link)),
    ),
    max_size=4,
)
CASES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), max_size=4)
LISTS = st.fixed_dictionaries({"FAIL_TO_PASS": CASES, "PASS_TO_PASS": CASES})
CONTENTS = st.builds(
    SealContents,
    NAMES,
    NAMES,
    NAMES,
    gold=st.dictionaries(NAMES, st.binary(max_size=300), max_size=3),
    hidden=st.dictionaries(NAMES, FILES, max_size=3),
    expected=st.none() | st.dictionaries(NAMES, LISTS, max_size=3),
)
ROOTS = st.binary(min_size=32, max_size=32).map(RootSecret)
IDENTITIES = st.binary(min_size=32, max_size=32).map(format_identity)


def settled(contents: SealContents) -> SealContents:
    """The contents as they come out of a seal: expected lists sorted, without repetition."""
    if contents.expected is None:
        return contents
    expected: dict[str, Any] = {
        target: {kind: sorted(set(cases)) for kind, cases in lists.items()}
        for target, lists in contents.expected.items()
    }
    return SealContents(
        contents.suite, contents.task, contents.version, gold=contents.gold, hidden=contents.hidden, expected=expected
    )


@given(CONTENTS, ROOTS)
@settings(max_examples=60, deadline=None)
def test_what_is_sealed_is_what_is_opened(contents: SealContents, root: RootSecret) -> None:
    data = seal(contents, root)
    identity, _ = task_identity(root, contents.suite, contents.task)
    opened = open_seal(data, identity, expect=contents.name)
    assert opened == settled(contents)
    assert seal(opened, root) == data
    assert len(data) == sealed_size(64 << 10, 1)


@given(
    st.binary(max_size=3 * CHUNK_BYTES), st.lists(IDENTITIES, min_size=1, max_size=3, unique=True), st.text(max_size=20)
)
@settings(max_examples=60, deadline=None)
def test_age_files_read_back_for_us_and_for_rage(plain: bytes, identities: list[str], context: str) -> None:
    recipients = [recipient_of(identity) for identity in identities]
    blocks = list(write_age(plain, recipients, secret=bytes(32), context=context))
    data = b"".join(blocks)
    assert len(data) == sealed_size(len(plain), len(identities))
    assert list(write_age(plain, recipients[::-1], secret=bytes(32), context=context)) == blocks
    for identity in identities:
        assert b"".join(read_age(io.BytesIO(data), [identity])) == plain
        assert pyrage.decrypt(data, [pyrage.x25519.Identity.from_str(str(identity))]) == plain


IDENTITY = format_identity(bytes(range(32)))
SEALED = b"".join(write_age(b"gold" * 100, [recipient_of(IDENTITY)], secret=bytes(32), context="x"))


@given(st.integers(0, len(SEALED) - 1), st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_no_changed_byte_is_read(place: int, change: int) -> None:
    broken = bytearray(SEALED)
    broken[place] ^= change
    with pytest.raises((IntegrityError, TrustError)):
        list(read_age(io.BytesIO(bytes(broken)), [IDENTITY]))


@given(st.binary(max_size=400), st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_bytes_break_the_reader(tail: bytes, headed: bool) -> None:
    data = (b"age-encryption.org/v1\n" if headed else b"") + tail
    with pytest.raises(PackError):
        list(read_age(io.BytesIO(data), [IDENTITY]))


@given(st.integers(0, 1 << 33))
def test_padding_is_stable_monotone_and_small(size: int) -> None:
    padded = padded_size(size)
    assert size <= padded
    assert padded_size(padded) == padded
    assert padded_size(size + 1) >= padded
    assert padded <= max(64 << 10, size * 4)
    assert size <= 16 << 20 or padded <= size * 1.12


@given(st.binary(max_size=64), st.from_regex(r"[a-z][a-z-]{0,12}", fullmatch=True))
def test_bech32_roundtrips_in_either_case(data: bytes, prefix: str) -> None:
    text = format_bech32(prefix, data)
    assert parse_bech32(text, prefix=prefix, length=len(data)) == data
    assert parse_bech32(text.upper(), prefix=prefix, length=len(data)) == data


@given(st.integers(0, 73), st.sampled_from("qpzry9x8gf2tvdw0s3jn54khce6mua7l"))
def test_one_wrong_letter_of_a_key_is_noticed(place: int, letter: str) -> None:
    text = str(IDENTITY)
    changed = text[:place] + letter.upper() + text[place + 1 :]
    if changed == text:
        assert parse_identities(changed.encode(), where="k") == (IDENTITY,)
        return
    with pytest.raises(InputError) as caught:
        parse_identities(changed.encode(), where="k")
    assert text[20:40] not in str(caught.value)
