"""The gateway between an agent and its model, over real sockets: what it lets through, and what it refuses by name."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import stat
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from packager.agents.credential import Credential
from packager.agents.endpoint import parse_endpoint
from packager.agents.gateway import Gateway
from packager.agents.tally import Caps, Counts
from packager.sandbox.authority import Authority
from packager.sandbox.relay import RelayServer, address_of
from tests.support.fake_model import SECRET, FakeModel, UnixClient, fake_model, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY = Credential("Authorization", f"Bearer {SECRET}", SECRET.encode())
STARS = "*" * len(SECRET)
CAPS = Caps(requests=50, idle_s=5.0, answer_s=10.0)


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    with fake_model() as found:
        yield found


class Party:
    """A gateway, its place, and an ordinary client of it."""

    def __init__(self, model: FakeModel, folder: Path, caps: Caps, credential: Credential | None) -> None:
        model.asked.clear()
        self.path = folder / ("long" * 40) / "gateway"
        self.path.parent.mkdir()
        endpoint = parse_endpoint(
            model.url, where="upstream", paths=("/a", "/a/", "/b", "/b/"), counted=("POST /a", "POST /a/")
        )
        self.endpoint = endpoint
        self.gateway = Gateway(endpoint, credential, caps)
        self.gateway.start(self.path)

    def ask(self, method: str, target: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        client = UnixClient(self.path)
        with contextlib.closing(client):
            client.request(method, target, body, {name.replace("_", "-"): text for name, text in headers.items()})
            answer = client.getresponse()
            return answer.status, answer.read()

    def said(self, method: str, target: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
        status, data = self.ask(method, target, body, **headers)
        return status, json.loads(data)["error"]["message"]


@pytest.fixture
def party(model: FakeModel, tmp_path: Path) -> Iterator[Callable[..., Party]]:
    made: list[Party] = []

    def make(caps: Caps = CAPS, credential: Credential | None = KEY) -> Party:
        made.append(Party(model, tmp_path, caps, credential))
        return made[0]

    yield make
    for one in made:
        one.gateway.close()
        assert not one.path.exists()


def read_all(answer: http.client.HTTPResponse, got: bytearray) -> None:
    """Read block by block; an answer that is shorter than it says is an error, as of every careful client."""
    while block := answer.read(1024):
        got += block
    if answer.length:
        raise http.client.IncompleteRead(bytes(got), answer.length)


def test_a_request_goes_on_with_the_credential_that_the_agent_does_not_have(
    party: Callable[..., Party], model: FakeModel
) -> None:
    one = party()
    mine = {"Authorization": "Bearer mine", "x_api_key": "mine", "Cookie": "a=b", "Connection": "X-Own", "X_Own": "1"}
    assert one.ask("POST", "/v1/a/b?c=%2Fd", b'{"m": 1}', Content_Type="application/json", **mine) == (
        200,
        b'{"number": 1, "size": 8}',
    )
    method, path, headers, body = model.asked[0]
    assert (method, path, body) == ("POST", "/v1/a/b?c=%2Fd", b'{"m": 1}')
    assert headers == {
        "accept-encoding": "identity",
        "authorization": f"Bearer {SECRET}",
        "content-length": "8",
        "content-type": "application/json",
        "host": model.url.split("/")[2],
    }
    assert one.gateway.close() == Counts(1, 1, 1, 0, 8 + 24, {200: 1})


def test_the_socket_is_for_this_user_alone_and_its_path_may_be_long(party: Callable[..., Party]) -> None:
    one = party()
    assert stat.filemode(one.path.stat().st_mode) == "srw-------"
    assert len(os.fspath(one.path)) > 108


@pytest.mark.parametrize(
    ("method", "target", "reason"),
    [
        ("GET", "/v1", "of {host} only this may be asked: /v1/a /v1/a/ /v1/b /v1/b/"),
        ("GET", "/v1/c", "of {host} only this may be asked: /v1/a /v1/a/ /v1/b /v1/b/"),
        ("GET", "/v1/ab", "of {host} only this may be asked: /v1/a /v1/a/ /v1/b /v1/b/"),
        ("GET", "/", "of {host} only this may be asked: /v1/a /v1/a/ /v1/b /v1/b/"),
        ("GET", "/v1/a/../../admin", "the path must be plain"),
        ("GET", "/v1/a/%2e%2e/admin", "the path must be plain"),
        ("GET", "/v1/a%2Fb", "the path must be plain"),
        ("GET", "/v1//a", "the path must be plain"),
        ("GET", "/v1/a\\b", "the path must be plain"),
        ("GET", "//elsewhere.example/v1/a", "the path must be plain"),
        ("DELETE", "/v1/a", "only GET and POST are passed on"),
        ("PUT", "/v1/a", "only GET and POST are passed on"),
        ("GET", "http://elsewhere.example/v1/a", "the only place to ask is {host}, and this is no proxy to others"),
        ("GET", "http://{host}/v1/a", "the only place to ask is {host}, and this is no proxy to others"),
        ("CONNECT", "elsewhere.example:443", "the only place to ask is {host}, and this is no proxy to others"),
    ],
)
def test_everything_else_is_refused_by_name(
    party: Callable[..., Party], model: FakeModel, method: str, target: str, reason: str
) -> None:
    one, host = party(), model.url.split("/")[2]
    client = UnixClient(one.path)
    with contextlib.closing(client):
        client.putrequest(method, target.format(host=host), skip_accept_encoding=True)
        client.endheaders()
        answer = client.getresponse()
        data = b"" if method == "CONNECT" and answer.status == 200 else answer.read()
    asked = f"{method} {target.format(host=host)}"
    assert (answer.status, json.loads(data)["error"]) == (
        403,
        {"type": "wideswe_gateway", "message": f"refused: {asked}: {reason.format(host=host)}"},
    )
    assert model.asked == []
    counts = one.gateway.close()
    assert (counts.passed, counts.refused, counts.refusals) == (
        0,
        1,
        (f"refused: {asked}: {reason.format(host=host)}",),
    )


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET /v1/a HTTP/2\r\n\r\n", 505),
        (b"GET /v1/a HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /v1/a HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
        (b"GET /v1/a HTTP/1.1\r\n" + b"a" * 70000, 400),
    ],
)
def test_what_is_no_http_is_refused_and_passed_on_to_nobody(
    party: Callable[..., Party], model: FakeModel, raw: bytes, status: int
) -> None:
    one = party()
    with socket.socket(socket.AF_UNIX) as client, address_of(one.path) as address:
        client.settimeout(20)
        client.connect(address)
        client.sendall(raw)
        assert client.recv(12) == f"HTTP/1.1 {status}".encode()
    assert model.asked == []


def test_the_credential_never_comes_back_however_the_model_says_it(party: Callable[..., Party]) -> None:
    one = party()
    client = UnixClient(one.path)
    with contextlib.closing(client):
        client.request("POST", "/v1/a/echo", b"{}")
        answer = client.getresponse()
        told = json.loads(answer.read())
        assert told["headers"]["authorization"] == f"Bearer {STARS}"
        assert (answer.headers["X-Told"], answer.headers["Set-Cookie"]) == (f"Bearer {STARS}", None)
        client.request("POST", "/v1/a/split")
        text = client.getresponse().read().decode()
    assert text == f"Bearer {STARS} and Bearer {STARS} sk-wi"
    assert one.said("POST", "/v1/a/zipped") == (
        502,
        f"the model endpoint {one.endpoint.authority} encodes its answers, though asked not to",
    )


@pytest.mark.parametrize(
    ("word", "status", "body"), [("limited", 429, b'{"error": "slow down"}'), ("broken", 500, b"oops")]
)
def test_what_the_model_refuses_is_passed_on_and_counted(
    party: Callable[..., Party], word: str, status: int, body: bytes
) -> None:
    one = party()
    assert one.ask("POST", f"/v1/a/{word}") == (status, body)
    counts = one.gateway.close()
    assert (counts.passed, counts.counted, counts.answered, counts.statuses) == (1, 1, 0, {status: 1})


@pytest.mark.parametrize(
    ("word", "status", "said"),
    [
        ("redirect", 502, "redirects, and no redirect is followed"),
        ("nonsense", 502, "cannot be asked: BadStatusLine"),
        ("stall", 504, "said nothing for too long"),
    ],
)
def test_a_model_without_an_answer_is_told_of(party: Callable[..., Party], word: str, status: int, said: str) -> None:
    one = party(replace(CAPS, idle_s=0.3))
    assert one.said("POST", f"/v1/a/{word}") == (status, f"the model endpoint {one.endpoint.authority} {said}")
    assert one.gateway.close().statuses == {0: 1}


def test_a_model_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    gateway = Gateway(parse_endpoint(f"http://127.0.0.1:{port}", where="upstream"), None, CAPS)
    gateway.start(tmp_path / "gateway")
    with contextlib.closing(UnixClient(tmp_path / "gateway")) as client:
        client.request("GET", "/any/path")
        answer = client.getresponse()
        told = (answer.status, json.loads(answer.read())["error"]["message"])
    gateway.close()
    assert told == (502, f"the model endpoint 127.0.0.1:{port} cannot be asked: Connection refused")


def test_an_answer_comes_while_it_is_made(party: Callable[..., Party]) -> None:
    one = party(replace(CAPS, answer_s=60.0))
    with contextlib.closing(UnixClient(one.path)) as client:
        client.request("GET", "/v1/b/drip")
        answer = client.getresponse()
        started = time.monotonic()
        assert answer.read1(10) == b"."
        assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("word", "caps", "most"),
    [
        ("short", CAPS, 9),
        ("drip", replace(CAPS, answer_s=0.5), 100),
        ("flood", replace(CAPS, transfer_bytes=1 << 20), 2 << 20),
    ],
)
def test_an_answer_that_breaks_off_is_seen_to_be_broken(
    party: Callable[..., Party], word: str, caps: Caps, most: int
) -> None:
    one = party(caps)
    got = bytearray()
    with contextlib.closing(UnixClient(one.path)) as client:
        client.request("GET", f"/v1/b/{word}")
        answer = client.getresponse()
        with pytest.raises((http.client.HTTPException, OSError)):
            read_all(answer, got)
    assert len(got) <= most
    wait_until(lambda: one.gateway._tally.counts().statuses == {0: 1})
    assert one.gateway.close().answered == 0


def test_requests_are_capped_and_the_cap_is_named(party: Callable[..., Party], model: FakeModel) -> None:
    one = party(replace(CAPS, requests=2))
    statuses = [
        one.ask(method, target)[0] for method, target in (("GET", "/v1/b"), ("POST", "/v1/a"), ("POST", "/v1/a"))
    ]
    assert statuses == [200, 200, 403]
    assert one.said("GET", "/v1/a") == (403, "the cap of 2 requests is reached")
    counts = one.gateway.close()
    assert (len(model.asked), counts.passed, counts.counted, counts.refused) == (2, 2, 1, 2)


def test_bytes_are_capped_and_the_cap_is_named(party: Callable[..., Party]) -> None:
    one = party(replace(CAPS, transfer_bytes=1000))
    assert one.said("POST", "/v1/a", b" " * 1001) == (403, "the cap of 1000 bytes is reached")
    assert one.ask("POST", "/v1/a", b" " * 900)[0] == 200
    with pytest.raises((http.client.HTTPException, OSError)):
        one.ask("POST", "/v1/a/echo", b"")
    assert one.said("POST", "/v1/a") == (403, "the cap of 1000 bytes is reached")


def test_an_agent_that_asks_for_ever_gets_slow_refusals(party: Callable[..., Party], model: FakeModel) -> None:
    one = party(replace(CAPS, requests=1))
    with contextlib.closing(UnixClient(one.path)) as client:
        for _ in range(101):
            client.request("GET", "/v1/b")
            client.getresponse().read()
        started = time.monotonic()
        client.request("GET", "/v1/b")
        client.getresponse().read()
    assert time.monotonic() - started > 0.09
    assert len(model.asked) == 1
    assert one.gateway.close().refused == 101


def test_many_ask_at_once_and_none_is_lost(party: Callable[..., Party]) -> None:
    one = party(replace(CAPS, requests=30))
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(one.ask("POST", "/v1/a", b"{}")[0])) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(found) == {200: 30, 403: 10}
    assert one.gateway.close().counted == 30


def test_closing_ends_what_still_waits_for_the_model(party: Callable[..., Party], model: FakeModel) -> None:
    one = party(replace(CAPS, idle_s=60.0, answer_s=60.0))
    ended: list[Any] = []

    def ask() -> None:
        try:
            ended.append(one.ask("POST", "/v1/a/stall"))
        except (http.client.HTTPException, OSError) as error:
            ended.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: model.asked)
    started = time.monotonic()
    one.gateway.close()
    thread.join(30)
    assert time.monotonic() - started < 30
    assert len(ended) == 1


def test_a_relay_carries_a_loopback_port_to_the_gateway(party: Callable[..., Party], tmp_path: Path) -> None:
    one = party()
    relay = RelayServer(one.path)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    relay.start(listener)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as client:
        client.request("POST", "/v1/a", b" " * (2 << 20))
        first = client.getresponse()
        assert (first.status, json.loads(first.read())["size"]) == (200, 2 << 20)
        client.request("GET", "/v1/b/events")
        assert client.getresponse().read() == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
    relay.close()
    gone = RelayServer(tmp_path / "nobody")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    gone.start(listener)
    with socket.create_connection(("127.0.0.1", port), 20) as client_socket:
        assert client_socket.recv(1) == b""
    gone.close()


class TlsModel:
    """One answer over TLS, from a host whose certificate an authority of our own signed."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.authority.certificate_pem())
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self.listener.getsockname()[1]}/v1"
        self.asked = b""

    def answer_one(self) -> None:
        connection, _ = self.listener.accept()
        context = self.authority.context_for("localhost")
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
            while not self.asked.endswith(b"{}"):
                self.asked += secure.recv(65536)
            secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")
        connection.close()


@pytest.mark.parametrize(
    ("trusted", "status", "told"),
    [(True, 200, b"secret"), (False, 502, b"cannot be asked: [SSL: CERTIFICATE_VERIFY_FAILED]")],
)
def test_a_model_over_tls_is_asked_if_this_machine_trusts_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool, status: int, told: bytes
) -> None:
    model = TlsModel(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(model.ca))
    thread = threading.Thread(target=model.answer_one)
    thread.start()
    gateway = Gateway(parse_endpoint(model.url, where="upstream"), KEY, CAPS)
    gateway.start(tmp_path / "gateway")
    with contextlib.closing(UnixClient(tmp_path / "gateway")) as client:
        client.request("POST", "/v1/a", b"{}")
        answer = client.getresponse()
        body = answer.read()
    thread.join()
    gateway.close()
    model.listener.close()
    assert answer.status == status, body
    assert told in body
    assert (SECRET.encode() in model.asked) == trusted
