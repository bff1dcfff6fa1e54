"""How an agent is started: a configuration file that people write, read whole, with every fault in it named.

    schema: wideswe-agent/1
    name: codex-cli                      the configuration's name in results, unless the command line gives another
    command: my-agent <"$WIDESWE_PROMPT" a shell command, run in /workspace of the agent's view of the image
    env: {MODEL: some-model}             variables of the agent; nothing of this machine's environment is passed on
    tools: {my-agent: /opt/my-agent}     programs of this machine, files or folders, on the agent's PATH, read-only
    model:                               without it the agent reaches nothing at all
      name: some-model                 for results only
      upstream: https://models.example/v1
      paths: [/responses, /models/]      what may be asked below upstream, with / at the end also what lies below it
      credential: {variable: MODEL_KEY, header: Authorization, value: "Bearer {}"}    or `file` in place of `variable`
      count: [POST /responses]           what counts as a request to the model; all if not said
    caps: {time: 5h, requests: 200, bytes: 4G, idle: 5m, answer: 30m}
    limits: {cpus: 2, memory: 8G, pids: 4096, disk: 16G}
    trajectory: stdout                   or the path of a file inside, such as /root/session.jsonl
    leave_out: ["**/__pycache__/**"]     new files that are no part of a patch

The agent finds the variables WIDESWE_PROMPT (a file), WIDESWE_TARGETS (names with blanks between), and, with a model,
WIDESWE_MODEL_URL: a base URL on its own loopback that stands for `upstream`. Clients want some key: give any text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager.agents.credential import CredentialSource
from packager.agents.endpoint import Endpoint, parse_endpoint
from packager.agents.fields import Fields
from packager.agents.tally import Caps
from packager.base.errors import InputError
from packager.base.files import read_file
from packager.base.problems import Problem, refuse
from packager.recipe.checks import Fault, format_key
from packager.recipe.globs import parse_glob
from packager.recipe.nodes import LIMIT_BYTES, read_document
from packager.recipe.units import parse_duration, parse_size
from packager.sandbox.engine import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA = "wideswe-agent/1"
STDOUT = "stdout"
TIME_S = 5 * 3600
LIMITS = Limits(2, 8 << 30, 4096, 16 << 30)
_NAME = r"[a-z0-9][a-z0-9._-]{0,62}"
_TOOL = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_HEADER = r"[A-Za-z][A-Za-z0-9-]{0,60}"
_ABSOLUTE = r"(/(?!\.{1,2}(/|$))[^\0\n/]+)+"
_BELOW = r"/[\x21\x22\x24-\x3e\x40-\x5b\x5d-\x7e]*"
_COUNTED = rf"(GET|POST) {_BELOW}"
_ALL = {"schema", "name", "command", "env", "tools", "model", "caps", "limits", "trajectory", "leave_out"}


@dataclass(frozen=True)
class Model:
    """The endpoint that an agent may ask, and where the credential for it is."""

    endpoint: Endpoint
    credential: CredentialSource | None = None
    name: str = ""


@dataclass(frozen=True)
class Adapter:
    """One agent as a value; see the top of this file."""

    name: str
    command: str
    env: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    model: Model | None = None
    time_s: int = TIME_S
    caps: Caps = field(default_factory=Caps)
    limits: Limits = LIMITS
    trajectory: str = STDOUT
    leave_out: tuple[str, ...] = ()


def read_adapter(path: Path) -> Adapter:
    """Read a file; every fault in it is in the one InputError, with line and hint."""
    document = read_document(read_file(path, limit=LIMIT_BYTES))
    fields = Fields(document.value)
    adapter = _adapter(fields) if isinstance(document.value, dict) else None
    if adapter is None and not document.faults and not fields.faults:
        fields.faults.append(Fault((), "expected keys and values, found something else"))
    faults = [*document.faults, *((document.line_of(one.key), one) for one in fields.faults)]
    refuse(Problem(str(path), line, format_key(one.key), one.message, one.hint) for line, one in faults)
    if adapter is None:
        raise InputError("not an agent", where=str(path))
    return adapter


def _adapter(top: Fields) -> Adapter:
    """Return the adapter as far as it can be made of its keys; faults are noted where they are."""
    top.expect_keys(_ALL, needed=("schema", "name", "command"))
    if top.text("schema", default=SCHEMA) != SCHEMA:
        top.fault("schema", f"expected {SCHEMA}")
    time_s, caps = _caps(top.inner("caps"))
    return Adapter(
        name=top.text("name", pattern=_NAME, hint="lower-case letters, digits, ., _ and -"),
        command=top.text("command"),
        env=top.texts("env", pattern=_VARIABLE),
        tools=top.texts("tools", pattern=_TOOL),
        model=_model(top.inner("model")) if top.has("model") else None,
        time_s=time_s,
        caps=caps,
        limits=_limits(top.inner("limits")),
        trajectory=top.text(
            "trajectory",
            default=STDOUT,
            pattern=f"{STDOUT}|{_ABSOLUTE}",
            hint="stdout, or an absolute path without . and ..",
        ),
        leave_out=top.words("leave_out", check=parse_glob),
    )


def _caps(given: Fields) -> tuple[int, Caps]:
    given.expect_keys({"time", "requests", "bytes", "idle", "answer"})
    usual = Caps()
    caps = Caps(
        requests=given.number("requests", default=usual.requests),
        transfer_bytes=given.unit("bytes", parse_size, default=usual.transfer_bytes),
        idle_s=float(given.unit("idle", parse_duration, default=int(usual.idle_s))),
        answer_s=float(given.unit("answer", parse_duration, default=int(usual.answer_s))),
    )
    return given.unit("time", parse_duration, default=TIME_S), caps


def _limits(given: Fields) -> Limits:
    given.expect_keys({"cpus", "memory", "pids", "disk"})
    return Limits(
        cpus=given.number("cpus", default=LIMITS.cpus),
        memory_bytes=given.unit("memory", parse_size, default=LIMITS.memory_bytes),
        pids=given.number("pids", default=LIMITS.pids),
        disk_bytes=given.unit("disk", parse_size, default=LIMITS.disk_bytes),
    )


def _model(given: Fields) -> Model | None:
    given.expect_keys({"name", "upstream", "paths", "credential", "count"}, needed=("upstream",))
    paths = given.words("paths", pattern=_BELOW, hint="a path below upstream, as /responses")
    counted = given.words("count", pattern=_COUNTED, hint="a method and a path below upstream, as POST /responses")
    source = _credential(given.inner("credential")) if given.has("credential") else None
    try:
        endpoint = parse_endpoint(given.text("upstream"), where="", paths=paths, counted=counted)
        return Model(endpoint, source, given.text("name"))
    except InputError as error:
        given.fault("upstream", error.reason, error.hint or "")
        return None


def _credential(given: Fields) -> CredentialSource:
    given.expect_keys({"variable", "file", "header", "value"}, needed=("header",))
    if given.has("variable") == given.has("file"):
        given.fault("", "expected variable or file: where the credential is")
    value = given.text("value", default="{}", pattern=r"[\x20-\x7e]+", hint="as Bearer {}")
    if value.count("{}") != 1:
        given.fault("value", "expected {} once: the place of the credential", "as Bearer {}")
    return CredentialSource(
        given.text("header", pattern=_HEADER, hint="as Authorization"),
        value,
        given.text("variable", default="", pattern=f"|{_VARIABLE}", hint="the name of a variable"),
        given.text("file", default=""),
    )


def adapter_for(command: str) -> Adapter:
    """Return the adapter of a plain command that reaches nothing."""
    return Adapter("command", command)


def plain_adapter(adapter: Adapter) -> dict[str, Any]:
    """Return what of an adapter decides what an agent does, as JSON values: its name and its credential do not."""
    model = adapter.model
    return {
        "command": adapter.command,
        "env": dict(adapter.env),
        "tools": dict(adapter.tools),
        "model": None if model is None else [model.endpoint.authority, model.endpoint.base, list(model.endpoint.paths)],
        "time_s": adapter.time_s,
        "caps": [adapter.caps.requests, adapter.caps.transfer_bytes],
        "leave_out": list(adapter.leave_out),
    }
