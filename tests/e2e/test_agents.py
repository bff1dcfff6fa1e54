"""Agents at work on the shipped task: in their view, judged at once, with everything kept."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.digests import digest_of
from packager.evaluate.verdict import parse_verdict
from packager.report.runs import read_runs
from packager.sandbox.namespaces import may_mount
from tests.support.fake_model import SECRET, FakeModel, fake_model, wait_until
from tests.support.killing import Place, adopted_orphans, children, ended, groups_of, mounts_below, survivors
from tests.support.walk import TARGETS, TASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.walk import Party

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root")]

HEAD = "schema: wideswe-agent/1\nname: scripted\ncaps: {time: 2m, requests: 20}\nlimits: {cpus: 1, memory: 512M, pids: 64, disk: 64M}\n"
ASK = """
import json, os, urllib.request
for line in ("plan", "patch"):
    asked = urllib.request.Request(os.environ["WIDESWE_MODEL_URL"] + "/messages", json.dumps({"say": line}).encode())
    print(json.dumps({"type": "said", "text": "I will update gauge and tidewatch", "of": urllib.request.urlopen(asked).read().decode()}))
"""


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    with fake_model() as found:
        yield found


@pytest.fixture
def orphans() -> Iterator[list[int]]:
    """Adopt what the commands of a test leave behind; gives the children that were there before."""
    with adopted_orphans():
        yield children()


@pytest.fixture
def answers(gold: dict[str, bytes], tmp_path: Path) -> Path:
    """A folder of this machine with the gold patches, which a scripted agent gets as a tool of its own."""
    folder = tmp_path / "answers"
    folder.mkdir()
    for name, patch in gold.items():
        (folder / f"{name}.patch").write_bytes(patch)
    (folder / "ask.py").write_text(ASK)
    return folder


def agent_file(folder: Path, command: str, more: str = "") -> Path:
    path = folder / "scripted.yaml"
    lines = "".join(f"  {line}\n" for line in command.splitlines())
    path.write_text(f"{HEAD}command: |\n{lines}{more}")
    return path


def with_model(model: FakeModel, secret: Path) -> str:
    secret.write_text(f"{SECRET}\n")
    return (
        f"model:\n  name: made-up\n  upstream: {model.url}\n  paths: [/messages, /messages/]\n"
        f'  credential: {{file: {secret}, header: Authorization, value: "Bearer {{}}"}}\n'
    )


SOLVE = "cp -r /run/wideswe/tools/answers /tmp/a\nfor name in $WIDESWE_TARGETS; do git -C $name apply /tmp/a/$name.patch; done\n"


def line_of(folder: Path, stem: str = "joint") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{stem}.run.jsonl").read_bytes())
    return found


def test_an_agent_that_asks_its_model_and_solves_the_task_is_resolved_and_all_of_it_is_kept(
    author: Party, answers: Path, model: FakeModel, tmp_path: Path
) -> None:
    model.asked.clear()
    command = f'python3 /run/wideswe/tools/answers/ask.py\ncat "$WIDESWE_PROMPT" >&2\n{SOLVE}rm -rf gauge/.git\n'
    more = f"tools: {{answers: {answers}}}\n{with_model(model, tmp_path / 'key')}"
    file, results = agent_file(tmp_path, command, more), tmp_path / "results"
    words = ("run", "--agent", file, "--task", TASK, "--into", results)
    ran = author.ask(*words)
    folder = results / "scripted" / TASK
    assert (ran["outcome"], ran["ended"], ran["requests"], ran["known"]) == ("resolved", "finished", 2, False)
    assert ran["folder"] == str(folder)
    assert [one[2]["authorization"] for one in model.asked] == [f"Bearer {SECRET}"] * 2
    assert json.loads((folder / "joint.trajectory.jsonl").read_text().splitlines()[0])["type"] == "said"
    assert (folder / "joint.stderr.txt").read_text().startswith("# Heights in feet")
    path = Path(ran["verdict"])
    assert path.parent == folder
    verdict = parse_verdict(path.read_bytes())
    assert verdict.run is not None
    record = verdict.run
    assert (record.mode, record.targets, record.agent, record.model) == ("joint", TARGETS, "scripted", "made-up")
    assert (record.ended, record.trajectory, record.requests) == ("finished", "joint.trajectory.jsonl", 2)
    assert dict(record.changes) == dict.fromkeys(TARGETS, "edited")
    assert record.details["requests_answered"] == 2
    assert verdict.patches == {name: digest_of((folder / f"{name}.patch").read_bytes()) for name in TARGETS}
    assert [(run.configuration, run.mode, run.task) for run in read_runs([results])] == [("scripted", "joint", TASK)]

    again = author.ask(*words, "--resume")
    assert (again["outcome"], again["known"], len(model.asked)) == ("resolved", True, 2)
    assert author.refuse(*words, exit_code=2) == (
        f"error: {folder}: an earlier run is there\nhint: --resume goes on from it, --configuration NAME keeps both\n"
    )
    path.unlink()
    judged = author.ask(*words, "--resume")
    assert (judged["outcome"], judged["known"], len(model.asked)) == ("resolved", False, 2), (
        "the agent does not work again"
    )
    file.write_text(file.read_text().replace("rm -rf", "rm -r"))
    assert author.refuse(*words, "--resume", exit_code=2) == (
        f"error: {folder}: what is there is of another agent or image\nhint: --configuration NAME keeps both\n"
    )


def test_an_independent_run_has_the_other_target_at_gold_and_says_what_else_was_touched(
    author: Party, answers: Path, tmp_path: Path
) -> None:
    command = f"head -1 $WIDESWE_PROMPT; (cd gauge && perl t/all.pl) && grep -c unit gauge/lib/Gauge.pm\n{SOLVE}echo x >stations/x; echo y >>gauge/lib/Gauge.pm"
    file = agent_file(tmp_path, command, f"tools: {{answers: {answers}}}\n")
    words = ("--task", TASK, "--only", "tidewatch", "--into", tmp_path / "results", "--configuration", "alone")
    ran = author.ask("run", "--agent", file, *words)
    folder = tmp_path / "results" / "alone" / "independent" / TASK
    assert (ran["outcome"], ran["only"], ran["folder"]) == ("resolved", "tidewatch", str(folder))
    assert (folder / "tidewatch.trajectory.jsonl").read_text().startswith("# What is yours to change\n")
    verdict = parse_verdict(Path(ran["verdict"]).read_bytes())
    assert verdict.run is not None
    assert (verdict.at_gold, sorted(verdict.patches), verdict.run.strays) == (
        ("gauge",),
        ["tidewatch"],
        ("gauge", "stations"),
    )
    assert not (folder / "gauge.patch").exists()
    assert author.refuse(
        "run", "--agent", "exec true", "--task", TASK, "--only", "clock", "--into", tmp_path / "r", exit_code=2
    ) == (f"error: {TASK}: no target 'clock'\nhint: targets: gauge, tidewatch\n")


def test_an_agent_that_does_nothing_is_unresolved_and_has_no_network_and_no_seal(author: Party, tmp_path: Path) -> None:
    command = "ls /opt/wideswe; ls /run/wideswe; cat /proc/net/dev | wc -l; python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 2)'"
    ran = author.ask("run", "--agent", command, "--task", TASK, "--into", tmp_path, exit_code=1)
    assert (ran["outcome"], ran["ended"], ran["requests"], ran["configuration"]) == (
        "unresolved",
        "exit code 1",
        None,
        "command",
    )
    folder = tmp_path / "command" / TASK
    assert (folder / "joint.trajectory.jsonl").read_text().split() == ["prompt.md", "task.json", "prompt.md", "3"]
    assert "Network is unreachable" in (folder / "joint.stderr.txt").read_text()


def test_a_model_that_answers_nothing_judges_nobody_and_the_run_is_done_again(
    author: Party, model: FakeModel, tmp_path: Path
) -> None:
    command = 'python3 -c \'import os,urllib.request as u; u.urlopen(os.environ["WIDESWE_MODEL_URL"] + "/messages/broken", b"{}")\''
    file = agent_file(tmp_path, command, with_model(model, tmp_path / "key"))
    words = ("run", "--agent", file, "--task", TASK, "--into", tmp_path / "results")
    ran = author.ask(*words, exit_code=6)
    reason = "the model endpoint answered no request: 1 times 500"
    assert (ran["outcome"], ran["reason"], ran["requests"], ran["verdict"]) == ("infra", reason, 1, None)
    folder = tmp_path / "results" / "scripted" / TASK
    assert list(folder.glob("*.json")) == []
    assert line_of(folder)["trouble"] == reason
    assert author.ask(*words, "--resume", exit_code=6)["known"] is False


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--agent", "gone.yaml"), "error: gone.yaml: cannot be read: No such file or directory\n"),
        (
            ("--agent", "codex-cli"),
            (
                "error: $OPENAI_API_KEY: there is no credential for the model endpoint\n"
                "hint: set the variable OPENAI_API_KEY, or change `credential`\n"
            ),
        ),
        (
            ("--agent", "exec true", "--endpoint", "https://models.example"),
            "error: this agent has no model, so it has no endpoint\nhint: leave --endpoint out\n",
        ),
        (
            ("--agent", "codex-cli", "--endpoint", "http://models.example"),
            (
                "error: --endpoint: expected https, found 'http://models.example'\n"
                "hint: a credential in the clear is anybody's: https, or a gateway of your own on this machine\n"
            ),
        ),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_done(
    author: Party, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    code = 2 if "leave" in problem else 3
    assert author.refuse("run", *words, "--task", TASK, "--into", tmp_path / "results", exit_code=code) == problem
    assert not (tmp_path / "results").exists()


def test_one_run_that_cannot_be_done_stops_no_other(author: Party, tmp_path: Path) -> None:
    tasks = ("--task", "other-001", "--task", TASK, "--only", "gauge", "--only", "tidewatch", "--jobs", "2")
    done = author.call("--json", "run", "--agent", "exec true", *tasks, "--into", tmp_path)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.exit_code, done.stderr) == (3, b"")
    assert [(one["task"], one["only"], one["outcome"], one["exit_code"]) for one in found] == [
        ("other-001", "gauge", "refused", 3),
        ("other-001", "tidewatch", "refused", 3),
        (TASK, "gauge", "unresolved", 1),
        (TASK, "tidewatch", "unresolved", 1),
    ]
    assert found[0]["reason"] == (
        "other-001: there is no image of this task in the store\n"
        "hint: wideswe-pack build --task other-001, or wideswe-pack pull REFERENCE"
    )
    (run,) = read_runs([tmp_path])
    assert (run.configuration, run.mode, run.task) == ("command", "independent", TASK)


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGINT, signal.SIGTERM))]
)
def test_a_run_that_is_ended_from_outside_leaves_nothing_and_is_done_again(
    author: Party, model: FakeModel, orphans: list[int], tmp_path: Path, how: signal.Signals
) -> None:
    script = "import os,urllib.request as u; u.urlopen(os.environ['WIDESWE_MODEL_URL'] + '/messages/stall', b'{}')"
    file = agent_file(tmp_path, f'(sleep 77 &)\npython3 -c "{script}"', with_model(model, tmp_path / "key"))
    model.asked.clear()
    words = ("--agent", str(file), "--task", TASK, "--into", str(tmp_path / "results"), "--resume")
    child = Place(author.store_root, author.keys).start("run", *words)
    wait_until(lambda: model.asked or child.poll() is not None, 60)
    os.kill(child.pid, how)
    done = ended(child)
    assert done.exit_code == {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: -15}[how], done.stderr
    assert survivors(orphans) == []
    assert mounts_below(author.store_root) == []
    assert not (tmp_path / "results").exists()
    file.write_text(file.read_text().partition("command:")[0] + "command: exec true\n")
    again = author.ask("run", *words, exit_code=1)
    assert (again["outcome"], again["known"]) == ("unresolved", False)
    assert (list((author.store_root / "tmp").iterdir()), groups_of(child.pid)) == ([], []), "the next command sweeps"


def asleep(pid: int) -> list[int]:
    """Return the sleeping agents below a process."""
    below = children(pid)
    found = [one for one in below if read_command(one) == b"sleep\x007713\0"]
    return found + [deeper for one in below for deeper in asleep(one)]


def read_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
def test_several_runs_end_with_the_command_that_is_interrupted_and_one_that_is_killed_stops_no_other(
    author: Party, orphans: list[int], tmp_path: Path
) -> None:
    words = ("--task", TASK, "--only", "gauge", "--only", "tidewatch", "--jobs", "2", "--into", str(tmp_path))
    child = Place(author.store_root, author.keys).start("run", "--agent", "exec sleep 7713", *words)
    wait_until(lambda: len(asleep(child.pid)) == 2 or child.poll() is not None, 60)
    os.kill(child.pid, signal.SIGINT)
    done = ended(child)
    assert (done.exit_code, survivors(orphans)) == (130, []), done.stderr
    quick = "case $WIDESWE_TARGETS in gauge) exec sleep 7713;; esac"
    child = Place(author.store_root, author.keys).start("run", "--agent", quick, *words)
    wait_until(lambda: len(asleep(child.pid)) == 1 or child.poll() is not None, 60)
    (first,) = [pid for pid in children(child.pid) if asleep(pid)]
    os.kill(first, signal.SIGKILL)
    done = ended(child)
    found = {one["only"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert (done.exit_code, found["gauge"]["outcome"], found["tidewatch"]["outcome"]) == (6, "infra", "unresolved")
    assert found["gauge"]["reason"] == "the run was killed by signal 9"
    assert survivors(orphans) == []
