from __future__ import annotations

import io

import pytest

from packager.sandbox.fetches import Request
from packager.sandbox.http1 import (
    MAX_BODY_BYTES,
    BadRequestError,
    Head,
    Place,
    find_range,
    parse_place,
    read_body,
    read_head,
)


def head_of(text: bytes) -> Head:
    found = read_head(io.BytesIO(text))
    assert found is not None
    return found


def body_of(text: bytes) -> bytes:
    stream = io.BytesIO(text)
    found = read_head(stream)
    assert found is not None
    return read_body(stream, found, lambda: None)


def read_whole(text: bytes) -> None:
    stream = io.BytesIO(text)
    head = read_head(stream)
    assert head is not None
    head.to_request(None, read_body(stream, head, lambda: None))


def refusal_of(text: bytes) -> tuple[int, str]:
    with pytest.raises(BadRequestError) as caught:
        read_whole(text)
    return caught.value.status, str(caught.value)


def test_a_proxy_request_becomes_its_parts() -> None:
    head = head_of(
        b"GET http://PyPI.invalid:81/simple/a/?x=1 HTTP/1.1\r\nHost: other\r\nAccept: a\r\nAccept: b\r\n\r\n"
    )
    expected = Request("GET", "http", "pypi.invalid", 81, "/simple/a/?x=1", {"host": "other", "accept": "a, b"})
    assert head.to_request(None, b"") == expected


def test_a_tunnelled_request_goes_to_the_tunnels_place() -> None:
    head = head_of(b"GET /a%20b?c HTTP/1.1\r\nHost: h\r\n\r\n")
    expected = Request("GET", "https", "h.invalid", 443, "/a%20b?c", {"host": "h"}, b"x")
    assert head.to_request(Place("https", "h.invalid", 443), b"x") == expected


def test_headers_of_one_hop_and_ranges_do_not_reach_the_source() -> None:
    head = head_of(
        b"GET http://h/ HTTP/1.1\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\nProxy-Connection: a\r\nRange: bytes=0-1\r\n"
        b"If-Range: x\r\nTE: trailers\r\nProxy-Authorization: Basic x\r\nAuthorization: Basic y\r\n\r\n"
    )
    assert head.to_request(None, b"").headers == {"authorization": "Basic y"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h.invalid:8443", Place("https", "h.invalid", 8443)),
        ("H.invalid", Place("https", "h.invalid", 443)),
        ("127.0.0.1:1", Place("https", "127.0.0.1", 1)),
        ("[::1]:2", Place("https", "::1", 2)),
        ("[::1]", Place("https", "::1", 443)),
    ],
)
def test_places_are_hosts_with_ports(text: str, expected: Place) -> None:
    assert parse_place(text, scheme="https") == expected


@pytest.mark.parametrize(
    "text", ["", ":1", "a b:1", "h:0", "h:65536", "h:x", "h:-1", "h:٣", "::1:2", "h/../x:1", "[x]:1", "é:1"]
)
def test_other_places_are_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="expected a"):
        parse_place(text, scheme="https")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"nonsense\r\n\r\n", (400, "expected a request line, found b'nonsense'")),
        (b"GET  http://h/ HTTP/1.1\r\n\r\n", (400, "expected a request line, found b'GET  http://h/ HTTP/1.1'")),
        (b"G(T http://h/ HTTP/1.1\r\n\r\n", (400, "expected a request line, found b'G(T http://h/ HTTP/1.1'")),
        (b"GET http://h/\x00 HTTP/1.1\r\n\r\n", (400, "expected a request line, found b'GET http://h/\\x00 HTTP/1.1'")),
        (b"GET http://h/ HTTP/2.0\r\n\r\n", (505, "expected HTTP/1.1, found b'HTTP/2.0'")),
        (b"GET http://h/ HTTP/1.1\n\n", (400, "a line is too long or does not end with CR LF")),
        (b"GET http://h/" + b"a" * 70_000, (400, "a line is too long or does not end with CR LF")),
        (b"GET http://h/ HTTP/1.1\r\nA: b\r\n", (400, "the head ends early")),
        (b"GET http://h/ HTTP/1.1\r\nA : b\r\n\r\n", (400, "expected a header, found b'A : b'")),
        (b"GET http://h/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n", (400, "expected a header, found b' c'")),
        (b"GET http://h/ HTTP/1.1\r\nA: \x00\r\n\r\n", (400, "expected a header, found b'A: \\x00'")),
        (b"GET http://h/ HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n", (431, "more than 200 headers")),
        (b"GET /only/a/path HTTP/1.1\r\n\r\n", (400, "expected a URL, as proxies are asked, found '/only/a/path'")),
        (b"GET ftp://h/ HTTP/1.1\r\n\r\n", (400, "expected a URL, as proxies are asked, found 'ftp://h/'")),
        (
            b"POST http://h/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            (400, "content-length is there twice"),
        ),
        (
            b"POST http://h/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nab",
            (501, "transfer-encoding 'chunked' with content-length '1'"),
        ),
        (
            b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nab",
            (501, "transfer-encoding 'gzip' with content-length None"),
        ),
        (b"POST http://h/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n", (400, "expected a content-length, found '-1'")),
        (
            b"POST http://h/ HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
            (413, f"a body of more than {MAX_BODY_BYTES} bytes"),
        ),
        (b"POST http://h/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", (400, "expected 3 bytes of body, found 2")),
        (
            b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            (400, "expected a chunk's size, found b'zz'"),
        ),
        (
            b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
            (400, "a chunk is longer than it says"),
        ),
        (
            b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFF\r\n",
            (413, f"a body of more than {MAX_BODY_BYTES} bytes"),
        ),
    ],
)
def test_what_is_not_http_is_refused_by_name(text: bytes, expected: tuple[int, str]) -> None:
    assert refusal_of(text) == expected


def test_bodies_come_by_length_or_in_chunks() -> None:
    assert body_of(b"POST http://h/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcdef") == b"abc"
    chunks = b"2;name=value\r\nab\r\n1\r\nc\r\n0\r\nTrailer: x\r\n\r\n"
    assert body_of(b"POST http://h/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks) == b"abc"
    assert body_of(b"GET http://h/ HTTP/1.1\r\n\r\nignored") == b""


def test_a_client_that_waits_for_continue_is_told_to_go_on() -> None:
    told: list[bool] = []
    stream = io.BytesIO(b"POST http://h/ HTTP/1.1\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\na")
    head = read_head(stream)
    assert head is not None
    assert read_body(stream, head, lambda: told.append(True)) == b"a"
    assert told == [True]


def test_connections_stay_open_as_their_version_says() -> None:
    assert head_of(b"GET http://h/ HTTP/1.1\r\n\r\n").keep_alive
    assert not head_of(b"GET http://h/ HTTP/1.1\r\nConnection: close\r\n\r\n").keep_alive
    assert not head_of(b"GET http://h/ HTTP/1.0\r\n\r\n").keep_alive
    assert head_of(b"GET http://h/ HTTP/1.0\r\nProxy-Connection: Keep-Alive\r\n\r\n").keep_alive
    assert read_head(io.BytesIO(b"")) is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=2-", (2, 10)),
        ("bytes=2-99", (2, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=5-2", None),
        ("bytes=0-1,3-4", None),
        ("bytes=-", None),
        ("items=0-1", None),
        ("", None),
    ],
)
def test_ranges_are_cut_from_the_whole(wanted: str, expected: tuple[int, int] | None) -> None:
    assert find_range(Head("GET", "/", keep_alive=True, headers={"range": wanted}), 10) == expected


@pytest.mark.parametrize(
    ("wanted", "size"), [("bytes=10-", 10), ("bytes=0-", 0), ("bytes=-0", 10), ("bytes=11-12", 10)]
)
def test_a_range_outside_of_the_file_says_how_long_it_is(wanted: str, size: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        find_range(Head("GET", "/", keep_alive=True, headers={"range": wanted}), size)
    assert (caught.value.status, str(caught.value)) == (416, f"bytes */{size}")


def test_a_range_bound_to_a_version_or_for_another_method_gets_all() -> None:
    bound = {"range": "bytes=0-1", "if-range": '"x"'}
    assert find_range(Head("GET", "/", keep_alive=True, headers=bound), 10) is None
    assert find_range(Head("POST", "/", keep_alive=True, headers={"range": "bytes=0-1"}), 10) is None
