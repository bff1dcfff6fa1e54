"""Git's smart protocol, the serving half: what clients may send, and the bytes that they get."""

from __future__ import annotations

import gzip

import pytest

from packager.base.errors import InputError
from packager.lock.ecosystems.git import Pinned, keys_of, pinned_of, place_of
from packager.lock.ecosystems.git_http import (
    Cut,
    Refs,
    Wish,
    format_answer,
    format_refs,
    kept_refs,
    parse_wish,
    repository_of,
    wants_all_of,
)

A, B, C = "a" * 40, "b" * 40, "c" * 40
FLUSH = b"0000"


def line(text: str) -> bytes:
    return f"{len(text) + 5:04x}{text}\n".encode()


@pytest.mark.parametrize(
    ("method", "url", "found"),
    [
        ("GET", "https://h.example/o/r.git/info/refs?service=git-upload-pack", ("https://h.example/o/r.git", False)),
        ("POST", "https://h.example/o/r/git-upload-pack", ("https://h.example/o/r", True)),
        ("GET", "https://h.example/o/r/info/refs?service=git-receive-pack", None),
        ("GET", "https://h.example/o/r/info/refs", None),
        ("POST", "https://h.example/o/r/git-receive-pack", None),
        ("HEAD", "https://h.example/o/r/git-upload-pack", None),
    ],
)
def test_requests_of_the_protocol_are_known(method: str, url: str, found: tuple[str, bool] | None) -> None:
    assert repository_of(method, url) == found


def test_refs_are_told_with_head_first() -> None:
    told = format_refs(Refs({"refs/heads/main": A, "refs/tags/v1": B}, "refs/heads/main"))
    assert told.startswith(b"001e# service=git-upload-pack\n0000")
    assert f"{A} HEAD\0".encode() in told
    assert b" symref=HEAD:refs/heads/main\n" in told
    assert told.endswith(line(f"{A} refs/heads/main") + line(f"{B} refs/tags/v1") + FLUSH)


def test_a_repository_without_refs_still_tells_what_it_can() -> None:
    told = format_refs(Refs({}))
    assert b"0" * 40 + b" capabilities^{}\0ofs-delta" in told
    assert b"symref" not in told


def test_a_clone_wants_and_is_done() -> None:
    body = line(f"want {A} ofs-delta agent=git/2.39") + line(f"want {B}") + FLUSH + line("done")
    assert parse_wish(body) == Wish((A, B), done=True)
    assert parse_wish(gzip.compress(body), encoding="gzip") == Wish((A, B), done=True)


def test_a_shallow_fetch_first_asks_where_history_ends() -> None:
    body = line(f"want {A} shallow") + line(f"shallow {C}") + line("deepen 2") + FLUSH
    wish = parse_wish(body)
    assert wish == Wish((A,), 2, (C,))
    told = format_answer(wish, Cut((B,), (C,)))
    assert told == line(f"shallow {B}") + line(f"unshallow {C}") + FLUSH


def test_a_client_that_names_what_it_has_hears_that_nothing_is_shared() -> None:
    haves = line(f"want {A}") + FLUSH + line(f"have {B}") + FLUSH
    assert parse_wish(haves) == Wish((A,), rounds=1)
    assert format_answer(parse_wish(haves), Cut()) == b"0008NAK\n"
    done = parse_wish(haves + line(f"have {C}") + line("done"))
    assert (done.done, format_answer(done, Cut())) == (True, b"0008NAK\n")


@pytest.mark.parametrize(("depth", "all_of_it"), [(0, True), (1, False), (0x7FFFFFFE, False), (0x7FFFFFFF, True)])
def test_the_greatest_depth_means_all(depth: int, all_of_it: bool) -> None:
    assert wants_all_of(depth) is all_of_it


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "git: expected commits that a client wants, found none"),
        (FLUSH, "git: expected commits that a client wants, found none"),
        (b"zzzz", "git: expected the length of a line, found b'zzzz'"),
        (b"00", "git: expected the length of a line, found b'00'"),
        (b"0001", "git: a line is longer than the request"),
        (b"ffffwant", "git: a line is longer than the request"),
        (line("want main") + FLUSH, "git: expected a commit id, found b'main'"),
        (line(f"want {A[:39]}") + FLUSH, f"git: expected a commit id, found b'{A[:39]}'"),
        (
            line(f"want {A}") + line("deepen-since 5") + FLUSH,
            "git: expected a depth in commits, found b'deepen-since 5'",
        ),
        (line(f"want {A}") + line("deepen -1") + FLUSH, "git: expected a depth in commits, found b'deepen -1'"),
    ],
)
def test_what_is_no_wish_is_refused(body: bytes, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_wish(body)
    assert str(caught.value) == complaint


def test_a_body_that_grows_without_end_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        parse_wish(gzip.compress(bytes(65 << 20)), encoding="gzip")
    assert str(caught.value) == "git: expected a request of at most 67108864 bytes"
    with pytest.raises(InputError) as caught:
        parse_wish(b"no gzip", encoding="gzip")
    assert str(caught.value).startswith("git: the request cannot be read: ")


def test_only_refs_to_commits_that_are_there_are_kept() -> None:
    refs = Refs({"refs/heads/main": A, "refs/heads/next": B}, "refs/heads/next")
    assert kept_refs(refs, [A]) == Refs({"refs/heads/main": A}, "")


def test_a_repository_is_the_same_with_and_without_its_ending() -> None:
    place = place_of("https://h.example/o/r")
    assert {place_of(f"https://{one}") for one in ("h.example/o/r.git", "h.example/o/r/", "u:p@h.example/o/r")} == {
        place
    }
    assert place.endswith("/r")
    assert "example" not in place
    assert place_of("https://other.example/o/r") != place


def test_keys_say_all_that_is_pinned() -> None:
    pinned = Pinned(
        frozenset({(0, A), (1, B)}),
        frozenset({("refs/heads/main", A), ("refs/heads/x/y", A), ("refs/tags/HEAD", B)}),
        "refs/heads/main",
    )
    keys = keys_of(place_of("https://h.example/o/r"), pinned)
    assert pinned_of(keys) == pinned
    assert len(keys) == 5


def test_a_key_of_another_form_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        pinned_of(["somewhere/main"])
    assert str(caught.value) == "git: expected <repository>/<name>/<commit>, found 'somewhere/main'"
