"""Agents that mean no good, or just go wrong: each run says what happened, captures what is there, and leaves nothing.

The view is a small tree with this machine's programs; two checkouts, `maker` and `user`, and a context, `docs`.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from packager.agents.adapter import Adapter, Model
from packager.agents.credential import Credential
from packager.agents.endpoint import parse_endpoint
from packager.agents.run import AgentRun, Assignment, View, run_agent
from packager.agents.tally import Caps
from packager.base.digests import digest_of
from packager.base.errors import InputError, WorldError
from packager.evaluate.predictions import Patch
from packager.sandbox.engine import Limits
from packager.sandbox.namespaces import may_mount
from tests.support.fake_model import SECRET, FakeModel, fake_model
from tests.support.host_engine import HostEngine
from tests.support.host_tree import PATH, make_host_layer
from tests.support.killing import children, groups_of, mounts_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root")]

TARGETS = ("maker", "user")
LIMITS = Limits(1, 256 << 20, 48, 32 << 20)
DIG = "import os; [(os.mkdir(210 * chr(100)), os.chdir(210 * chr(100))) for _ in range(25)]; open(chr(102), chr(119))"
KEY = Credential("Authorization", f"Bearer {SECRET}", SECRET.encode())
EDIT = "echo 'answer 42' >maker/lib.sh; "
EDITED = (
    b"diff --git a/lib.sh b/lib.sh\n"
    b"index d00491fd7e5bb6fa28c517a0bb32b8b506539d4d..%b 100644\n"
    b"--- a/lib.sh\n+++ b/lib.sh\n@@ -1,1 +1,1 @@\n-1\n+answer 42\n"
)
CLIENT = """
import os, sys, urllib.request, urllib.error
def ask(path, body=b"{}", **headers):
    asked = urllib.request.Request(os.environ["WIDESWE_MODEL_URL"] + path, body, headers)
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
"""


@pytest.fixture(scope="module")
def engine() -> HostEngine:
    return HostEngine()


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    with fake_model() as found:
        yield found


@pytest.fixture
def play(engine: HostEngine, tmp_path: Path) -> Callable[..., AgentRun]:
    """Let a shell command be the agent; afterwards nothing may be left."""
    layer = make_host_layer(tmp_path / "layer")
    for name in (*TARGETS, "docs"):
        (layer / "workspace" / name / ".git").mkdir(parents=True)
        (layer / "workspace" / name / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (layer / "workspace" / name / "lib.sh").write_text("1\n")
    store, into = tmp_path / "store", tmp_path / "into"
    into.mkdir()

    def run(
        command: str,
        given: Assignment | None = None,
        credential: Credential | None = None,
        seen: dict[str, Any] | None = None,
        **more: Any,
    ) -> AgentRun:
        adapter = Adapter("hostile", command, **{"limits": LIMITS, "time_s": 30, **more})
        view = View(engine, [layer], {"PATH": PATH}, store, **(seen or {}))
        known = children()
        made = run_agent(view, adapter, given or Assignment(TARGETS, b"Do it.\n", others=("docs",)), credential, into)
        assert list((store / "tmp").iterdir()) == []
        assert (mounts_below(store), children(), groups_of(os.getpid())) == ([], known, [])
        assert [thread.name for thread in threading.enumerate() if thread.name.startswith("wideswe")] == []
        return made

    return run


def asking(model: FakeModel, *paths: str, **caps: Any) -> dict[str, Any]:
    return {
        "model": Model(parse_endpoint(model.url, where="upstream", paths=paths)),
        "caps": replace(Caps(requests=20, idle_s=5.0, answer_s=10.0), **caps),
    }


def python(script: str) -> str:
    return f"cat >/tmp/client.py <<'END'\n{CLIENT}{script}\nEND\npython3 /tmp/client.py\n"


def output(tmp_path: Path) -> str:
    return (tmp_path / "into" / "trajectory").read_text()


def test_a_quiet_agent_leaves_its_patches(play: Callable[..., AgentRun]) -> None:
    made = play(f"{EDIT}rm -rf */.git")
    assert (made.ended, made.exit_code, made.trouble, made.counts) == ("finished", 0, "", None)
    assert made.patches["user"] == b""
    assert made.patches["maker"].partition(b"\nindex ")[0] == EDITED.partition(b"\nindex ")[0]
    assert made.patches["maker"].endswith(EDITED[-20:])
    assert (made.uncaptured, made.strays) == ({}, ())


@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("exit 3", "exit code 3"),
        ("no-such-agent", "exit code 127"),
        ("kill -9 $$", "killed by SIGKILL"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("exec sleep 60", "not finished after 1 s"),
        ("trap '' TERM INT HUP; while :; do :; done", "not finished after 1 s"),
        ("(setsid sleep 60 & ) ; (nohup sleep 60 >/dev/null 2>&1 &)", "finished"),
        ("f() { f | f & }; f; sleep 20", "not finished after 1 s"),
        ("python3 -c 'import os\nwhile True:\n try: os.fork()\n except OSError: pass'", "not finished after 1 s"),
        ("yes", "not finished after 1 s"),
        ("head -c 100M /dev/zero >/tmp/big; sync; sleep 20", "wrote more than 33554432 bytes"),
        ("python3 -c 'x = bytearray(1 << 30); print(len(x))'", None),
    ],
)
def test_how_an_agent_ends_is_said_and_what_it_had_done_is_captured(
    play: Callable[..., AgentRun], command: str, ended: str | None
) -> None:
    slow = "not finished" in (ended or "")
    made = play(EDIT + command, time_s=1 if slow else 30)
    assert made.ended in ((ended,) if ended else ("out of memory at 268435456 bytes", "exit code 1"))
    assert made.patches["maker"].endswith(EDITED[-20:])
    assert made.trouble == ""


def test_a_flood_of_output_is_cut_off(play: Callable[..., AgentRun], tmp_path: Path) -> None:
    command = "head -c 20M /dev/zero; head -c 3M /dev/zero >&2"
    assert play(command, seen={"most_output_bytes": 1 << 20}).ended == "finished"
    sizes = [(tmp_path / "into" / name).stat().st_size for name in ("trajectory", "stderr")]
    assert sizes == [(1 << 20) + 1] * 2


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("rm -rf maker", "expected the folder of target maker, found nothing"),
        ("rm -rf maker; ln -s /etc maker", "expected the folder of target maker, found something else"),
        ("rm -rf maker; echo x >maker", "expected the folder of target maker, found something else"),
        ("cd /; rm -rf workspace; ln -s /etc workspace", "expected the folder of target maker, found nothing"),
        ("cd /; rm -rf workspace; mkdir workspace", "expected the folder of target maker, found nothing"),
        ("cd /; mv workspace elsewhere", "expected the folder of target maker, found nothing"),
        (
            f"cd maker; python3 -c '{DIG}'",
            "the path is too long: ",
        ),
        ("truncate -s 600M maker/huge", "expected at most 536870912 bytes, found 629145600"),
    ],
)
def test_what_is_no_patch_is_an_empty_one_and_the_reason_is_kept(
    play: Callable[..., AgentRun], command: str, problem: str
) -> None:
    made = play(command)
    assert (made.ended, made.patches["maker"]) == ("finished", b"")
    assert made.uncaptured["maker"].startswith(problem)


def test_links_devices_and_odd_names_are_captured_as_what_they_are(play: Callable[..., AgentRun]) -> None:
    made = play(
        "cd maker; ln -s /etc/shadow secret; mkfifo pipe; mkdir -m 000 closed; printf x >closed/in; chmod 000 lib.sh; "
        "printf x >\"$(printf 'a\\nb\\377')\"; git init -q inner 2>/dev/null; printf y >inner/file; mkdir -p .GIT; printf z >.GIT/x"
    )
    assert made.uncaptured == {}
    heads = [line for line in made.patches["maker"].split(b"\n") if line.startswith(b"diff ")]
    assert heads == [
        b'diff --git "a/a\\nb\\377" "b/a\\nb\\377"',
        b"diff --git a/closed/in b/closed/in",
        b"diff --git a/inner/file b/inner/file",
        b"diff --git a/secret b/secret",
    ]
    assert b"+/etc/shadow\n" in made.patches["maker"]


def test_repositories_that_are_not_its_own_are_named_when_it_changes_them(play: Callable[..., AgentRun]) -> None:
    given = Assignment(("user",), b"Do it.\n", {"maker": Patch(EDITED % b"0000000")}, ("maker", "docs"))
    assert play("cat maker/lib.sh docs/lib.sh >user/lib.sh", given).strays == ()
    made = play("echo 2 >docs/new; rm -r maker", given)
    assert (sorted(made.patches), made.strays) == (["user"], ("maker", "docs"))
    again = play("cat maker/lib.sh", given)
    assert again.patches == {"user": b""}


def test_the_credential_is_nowhere_in_the_sandbox(
    play: Callable[..., AgentRun], model: FakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", SECRET)
    script = (
        "print(ask('/echo'), ask('/split'), ask('/echo', b'{\"x\": 1}', Authorization='mine'))\n"
        "os.system('env; cat /proc/*/environ /proc/*/cmdline /proc/*/maps /proc/mounts /proc/net/unix; ls -lR /proc/self/fd /run')\n"
        "os.system('cd /; find / -xdev -type f -size -1M -print -exec cat {} + 2>/dev/null')\n"
        "os.system('cat /proc/1/mem /proc/*/task/*/environ /proc/kcore 2>&1; ls -l /proc/*/fd /proc/*/root 2>&1')\n"
    )
    made = play(python(script), credential=KEY, **asking(model))
    assert (made.ended, made.trouble) == ("finished", "")
    said = (tmp_path / "into" / "trajectory").read_bytes() + (tmp_path / "into" / "stderr").read_bytes()
    assert b"*" * len(SECRET) in said
    assert len(said) > 10_000
    assert SECRET.encode() not in said
    assert SECRET[4:].encode() not in said
    assert all(request[2]["authorization"] == f"Bearer {SECRET}" for request in model.asked[-3:])
    assert SECRET not in repr(KEY)


def test_nothing_but_the_model_can_be_reached(play: Callable[..., AgentRun], model: FakeModel, tmp_path: Path) -> None:
    port = model.url.split(":")[2].partition("/")[0]
    script = (
        "import socket\n"
        f"for place in (('127.0.0.1', {port}), ('192.0.2.1', 80), ('10.0.0.1', 53)):\n"
        "    try:\n        socket.create_connection(place, 2)\n        print('reached', place)\n"
        "    except OSError as error:\n        print(error.strerror)\n"
        "print(ask('/ok')[0], ask('/../admin')[0], ask('/other')[0])\n"
        "try:\n    print(socket.gethostbyname('models.example'))\nexcept OSError:\n    print('no name')\n"
    )
    made = play(python(script), **asking(model, "/ok"))
    assert output(tmp_path).split("\n")[:5] == [
        "Connection refused",
        "Network is unreachable",
        "Network is unreachable",
        "200 403 403",
        "no name",
    ]
    assert made.counts is not None
    assert (made.counts.passed, made.counts.refused) == (1, 2)


@pytest.mark.parametrize(
    ("script", "caps", "counts"),
    [
        ("[ask('/ok') for _ in range(40)]", {}, (20, 20, 20)),
        ("print(ask('/limited'), ask('/broken'), ask('/ok'))", {}, (3, 1, 0)),
        ("[ask('/ok', b' ' * (1 << 20)) for _ in range(5)]", {"transfer_bytes": 3 << 20}, (2, 2, 3)),
        (
            "import contextlib\nwith contextlib.suppress(Exception): ask('/flood')\nask('/ok')",
            {"transfer_bytes": 1 << 20},
            (1, 0, 1),
        ),
        (
            "import contextlib\nwith contextlib.suppress(Exception): ask('/stall')\nask('/ok')",
            {"idle_s": 0.3},
            (2, 1, 0),
        ),
        (
            (
                "import threading\nall = [threading.Thread(target=ask, args=('/ok',)) for _ in range(30)]\n"
                "for one in all: one.start()\nfor one in all: one.join()"
            ),
            {},
            (20, 20, 10),
        ),
    ],
)
def test_an_agent_that_asks_too_much_is_capped(
    play: Callable[..., AgentRun], model: FakeModel, script: str, caps: dict[str, Any], counts: tuple[int, int, int]
) -> None:
    made = play(python(script), **asking(model, **caps))
    assert made.counts is not None
    assert (made.counts.passed, made.counts.answered, made.counts.refused) == counts


def test_an_agent_that_is_killed_while_it_waits_for_its_model_ends_at_once(
    play: Callable[..., AgentRun], model: FakeModel
) -> None:
    started = time.monotonic()
    made = play(python("ask('/stall')"), time_s=2, **asking(model, idle_s=60.0))
    assert made.ended == "not finished after 2 s"
    assert time.monotonic() - started < 30
    assert made.trouble == "the model endpoint answered no request: 1 times no answer"


@pytest.mark.parametrize(
    ("command", "trouble"),
    [
        ("true", "the agent asked its model nothing (finished)"),
        ("exit 4", "the agent asked its model nothing (exit code 4)"),
        (
            python("ask('/other')"),
            "the agent asked its model nothing (finished): refused: POST /v1/other: of {host} only this may be asked: /v1/ok",
        ),
    ],
)
def test_an_agent_without_its_model_is_no_agent(
    play: Callable[..., AgentRun], model: FakeModel, command: str, trouble: str
) -> None:
    made = play(command, **asking(model, "/ok"))
    assert made.trouble == trouble.format(host=model.url.split("/")[2])


def test_a_trajectory_is_taken_from_a_file_and_from_nothing_else(play: Callable[..., AgentRun], tmp_path: Path) -> None:
    play("mkdir /root/log; echo '{}' >/root/log/a.jsonl; echo not this", trajectory="/root/log/a.jsonl")
    assert output(tmp_path) == "{}\n"
    for command in ("ln -s /etc/passwd /root/a", "ln -s / /root/b; echo x >/root/a", "mkfifo /root/a", "true"):
        (tmp_path / "into" / "trajectory").unlink()
        play(command, trajectory="/root/b/etc/passwd" if "root/b" in command else "/root/a")
        assert output(tmp_path) == ""


def test_tools_are_on_the_path_and_stay_as_they_are(play: Callable[..., AgentRun], tmp_path: Path) -> None:
    tool, folder = tmp_path / "hello", tmp_path / "kit"
    (folder / "bin").mkdir(parents=True)
    for path, text in ((tool, "one"), (folder / "bin" / "other", "two"), (folder / "third", "three")):
        path.write_text(f"#!/bin/sh\necho {text} $WIDESWE_TARGETS\n")
        path.chmod(0o755)
    before = digest_of(tool.read_bytes())
    command = "hello; other; third; cat $WIDESWE_PROMPT; echo x >/run/wideswe/tools/hello || echo read-only"
    made = play(f"{command} 2>/dev/null", tools={"hello": str(tool), "kit": str(folder)})
    assert (made.ended, digest_of(tool.read_bytes()), made.tools) == ("finished", before, {"hello": before})
    assert output(tmp_path).split("\n")[:4] == ["one maker user", "two maker user", "three maker user", "Do it."]
    with pytest.raises(InputError) as caught:
        play("true", tools={"agent": "no-such-program-anywhere"})
    assert str(caught.value) == (
        "no-such-program-anywhere: this tool of the agent is not on this machine\n"
        "hint: install it, or say in `tools` where it is"
    )


def test_a_full_disk_is_the_machines_trouble(play: Callable[..., AgentRun]) -> None:
    with pytest.raises(WorldError) as caught:
        play("true", seen={"least_free_bytes": 1 << 60})
    assert caught.value.reason == "the disk of the store is full"
