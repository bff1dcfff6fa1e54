"""A rendered context with fetches: the variables that steps see, and the server that answers them without wideswe-pack."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.base.processes import Surroundings, running
from packager.build.overheard import Overheard, with_variables, write_answers
from packager.sandbox.fetches import Answer, Request
from tests.support.fake_fetches import FakeFetches

if TYPE_CHECKING:
    from pathlib import Path

DOCKERFILE = """\
FROM scratch
# step: one/dependencies
RUN pip install x && true
RUN again
# step: two/prepare
RUN make
"""


def test_only_the_named_step_sees_the_variables_and_the_image_keeps_none() -> None:
    text = with_variables(DOCKERFILE, {"one/dependencies": {"INDEX": "http://pypi.invalid/a b"}})
    before, changed, *after = text.splitlines()[1:]
    assert (before, after) == ("# step: one/dependencies", ["RUN again", "# step: two/prepare", "RUN make"])
    assert changed.startswith("RUN export HTTPS_PROXY=http://127.0.0.1:3128 HTTP_PROXY=http://127.0.0.1:3128 ")
    assert " INDEX='http://pypi.invalid/a b' " in changed
    assert changed.endswith("; pip install x && true")
    assert "ca.pem" not in changed


def test_a_source_that_is_overheard_answers_as_before() -> None:
    source = FakeFetches({"http://a.invalid/x": Answer(200, "text/html", b"page")}, {"A": "b"})
    heard = Overheard(source)
    request = Request("GET", "http", "a.invalid", 80, "/x", {"accept": "text/html"})
    assert heard.answer(request) == Answer(200, "text/html", b"page")
    assert (heard.environment(), heard.answers) == (
        {"A": "b"},
        {("http://a.invalid/x", "text/html"): Answer(200, "text/html", b"page")},
    )


def test_what_goes_over_tls_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write_answers({("https://a.invalid/x", ""): Answer(200)}, tmp_path)
    assert str(caught.value) == (
        "render: a step fetches https://a.invalid/x over TLS, which a plain server cannot answer\n"
        "hint: build it with wideswe-pack; every engine gives the same content id"
    )


def test_the_server_answers_what_was_heard(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"wheel")
    answers = {
        ("http://a.invalid/x", "json"): Answer(200, "application/json", b"{}"),
        ("http://a.invalid/x", "html"): Answer(200, "text/html", b"<a>"),
        ("http://a.invalid/w", ""): Answer(200, "application/octet-stream", tmp_path / "blob"),
        ("http://a.invalid/no", ""): Answer(404, "text/plain", b"not found\n"),
    }
    write_answers(answers, tmp_path / "replay")
    assert len(json.loads((tmp_path / "replay/answers.json").read_text())) == 4
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [sys.executable, "-I", str(tmp_path / "replay/serve.py"), str(port)]
    with running(argv, Surroundings(env={})):
        assert ask(port, "GET", "/x", accept="html") == (200, "text/html", b"<a>")
        assert ask(port, "GET", "/x", accept="other") == (200, "text/html", b"<a>")
        assert ask(port, "GET", "/x", accept="json") == (200, "application/json", b"{}")
        assert ask(port, "GET", "/w") == (200, "application/octet-stream", b"wheel")
        assert ask(port, "HEAD", "/w") == (200, "application/octet-stream", b"")
        assert ask(port, "GET", "/no") == (404, "text/plain", b"not found\n")
        assert ask(port, "GET", "/unknown") == (599, "text/plain", b"not recorded\n")


def ask(port: int, method: str, path: str, *, accept: str = "") -> tuple[int, str | None, bytes]:
    until = time.monotonic() + 30
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request(method, f"http://a.invalid{path}", headers={"Accept": accept})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read()
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        finally:
            connection.close()
