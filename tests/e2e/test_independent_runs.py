"""Independent runs: one target is judged and the others stand at gold; what is kept of a run, and what answers again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.sandbox.namespaces import may_mount
from tests.support.walk import TASK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.walk import Party

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="builds an image")]


def patch(folder: Path, name: str, data: bytes) -> str:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.patch").write_bytes(data)
    return f"{name}={folder / f'{name}.patch'}"


def line(only: str, data: bytes, **more: Any) -> dict[str, Any]:
    return {"instance_id": TASK, "only": only, "patches": {only: data.decode()}, **more}


def rows(author: Party, path: Path, lines: list[dict[str, Any]], *more: str) -> list[tuple[str, str, bool]]:
    """Evaluate predictions into a folder and return what became of each."""
    (path / "p.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    done = author.call("--json", "evaluate", "--predictions", path / "p.jsonl", "--into", path / "runs", *more)
    found = [json.loads(row) for row in done.stdout.splitlines()]
    return [(row["only"], row["outcome"], row["known"]) for row in found]


def test_a_target_is_judged_alone_and_the_verdict_says_which_stood_at_gold(
    author: Party, gold: dict[str, bytes], tmp_path: Path
) -> None:
    words = ("--only", "tidewatch", "--target-patch", patch(tmp_path, "tidewatch", gold["tidewatch"]))
    verdict = author.evaluate(*words)
    assert (verdict["bound"]["at_gold"], list(verdict["bound"]["targets"])) == (["gauge"], ["tidewatch"])
    assert verdict["run"] == {
        "mode": "independent",
        "targets": ["tidewatch"],
        "requests": None,
        "agent": "",
        "kind": "feature",
        "changes": {"tidewatch": "edited"},
    }
    assert "logs" not in verdict
    assert author.evaluate("--only", "gauge", "--gold")["bound"]["at_gold"] == ["tidewatch"]


def test_a_failure_has_a_class_where_a_trajectory_tells(author: Party, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        json.dumps({"type": "said", "text": "I read /workspace/tidewatch/README."})
        + "\n"
        + json.dumps({"type": "edited", "path": "/workspace/gauge/lib/Gauge.pm"})
    )
    words = ("--only", "tidewatch", "--target-patch", patch(tmp_path, "tidewatch", b"\n"))
    run = author.evaluate(*words, "--trajectory", tmp_path / "t.jsonl", exit_code=1)["run"]
    assert (run["changes"], run["strays"]) == ({"tidewatch": "untouched"}, ["gauge"])
    assert run["failure"] == {
        "class": "scope",
        "target": "tidewatch",
        "evidence": "not changed, and never named as what is to be changed; changed instead: gauge",
    }
    verdict = author.evaluate(*words, exit_code=1)
    assert "failure" not in verdict["run"]
    failing = verdict["bound"]["targets"]["tidewatch"]["failing"]
    assert sorted(verdict["ended"]["tidewatch"]) == failing
    assert set(verdict["ended"]["tidewatch"].values()) <= {"failed", "error", "absent"}
    assert "not ok" in verdict["logs"]["tidewatch"] or "FAIL" in verdict["logs"]["tidewatch"]


def test_a_change_of_what_stands_at_gold_is_refused(author: Party, gold: dict[str, bytes], tmp_path: Path) -> None:
    both = [word for name in gold for word in ("--target-patch", patch(tmp_path, name, gold[name]))]
    assert author.refuse("evaluate", TASK, "--only", "gauge", *both, exit_code=3) == (
        f"error: task {TASK}: a patch for 'tidewatch', which stands at gold while gauge is judged\n"
        "hint: an independent run changes one target; leave --only out to judge a joint one\n"
    )
    assert author.refuse("evaluate", TASK, "--only", "sextant", "--gold", exit_code=3) == (
        f"error: {TASK}: 'sextant' is no target\nhint: targets of this task: gauge, tidewatch\n"
    )


def test_predictions_may_be_of_independent_runs_and_a_changed_patch_is_judged_anew(
    author: Party, gold: dict[str, bytes], tmp_path: Path
) -> None:
    lines = [line(name, gold[name], requests=7, model_name_or_path="m") for name in gold]
    assert rows(author, tmp_path, lines) == [("gauge", "resolved", False), ("tidewatch", "resolved", False)]
    folder = tmp_path / "runs" / TASK
    kept = {only: folder / name for only, name in json.loads((folder / "current.json").read_text()).items()}
    assert json.loads(kept["gauge"].read_bytes())["run"]["requests"] == 7
    changed = [lines[0], line("tidewatch", gold["tidewatch"] + b"\n")]
    assert rows(author, tmp_path, changed, "--resume") == [
        ("gauge", "resolved", True),
        ("tidewatch", "resolved", False),
    ]
    kept["gauge"].write_bytes(kept["tidewatch"].read_bytes())
    assert rows(author, tmp_path, lines, "--resume") == [("gauge", "resolved", False), ("tidewatch", "resolved", True)]
    report = author.ask("report", tmp_path / "runs")
    [row] = report["configurations"]
    assert (row["mode"], row["outcomes"]["resolved"], row["requests"]) == ("independent", 1, 14)


def test_a_known_verdict_says_how_the_same_patch_came_about_this_time(author: Party, tmp_path: Path) -> None:
    asked = {"type": "requests", "count": 3}
    strayed = [asked, {"type": "edited", "path": "/workspace/gauge/lib/Gauge.pm"}]
    named = [asked, {"type": "said", "text": "I must change tidewatch/tidewatch.py."}]
    seen, digests = [], set()
    for number, (events, requests) in enumerate(((None, 7), (strayed, None), (named, 5), (None, None))):
        told = line("tidewatch", b"\n", requests=requests)
        if events:
            (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, events)))
            told["trajectory"] = "t.jsonl"
        assert rows(author, tmp_path, [told], "--resume") == [("tidewatch", "unresolved", number > 0)]
        [path] = set((tmp_path / "runs" / TASK).iterdir()) - {tmp_path / "runs" / TASK / "current.json"}
        verdict = json.loads(path.read_bytes())
        run = verdict["run"]
        seen.append((run["requests"], run.get("strays"), run.get("failure", {}).get("class")))
        digests.add(verdict["digest"])
    assert seen == [(7, None, None), (3, ["gauge"], "scope"), (5, None, "delivery"), (None, None, None)]
    assert len(digests) == 1
