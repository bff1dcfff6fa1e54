"""The real agents that agents/ starts, each on the shipped task, with a model that has its gold patches applied.

Codex CLI and Claude Code are looked for on PATH, as their files do; where one is missing its test is skipped. What was
held against them by hand: Codex CLI 0.171.0, Claude Code 2.1.332.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import find_program
from packager.evaluate.trajectory import read_trajectory
from packager.evaluate.verdict import parse_verdict
from packager.sandbox.namespaces import may_mount
from tests.support.fake_model import SECRET
from tests.support.talking_model import DONE, talking_model
from tests.support.walk import TASK

if TYPE_CHECKING:
    from tests.support.walk import Party

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root")]

AGENTS = {
    "codex-cli": ("codex", "/v1", "OPENAI_API_KEY", "authorization", f"Bearer {SECRET}"),
    "claude-code": ("claude", "", "ANTHROPIC_API_KEY", "x-api-key", SECRET),
}


def applying(gold: dict[str, bytes]) -> str:
    return " && ".join(
        f"echo {base64.b64encode(patch).decode()} | base64 -d | git -C /workspace/{name} apply"
        for name, patch in gold.items()
    )


@pytest.mark.parametrize("name", AGENTS)
def test_a_real_agent_works_behind_the_gateway_and_solves_the_task(
    author: Party, gold: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    program, base, variable, header, value = AGENTS[name]
    if find_program(program) is None:
        pytest.skip(f"no {program}")
    monkeypatch.setenv(variable, SECRET)
    with talking_model(applying(gold), base) as model:
        words = ("--agent", name, "--endpoint", model.url, "--task", TASK, "--into", tmp_path)
        ran = author.ask("run", *words)
    folder = tmp_path / name / TASK
    assert (ran["outcome"], ran["ended"]) == ("resolved", "finished")
    assert ran["requests"] >= 2
    assert {asked[1].get(header) for asked in model.asked} == {value}
    trajectory = folder / "joint.trajectory.jsonl"
    assert DONE in read_trajectory(trajectory).said
    assert SECRET not in trajectory.read_text() + (folder / "joint.stderr.txt").read_text()
    verdict = parse_verdict(Path(ran["verdict"]).read_bytes())
    assert verdict.run is not None
    assert (verdict.run.agent, verdict.run.details["requests_refused"]) == (name, 0), json.dumps(
        dict(verdict.run.details)
    )
