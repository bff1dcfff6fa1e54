"""Runs made of verdicts: independent ones put together, those of a campaign that count, and rows exact to the byte."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from packager.base.canonical import format_canonical
from packager.base.digests import digest_of
from packager.base.errors import PackError
from packager.cli.main import cli
from packager.evaluate.run_record import Failure, RunRecord
from packager.report.notes import TaskNotes
from packager.report.page import _room, format_page
from packager.report.rows import COLUMNS, format_csv, format_json_lines
from packager.report.run import Part, Run
from packager.report.runs import read_runs
from packager.report.summary import summarise
from tests.support.made_up_runs import made_up, write_run

if TYPE_CHECKING:
    from packager.evaluate.verdict import Verdict

ALL = ("a", "b", "c")
KEYS = tuple(f"{number:032x}.json" for number in range(4))
EVIL = "</script><img src=x onerror=alert(1)>\u2028"


def alone(target: str, outcome: str, *, task: str = "one", of: tuple[str, ...] = ALL) -> Verdict:
    """Return the verdict of an independent run."""
    return replace(made_up(task, {target: outcome}), at_gold=tuple(name for name in of if name != target))


def place(folder: Path, verdict: Verdict, name: str, record: RunRecord | None = None) -> Path:
    path = write_run(folder, verdict, record=record)
    return path.rename(path.with_name(name))


def refusal(folder: Path) -> str:
    with pytest.raises(PackError) as caught:
        read_runs([folder])
    return str(caught.value).replace(f"{folder}/", "")


def page_data(page: bytes) -> Any:
    return json.loads(page.decode().partition('type="application/json">')[2].partition("</script>")[0])


def test_independent_verdicts_on_all_targets_are_one_run(tmp_path: Path) -> None:
    for target, outcome, requests in (("a", "resolved", 3), ("b", "unresolved", 4), ("c", "resolved", None)):
        record = RunRecord("independent", (target,), requests=requests, agent_ms=10)
        place(tmp_path / "m", alone(target, outcome), f"one.{target}.json", record)
    [run] = read_runs([tmp_path])
    assert (run.mode, run.grade.outcome.value, run.requests, run.agent_ms) == ("independent", "unresolved", 7, 30)
    assert {name: one.outcome.value for name, one in run.grade.targets.items()} == {
        "a": "resolved",
        "b": "unresolved",
        "c": "resolved",
    }
    [row] = summarise([run]).configurations
    assert (row.tasks, row.targets_resolved, row.targets_judged) == (1, 2, 3)


def test_a_target_without_an_independent_run_is_missing_and_the_task_is_not_judged(tmp_path: Path) -> None:
    place(tmp_path / "m", alone("a", "resolved"), "one.json")
    place(tmp_path / "m" / "joint", made_up("one", dict.fromkeys(ALL, "unresolved")), "one.json")
    summary = summarise(read_runs([tmp_path]))
    [independent, _] = summary.configurations
    assert (dict(independent.outcomes)["missing"], independent.judged, independent.targets_judged) == (1, 0, 1)
    assert [(flip.target, flip.joint, flip.independent) for flip in summary.flips] == [("a", "unresolved", "resolved")]
    [run, _] = read_runs([tmp_path])
    assert run.grade.reason == "b: no independent run of this target; c: no independent run of this target"


def test_a_task_of_one_target_may_run_independently_too(tmp_path: Path) -> None:
    place(tmp_path / "m", alone("a", "resolved", of=("a",)), "one.json")
    [run] = read_runs([tmp_path])
    assert (run.mode, run.grade.outcome.value) == ("independent", "resolved")


def test_the_first_stage_that_broke_in_any_part_is_that_of_the_run(tmp_path: Path) -> None:
    for target, name in (("a", "post-edit"), ("b", "scope"), ("c", "delivery")):
        failure = Failure(name, target, "why")  # type: ignore[arg-type]
        place(
            tmp_path / "m",
            alone(target, "unresolved"),
            f"one.{target}.json",
            RunRecord("independent", (target,), failure=failure),
        )
    [run] = read_runs([tmp_path])
    assert run.failure == Failure("scope", "b", "why")
    place(tmp_path / "m", alone("a", "unresolved"), "one.a.json", RunRecord("independent", ("a",)))
    [run] = read_runs([tmp_path])
    assert run.failure is None


def test_facts_outweigh_what_was_found(tmp_path: Path) -> None:
    record = RunRecord(targets=ALL, kind="feature", requests=1, failure=Failure("scope", "a", "x"))
    verdict = replace(made_up("one", dict.fromkeys(ALL, "unresolved")), logs={"a": "kept"})
    write_run(
        tmp_path / "m", verdict, record=record, kind="bugfix", requests=2, failure_class="delivery", logs={"b": "said"}
    )
    [run] = read_runs([tmp_path])
    assert (run.kind, run.requests, run.failure) == ("bugfix", 2, Failure("delivery", "", "as its facts say"))
    [part] = run.parts
    assert (part.log("a"), part.log("b"), part.log("c")) == ("kept", "said", "")


def test_a_resolved_task_has_no_failure_whatever_is_said(tmp_path: Path) -> None:
    record = RunRecord(failure=Failure("scope", "a", "x"))
    write_run(tmp_path / "m", made_up("one", dict.fromkeys(ALL, "resolved")), record=record, failure_class="scope")
    [run] = read_runs([tmp_path])
    assert (run.failure, Part(run.parts[0].verdict, run.parts[0].facts).failure) == (None, None)


def test_of_a_campaign_those_verdicts_count_that_it_names(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    for key, outcome in zip(KEYS, ("unresolved", "resolved"), strict=False):
        place(folder, made_up("one", {"a": outcome}), key)
    assert refusal(tmp_path / "runs").startswith(f"one/{KEYS[1]}: a second verdict for runs joint one, first in")
    (folder / "current.json").write_text(json.dumps({"": KEYS[1]}))
    [run] = read_runs([tmp_path / "runs"])
    assert run.grade.outcome.value == "resolved"
    (folder / "current.json").write_text("[]")
    assert refusal(tmp_path / "runs") == (
        "one/current.json: expected names of verdicts by target\nhint: evaluate --into writes it"
    )


def test_what_cannot_be_one_run_is_refused(tmp_path: Path) -> None:
    first = place(tmp_path / "m", alone("a", "resolved"), "one.a.json")
    other = place(tmp_path / "m", replace(alone("b", "resolved"), image=digest_of(b"other")), "one.b.json")
    assert refusal(tmp_path) == (
        f"m/one.b.json: expected a verdict on image {digest_of(b'one')}, as m/one.a.json is, found one on {digest_of(b'other')}"
    )
    other.unlink()
    other = place(tmp_path / "m" / "independent", made_up("one", {"a": "resolved", "b": "resolved"}), "one.json")
    assert refusal(tmp_path).startswith("m/one.a.json: a second verdict for m independent one, first in")
    first.rename(tmp_path / "m" / "one.b.json")
    other.unlink()
    assert refusal(tmp_path) == "m/one.b.json: expected the verdict of one.b, found that of one"
    place(tmp_path / "n" / "joint", alone("a", "resolved"), "one.json")
    assert refusal(tmp_path / "n") == (
        "joint/one.json: expected the verdict of a joint run, found one with targets at gold"
    )


def test_tasks_judged_by_different_images_are_named(tmp_path: Path) -> None:
    write_run(tmp_path / "m", made_up("one", {"a": "resolved"}))
    write_run(tmp_path / "n", replace(made_up("one", {"a": "resolved"}), image=digest_of(b"other")))
    assert summarise(read_runs([tmp_path])).mixed == ("one",)
    said = CliRunner().invoke(cli, ["report", str(tmp_path)]).output
    assert said.splitlines()[-1] == "not judged by one image: one"


def test_the_rows_are_exact(tmp_path: Path) -> None:
    record = RunRecord(
        targets=("a", "b"),
        kind="bugfix",
        agent="codex",
        model="=m",
        requests=3,
        agent_ms=1250,
        changes={"a": "edited", "b": "untouched"},
        failure=Failure("delivery", "b", "said: update b"),
    )
    verdict = made_up("one", {"a": "resolved", "b": "unresolved"}, failing=("x, y", '"z"\n'))
    place(tmp_path / "m", alone("a", "timeout", of=("a", "b")), "one.a.json")
    write_run(tmp_path / "m", replace(verdict, ended={"b": {"x, y": "absent"}}), record=record)
    runs = read_runs([tmp_path])
    image = verdict.image
    parted = runs[0].parts[0].verdict.digest
    assert format_csv(runs).decode() == "".join(
        f"{line}\r\n"
        for line in (
            ",".join(COLUMNS),
            f"m,independent,one,,2,missing,a,timeout,2,3,4,4,1,1.5,,,,,,,,{image},0.1.0,{parted},not finished after 60 s",
            f"m,independent,one,,2,missing,b,missing,0,0,0,0,0,,,,,,,,,{image},,,no independent run of this target",
            f"m,joint,one,bugfix,2,unresolved,a,resolved,3,3,4,4,0,1.5,edited,delivery,b,codex,'=m,3,1.25,{image},0.1.0,{verdict.digest},every expected test passed",
            f"m,joint,one,bugfix,2,unresolved,b,unresolved,2,3,4,4,2,1.5,untouched,delivery,b,codex,'=m,3,1.25,{image},0.1.0,{verdict.digest},\"1 of 7 expected tests did not pass, first 't'\"",
        )
    )
    rows = [json.loads(line) for line in format_json_lines(runs).splitlines()]
    assert [set(row) for row in rows] == [{*COLUMNS, "failing_tests"}] * 4
    assert (rows[3]["failing_tests"], rows[3]["model"], rows[3]["requests"]) == (
        {"x, y": "absent", '"z"\n': None},
        "=m",
        3,
    )
    assert (rows[1]["seconds"], rows[1]["kind"], rows[0]["seconds"]) == (None, None, 1.5)


def test_nothing_hostile_in_a_record_or_a_note_becomes_markup(tmp_path: Path) -> None:
    record = RunRecord(
        agent=EVIL,
        model=EVIL,
        ended=EVIL,
        strays=(EVIL,),
        details={EVIL: EVIL},
        failure=Failure("scope", EVIL, EVIL),
    )
    write_run(tmp_path / EVIL.replace("/", "|"), made_up("one", {"a": "unresolved"}), record=record, kind=EVIL)
    notes = {"one": TaskNotes("feature", (EVIL,), {"a": EVIL})}
    page = format_page(read_runs([tmp_path]), notes=notes)
    assert (page.count(b"</script>"), b"<img" in page, "\u2028".encode() in page) == (3, False, False)
    [run] = page_data(page)["runs"]
    assert run["failure"] == [EVIL, EVIL]
    assert run["targets"]["a"]["said"][EVIL] == EVIL


@pytest.mark.parametrize(
    ("key", "value"),
    [("at_gold", [1]), ("at_gold", "b"), ("failing", [1]), ("ended", []), ("ended", {"a": ["t"]}), ("logs", "x")],
)
def test_a_verdict_of_other_shapes_is_refused_even_if_its_digest_is_right(
    tmp_path: Path, key: str, value: object
) -> None:
    path = write_run(tmp_path / "m", made_up("one", {"a": "unresolved"}))
    plain = json.loads(path.read_bytes())
    place_of_key = {"at_gold": plain["bound"], "failing": plain["bound"]["targets"]["a"]}
    place_of_key.get(key, plain)[key] = value
    plain["digest"] = digest_of(format_canonical(plain["bound"]))
    path.write_text(json.dumps(plain))
    assert refusal(tmp_path).startswith(("m/one.json: not a verdict", "m/one.json: expected exactly the keys"))


def test_only_the_two_kinds_make_groups(tmp_path: Path) -> None:
    write_run(tmp_path / "m", made_up("one", {"a": "resolved", "b": "resolved"}), kind="2 targets")
    [row] = summarise(read_runs([tmp_path])).configurations
    assert {name: share.judged for name, share in row.groups.items()} == {"2 targets": 1}


def test_a_page_over_very_much_stays_small() -> None:
    names = tuple(f"{number:03d} {'x' * 900}" for number in range(60))
    verdict = made_up("one", {f"t{number}": "unresolved" for number in range(100)}, failing=names)
    told = replace(verdict, logs=dict.fromkeys(verdict.patches, "y" * 6000 + "end"))
    page = format_page([Run("m", "joint", "one", (Part(told),))])
    assert len(page) < 20_000_000
    [run] = page_data(page)["runs"]
    target = run["targets"]["t7"]
    assert (len(target["failing"]), target["failing_total"], len(target["failing"][0])) == (50, 60, 601)
    logs = json.loads(page.decode().rpartition('type="application/json">')[2].partition("</script>")[0])
    assert (len(logs[0]["t7"]), logs[0]["t7"][-3:]) == (6003, "end")
    room = _room([Run("m", "joint", "one", (Part(told),))] * 400)
    assert (room.failing, room.log) == (3, 400)


def recipe_folder(folder: Path, released: dict[str, Any]) -> None:
    """Write a recipe that is no more than its kind and other ids need, and the evidence of a validation."""
    source = Path(__file__).parents[3]
    (folder / "recipes").mkdir()
    shutil.copytree(source / "recipes" / "hello-wide-001", folder / "recipes" / "hello-wide-001")
    text = (source / "recipes" / "hello-wide-001.yaml").read_text()
    text = text.replace("kind: feature", "kind: feature\naliases: [org_case_1]", 1)
    (folder / "recipes" / "hello-wide-001.yaml").write_text(text)
    (folder / "images").mkdir()
    (folder / "images" / "task.Dockerfile.j2").touch()
    (folder / "lockfiles").mkdir()
    evidence = {"targets": {"gauge": {"released": released}, "tidewatch": {}}}
    (folder / "lockfiles" / "hello-wide-001.linux-amd64.validation.json").write_text(json.dumps(evidence))


def test_recipes_say_what_verdicts_do_not(tmp_path: Path) -> None:
    lists = {
        "FAIL_TO_PASS": {"released": 2, "same": 1, "gone": {"x": "unstable"}, "new": ["y"]},
        "PASS_TO_PASS": {"released": 3, "same": 3, "gone": {}, "new": []},
    }
    recipe_folder(tmp_path, lists)
    write_run(tmp_path / "results" / "m", made_up("hello-wide-001", {"gauge": "resolved", "tidewatch": "resolved"}))
    words = ["--root", str(tmp_path), "report", str(tmp_path / "results"), "--html", str(tmp_path / "p.html")]
    done = CliRunner().invoke(cli, words)
    assert "FEATURE" in done.output, done.output
    assert page_data((tmp_path / "p.html").read_bytes())["notes"] == {
        "hello-wide-001": {
            "kind": "feature",
            "aliases": ["org_case_1"],
            "released": {
                "gauge": "FAIL_TO_PASS 1 of 2 as released, 1 more: not here x (unstable); PASS_TO_PASS 3 of 3 as released"
            },
        }
    }
