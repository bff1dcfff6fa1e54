"""Files that say how an agent is started: the shipped ones, and every fault in a file named in one run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from packager.agents.adapter import Adapter, Model, read_adapter
from packager.agents.credential import Credential, CredentialSource, Redaction
from packager.agents.endpoint import Endpoint, parse_endpoint
from packager.agents.tally import Caps
from packager.base.errors import InputError
from packager.sandbox.engine import Limits
from packager.sandbox.http1 import Head

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "agents").glob("*.yaml"))
LEAST = "schema: wideswe-agent/1\nname: one\ncommand: exec true\n"
FULL = """\
schema: wideswe-agent/1
name: one
command: exec tool <"$WIDESWE_PROMPT"
env: {A: b}
tools: {tool: /opt/tool, kit: kit}
model:
  name: some-model
  upstream: https://models.example:8443/v1/
  paths: [/responses]
  credential: {variable: KEY, header: Authorization, value: "Bearer {}"}
  count: [POST /responses]
caps: {time: 1h30m, requests: 7, bytes: 1M, idle: 10s, answer: 2m}
limits: {cpus: 3, memory: 1G, pids: 99, disk: 2G}
trajectory: /root/log.jsonl
leave_out: ["**/target/**"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(text)
    return path


def refusal(folder: Path, text: str) -> list[str]:
    path = written(folder, text)
    with pytest.raises(InputError) as caught:
        read_adapter(path)
    count, *lines = str(caught.value).split("\n")
    assert count == ("1 problem" if len(lines) == 1 else f"{len(lines)} problems")
    assert all(line.startswith(str(path)) for line in lines)
    return [line.removeprefix(str(path)) for line in lines]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_agent_is_named_like_its_file_and_starts_the_tool_that_it_brings(path: Path) -> None:
    adapter = read_adapter(path)
    assert adapter.name == path.stem
    assert [f"exec {name} " in adapter.command for name in adapter.tools] == [True]
    assert "$WIDESWE_PROMPT" in adapter.command
    assert "$WIDESWE_MODEL_URL" in adapter.command
    assert adapter.model is not None
    assert adapter.model.endpoint.paths
    assert adapter.model.endpoint.counted
    assert adapter.model.credential is not None
    assert adapter.model.credential.variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("name", "method", "target", "passed"),
    [
        ("claude-code", "POST", "/v1/messages?beta=true", True),
        ("claude-code", "POST", "/v1/messages/count_tokens", True),
        ("claude-code", "GET", "/v1/models/some", True),
        ("claude-code", "POST", "/v1/messages/batches", False),
        ("claude-code", "POST", "/v1/files", False),
        ("claude-code", "POST", "/v1/complete", False),
        ("codex-cli", "POST", "/v1/responses", True),
        ("codex-cli", "POST", "/v1/batches", False),
        ("codex-cli", "GET", "/v1/responses/other", False),
        ("codex-cli", "POST", "/v1/files", False),
        ("codex-cli", "POST", "/v1/vector_stores", False),
    ],
)
def test_a_shipped_agent_asks_its_model_and_no_other_service(name: str, method: str, target: str, passed: bool) -> None:
    model = read_adapter(ROOT / "agents" / f"{name}.yaml").model
    assert model is not None
    assert (model.endpoint.problem(Head(method, target, keep_alive=True, headers={})) == "") == passed


def test_there_are_agents_for_codex_and_claude() -> None:
    assert [path.stem for path in SHIPPED] == ["claude-code", "codex-cli"]


def test_what_is_not_said_is_as_documented(tmp_path: Path) -> None:
    assert read_adapter(written(tmp_path, LEAST)) == Adapter("one", "exec true")
    assert Caps() == Caps(200, 4 << 30, 300.0, 1800.0)


def test_everything_that_can_be_said_is_read(tmp_path: Path) -> None:
    endpoint = Endpoint("https", "models.example", 8443, "/v1", ("/responses",), ("POST /responses",))
    assert endpoint.authority == "models.example:8443"
    assert read_adapter(written(tmp_path, FULL)) == Adapter(
        name="one",
        command='exec tool <"$WIDESWE_PROMPT"',
        env={"A": "b"},
        tools={"tool": "/opt/tool", "kit": "kit"},
        model=Model(endpoint, CredentialSource("Authorization", "Bearer {}", "KEY"), "some-model"),
        time_s=5400,
        caps=Caps(7, 1 << 20, 10.0, 120.0),
        limits=Limits(3, 1 << 30, 99, 2 << 30),
        trajectory="/root/log.jsonl",
        leave_out=("**/target/**",),
    )


def test_the_documented_fields_are_those_that_are_read() -> None:
    text = (ROOT / "packager/agents/adapter.py").read_text().partition('"""')[2].partition('"""')[0]
    assert set(re.findall(r"^    (\w+):", text, re.MULTILINE)) == set(re.findall(r"^(\w+):", FULL, re.MULTILINE))
    assert set(re.findall(r"^      (\w+):", text, re.MULTILINE)) == set(re.findall(r"^  (\w+):", FULL, re.MULTILINE))


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", [": the file is empty"]),
        ("- a\n", [":1: expected keys and values, found something else"]),
        ("{}\n", [":1: missing key command", ":1: missing key name", ":1: missing key schema"]),
        (LEAST.replace("/1", "/2"), [":1: schema: expected wideswe-agent/1"]),
        (LEAST + "comand: x\n", [":4: comand: unknown key (hint: did you mean command?)"]),
        (
            LEAST.replace("one", "../x"),
            [":2: name: not as expected: '../x' (hint: lower-case letters, digits, ., _ and -)"],
        ),
        (LEAST.replace("exec true", "' '"), [":3: command: expected text, found ' '"]),
        (
            LEAST + "env: {A: 1, B-C: x}\n",
            [":4: env.A: expected text, found 1", ":4: env.B-C: not a name that can be used here"],
        ),
        (LEAST + "env: []\n", [":4: env: expected keys and values"]),
        (LEAST + "tools: {a/b: /x}\n", [":4: tools.a/b: not a name that can be used here"]),
        (
            LEAST + "caps: {time: 5, requests: 0, bytes: lots, idle: 0s}\n",
            [
                ":4: caps.bytes: expected a size with a unit, found 'lots' (hint: write 512M or 4G; K, M, G and T are powers of 1024)",
                ":4: caps.idle: expected more than nothing",
                ":4: caps.requests: expected a whole number, 1 or more, found 0",
                ":4: caps.time: expected a duration with a unit, found the number 5 (hint: write 90s, 20m, 2h or 1h30m)",
            ],
        ),
        (LEAST + "limits: {cpus: true}\n", [":4: limits.cpus: expected a whole number, 1 or more, found True"]),
        (
            LEAST + "trajectory: /root/../../etc/passwd\n",
            [
                ":4: trajectory: not as expected: '/root/../../etc/passwd' (hint: stdout, or an absolute path without . and ..)"
            ],
        ),
        (
            LEAST + "leave_out: [../x]\n",
            [":4: leave_out: expected a glob without empty, . and .. parts, found '../x'"],
        ),
        (LEAST + "leave_out: x\n", [":4: leave_out: expected a list of texts"]),
        (
            LEAST + "model: {}\n",
            [
                ":4: model: missing key upstream",
                ":4: model.upstream: expected the URL of a model endpoint, found '' (hint: as https://models.example/v1)",
            ],
        ),
        (
            LEAST + "model: {upstream: 'http://models.example'}\n",
            [
                ":4: model.upstream: expected https, found 'http://models.example' (hint: a credential in the clear is anybody's: https, or a gateway of your own on this machine)"
            ],
        ),
        (
            LEAST + "model: {upstream: 'https://models.example', paths: [responses], count: [/x]}\n",
            [
                ":4: model.count: not as expected: '/x' (hint: a method and a path below upstream, as POST /responses)",
                ":4: model.paths: not as expected: 'responses' (hint: a path below upstream, as /responses)",
            ],
        ),
        (
            LEAST + "model: {upstream: 'https://models.example', credential: {value: key}}\n",
            [
                ":4: model.credential: expected variable or file: where the credential is",
                ":4: model.credential: missing key header",
                ":4: model.credential.value: expected {} once: the place of the credential (hint: as Bearer {})",
            ],
        ),
        (LEAST + "name: two\n", [":4: name: duplicate key, first at line 2 (hint: keep one of them)"]),
    ],
)
def test_every_fault_is_named_with_its_line(tmp_path: Path, text: str, problems: list[str]) -> None:
    assert refusal(tmp_path, text) == problems


@pytest.mark.parametrize(
    "url",
    [
        "models.example",
        "ftp://models.example",
        "https://",
        "https://user@models.example",
        "https://models.example/a?b=c",
        "https://models.example/#a",
        "https://models.example/a/../b",
        "https://models.example:port/",
        "https://[::1/",
    ],
)
def test_what_is_no_endpoint_is_refused(url: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_endpoint(url, where="x")
    assert str(caught.value).startswith(
        ("x: expected the URL of a model endpoint, found ", "x: expected a URL, found ")
    )


def test_a_credential_is_read_from_a_variable_or_a_file_and_shown_by_nothing(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-0123456789\nsecond line\n")
    from_file = CredentialSource("x-api-key", file=str(tmp_path / "key")).read({})
    from_variable = CredentialSource("x-api-key", "Bearer {}", "KEY").read({"KEY": " sk-0123456789 "})
    assert (from_file.value, from_variable.value) == ("sk-0123456789", "Bearer sk-0123456789")
    assert repr(from_file) == repr(from_variable) == "Credential(header='x-api-key')"


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        (
            {},
            "$KEY: there is no credential for the model endpoint\nhint: set the variable KEY, or change `credential`",
        ),
        ({"KEY": "short"}, "$KEY: not a credential: expected 8 or more plain characters without blanks"),
        ({"KEY": "sk-one two three"}, "$KEY: not a credential: expected 8 or more plain characters without blanks"),
        (
            {"KEY": "sk-0123456789\r\nX: y"},
            "$KEY: not a credential: expected 8 or more plain characters without blanks",
        ),
    ],
)
def test_what_is_no_credential_is_refused_and_not_shown(environment: dict[str, str], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        CredentialSource("x-api-key", variable="KEY").read(environment)
    assert str(caught.value) == problem


def test_a_secret_is_found_however_a_stream_is_cut() -> None:
    secret = b"abcabd"
    text = b"xx abcabcabd abcab abcabd" + secret + b"yabca"
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1, 3):
            redaction = Redaction(secret)
            parts = [redaction.take(part) for part in (text[:first], text[first:second], text[second:])]
            assert b"".join([*parts, redaction.end()]) == text.replace(secret, b"******")
    assert Redaction(b"").take(b"abc") == b"abc"
    assert Credential("a", "b", b"c") == Credential("a", "b", b"c")
