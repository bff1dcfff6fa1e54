from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from packager.sandbox.fetches import Answer
from packager.sandbox.proxy import Proxy
from tests.support.fake_fetches import FakeFetches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANSWERS = {
    "http://plain.invalid/a?b=1": Answer(200, "text/plain", b"0123456789"),
    "https://secret.invalid/a": Answer(200, "text/html", b"over TLS"),
    "https://127.0.0.9/a": Answer(200, "text/html", b"by address"),
    "https://[::9]/a": Answer(404, "text/html", b"never: the host is bare"),
    "https://::9/a": Answer(200, "text/html", b"by address 6"),
    "http://plain.invalid/gone": Answer(404, "text/plain", b"gone"),
    "http://plain.invalid/none": Answer(204),
    "http://tunnel.invalid/a": Answer(200, "text/plain", b"plain in a tunnel"),
}


class Served:
    """A proxy on a loopback port with its source."""

    def __init__(self, proxy: Proxy, source: FakeFetches, port: int) -> None:
        self.proxy = proxy
        self.source = source
        self.port = port

    def get(
        self, url: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, url, body, headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def say(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def https(self, host: str) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.proxy.ca_file))
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # Python 3.13's default
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=20)
        connection.set_tunnel(host, 443)
        return connection


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    big = tmp_path / "big"
    big.write_bytes(bytes(range(256)) * 8192)
    source = FakeFetches({**ANSWERS, "http://plain.invalid/big": Answer(200, "application/zip", big)})
    proxy = Proxy(source, tmp_path / "ca.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    proxy.start(listener)
    try:
        yield Served(proxy, source, port)
    finally:
        proxy.close()


def test_a_plain_request_is_answered_by_the_source(served: Served) -> None:
    status, headers, body = served.get("http://plain.invalid/a?b=1", accept="text/plain")
    assert (status, headers["content-type"], headers["accept-ranges"], body) == (
        200,
        "text/plain",
        "bytes",
        b"0123456789",
    )
    (asked,) = served.source.asked
    assert (asked.method, asked.host, asked.port, asked.path) == ("GET", "plain.invalid", 80, "/a?b=1")
    assert asked.headers["accept"] == "text/plain"


def test_what_the_source_does_not_know_is_599_and_names_itself(served: Served) -> None:
    status, _, body = served.get("http://plain.invalid/unknown")
    assert (status, body) == (599, b"not in the lock: GET http://plain.invalid/unknown\n")


def test_other_answers_pass_as_they_are(served: Served) -> None:
    assert served.get("http://plain.invalid/gone")[::2] == (404, b"gone")
    status, headers, body = served.get("http://plain.invalid/none")
    assert (status, headers.get("content-length"), body) == (204, None, b"")


def test_ranges_and_heads_are_served_from_bytes_and_files(served: Served) -> None:
    status, headers, body = served.get("http://plain.invalid/a?b=1", range="bytes=2-4")
    assert (status, headers["content-range"], body) == (206, "bytes 2-4/10", b"234")
    status, headers, body = served.get("http://plain.invalid/big", range="bytes=-3")
    assert (status, headers["content-range"], body) == (206, "bytes 2097149-2097151/2097152", b"\xfd\xfe\xff")
    status, headers, body = served.get("http://plain.invalid/a?b=1", range="bytes=10-")
    assert (status, headers["content-range"], body) == (416, "bytes */10", b"")
    status, headers, body = served.get("http://plain.invalid/big", method="HEAD")
    assert (status, headers["content-length"], body) == (200, "2097152", b"")
    assert served.get("http://plain.invalid/gone", range="bytes=0-1")[::2] == (404, b"gone")


def test_a_file_is_streamed_whole(served: Served) -> None:
    assert served.get("http://plain.invalid/big")[2] == bytes(range(256)) * 8192


def test_a_body_reaches_the_source(served: Served) -> None:
    served.get("http://plain.invalid/a?b=1", method="POST", body=b"question")
    assert (served.source.asked[0].method, served.source.asked[0].body) == ("POST", b"question")


def test_tls_is_ended_with_a_certificate_of_our_own(served: Served) -> None:
    with contextlib.closing(served.https("secret.invalid")) as connection:
        for _ in range(2):  # one connection, two requests
            connection.request("GET", "/a")
            assert connection.getresponse().read() == b"over TLS"
    assert [(asked.scheme, asked.host, asked.port) for asked in served.source.asked] == [
        ("https", "secret.invalid", 443)
    ] * 2


def test_an_address_gets_a_certificate_too(served: Served) -> None:
    with contextlib.closing(served.https("127.0.0.9")) as connection:
        connection.request("GET", "/a")
        assert connection.getresponse().read() == b"by address"


def test_another_hosts_certificate_is_not_accepted(served: Served) -> None:
    context = ssl.create_default_context(cafile=str(served.proxy.ca_file))
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(b"CONNECT secret.invalid:443 HTTP/1.1\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            context.wrap_socket(connection, server_hostname="other.invalid")


def test_a_tunnel_may_carry_plain_http(served: Served) -> None:
    said = served.say(b"CONNECT tunnel.invalid:80 HTTP/1.1\r\n\r\n" + b"")
    assert said == b"HTTP/1.1 200 Connection established\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
        connection.sendall(b"CONNECT tunnel.invalid:80 HTTP/1.1\r\n\r\n")
        connection.recv(100)
        connection.sendall(b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert b"".join(iter(lambda: connection.recv(100), b"")).endswith(b"\r\n\r\nplain in a tunnel")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /path HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400 Bad Request"),
        (b"CONNECT /nowhere HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"CONNECT h:99999 HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"GET http://h/ HTTP/3\r\n\r\n", b"505 HTTP Version Not Supported"),
    ],
)
def test_nonsense_is_answered_and_hung_up(served: Served, data: bytes, status: bytes) -> None:
    said = served.say(data)
    assert said.startswith(b"HTTP/1.1 " + status)
    assert b"\r\nConnection: close\r\n" in said
    assert served.source.asked == []


def test_requests_in_a_row_are_answered_in_order(served: Served) -> None:
    one = b"GET http://plain.invalid/gone HTTP/1.1\r\n\r\n"
    two = b"GET http://plain.invalid/a?b=1 HTTP/1.1\r\nConnection: close\r\n\r\n"
    said = served.say(one + two)
    assert said.count(b"HTTP/1.1 ") == 2
    assert said.index(b"gone") < said.index(b"0123456789")


def test_clients_that_leave_early_harm_nobody(served: Served) -> None:
    for data in (
        b"",
        b"GET",
        b"GET http://plain.invalid/big HTTP/1.1\r\n\r\n",
        b"CONNECT h:443 HTTP/1.1\r\n\r\n\x16\x03",
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as connection:
            connection.sendall(data)
    assert served.get("http://plain.invalid/a?b=1")[0] == 200


def test_many_clients_are_served_at_once(served: Served) -> None:
    answers: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: answers.append(served.get("http://plain.invalid/a?b=1")[2])) for _ in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [b"0123456789"] * 40


def test_a_fault_of_the_source_itself_is_raised_not_served(tmp_path: Path) -> None:
    proxy = Proxy(FakeFetches({}), tmp_path / "ca.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    proxy.start(listener)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET http://bug.invalid/ HTTP/1.1\r\n\r\n")
        assert connection.recv(100) == b""
    with pytest.raises(KeyError, match=r"http://bug\.invalid/"):
        proxy.close()


def test_closing_ends_connections_and_threads(tmp_path: Path) -> None:
    before = threading.active_count()
    proxy = Proxy(FakeFetches({}), tmp_path / "ca.pem")
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    proxy.start(listener)
    with socket.create_connection(address, timeout=20) as idle:
        idle.sendall(b"GET http://plain.invalid/ HTTP/1.1\r\n\r\n")
        assert idle.recv(20).startswith(b"HTTP/1.1 599")
        proxy.close()
        assert not proxy.ca_file.exists()
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=20)


def test_java_trusts_the_same_authority_through_a_store_of_its_own(tmp_path: Path) -> None:
    proxy = Proxy(FakeFetches({}), tmp_path / "ca.pem")
    assert proxy.trusted == {
        tmp_path / "ca.pem": "/run/wideswe/ca.pem",
        tmp_path / "ca.p12": "/run/wideswe/ca.p12",
    }
    store = pkcs12.load_pkcs12((tmp_path / "ca.p12").read_bytes(), b"wideswe")
    (one,) = store.additional_certs
    assert one.certificate == x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    proxy.close()
    assert list(tmp_path.iterdir()) == []
