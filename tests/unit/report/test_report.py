from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from packager import api
from packager.base.errors import InputError, IntegrityError, PackError
from packager.cli.main import cli
from packager.report.page import format_page
from packager.report.rows import format_csv
from packager.report.runs import read_runs
from packager.report.summary import Flip, summarise
from tests.support.made_up_runs import made_up, write_run

if TYPE_CHECKING:
    from pathlib import Path

BOTH = {"a": "resolved", "b": "resolved"}
HALF = {"a": "resolved", "b": "unresolved"}


def refusal(folder: Path) -> str:
    with pytest.raises(PackError) as caught:
        read_runs([folder])
    return str(caught.value).replace(f"{folder}/", "")


def test_only_what_was_judged_counts_and_targets_are_counted_apart(tmp_path: Path) -> None:
    for task, outcomes in {
        "one": BOTH,
        "two": HALF,
        "three": {"a": "missing", "b": "missing"},
        "four": {"a": "timeout", "b": "resolved"},
        "five": {"a": "infra", "b": "resolved"},
    }.items():
        write_run(tmp_path / "model", made_up(task, outcomes), requests=10)
    [row] = summarise(read_runs([tmp_path])).configurations
    assert dict(row.outcomes) == {"resolved": 1, "unresolved": 1, "missing": 1, "timeout": 1, "infra": 1}
    assert (row.tasks, row.judged, row.task_rate) == (5, 2, 0.5)
    assert (row.targets_resolved, row.targets_judged) == (5, 6)
    assert (row.requests, row.seconds) == (50, 15.0)


def test_nothing_judged_has_no_rate(tmp_path: Path) -> None:
    write_run(tmp_path / "model", made_up("one", {"a": "infra"}))
    [row] = summarise(read_runs([tmp_path])).configurations
    assert (row.task_rate, row.target_rate) == (None, None)


def test_failure_classes_are_counted_over_unresolved_tasks_alone(tmp_path: Path) -> None:
    write_run(tmp_path / "m", made_up("one", HALF), failure_class="scope")
    write_run(tmp_path / "m", made_up("two", HALF), failure_class="scope")
    write_run(tmp_path / "m", made_up("three", HALF))
    write_run(tmp_path / "m", made_up("four", BOTH), failure_class="delivery")
    [row] = summarise(read_runs([tmp_path])).configurations
    assert dict(row.failures) == {"scope": 2, "unclassified": 1}


def test_a_flip_is_a_task_that_one_mode_resolves_and_the_other_does_not(tmp_path: Path) -> None:
    write_run(tmp_path / "m" / "joint", made_up("one", HALF))
    write_run(tmp_path / "m" / "independent", made_up("one", BOTH))
    write_run(tmp_path / "m" / "joint", made_up("two", BOTH))
    write_run(tmp_path / "m" / "independent", made_up("two", BOTH))
    write_run(tmp_path / "m" / "joint", made_up("three", BOTH))
    write_run(tmp_path / "m" / "independent", made_up("three", {"a": "infra"}))
    summary = summarise(read_runs([tmp_path]))
    assert [(row.configuration, row.mode, row.tasks) for row in summary.configurations] == [
        ("m", "independent", 3),
        ("m", "joint", 3),
    ]
    assert summary.flips == (
        Flip("m", "one", "unresolved", "resolved"),
        Flip("m", "one", "unresolved", "resolved", "b"),
    )


def test_a_folder_of_verdicts_alone_is_one_configuration(tmp_path: Path) -> None:
    write_run(tmp_path / "mine", made_up("one", BOTH))
    [run] = read_runs([tmp_path / "mine"])
    assert (run.configuration, run.mode) == ("mine", "joint")


def test_verdicts_as_a_campaign_keeps_them_are_read_too(tmp_path: Path) -> None:
    kept = "0123456789abcdef" * 2 + ".json"
    for folder in (tmp_path / "runs", tmp_path / "runs" / "m" / "independent"):
        path = write_run(folder / "one", made_up("one", BOTH))
        path.rename(path.with_name(kept))
    found = [(run.configuration, run.mode, run.task) for run in read_runs([tmp_path / "runs"])]
    assert found == [("m", "independent", "one"), ("runs", "joint", "one")]
    path = write_run(tmp_path / "wrong" / "two", made_up("one", BOTH))
    path.rename(path.with_name(kept))
    assert refusal(tmp_path / "wrong") == f"two/{kept}: expected the verdict of two, found that of one"


def test_what_is_no_result_is_refused_with_its_place(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none").startswith(f"{tmp_path / 'none'}: expected a folder of results, found none")
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty") == (
        f"{tmp_path / 'empty'}: no verdict found\nhint: write them with evaluate --output or --into"
    )
    path = write_run(tmp_path / "renamed" / "m", made_up("one", BOTH))
    path.rename(path.with_name("two.json"))
    assert refusal(tmp_path / "renamed") == "m/two.json: expected the verdict of two, found that of one"


def test_a_verdict_that_was_edited_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path / "m", made_up("one", HALF))
    path.write_text(path.read_text().replace('"unresolved"', '"resolved"'))
    with pytest.raises(IntegrityError):
        read_runs([tmp_path])


def test_two_verdicts_for_one_key_are_refused(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a" / "m", made_up("one", BOTH))
    second = write_run(tmp_path / "b" / "m", made_up("one", HALF))
    with pytest.raises(InputError) as caught:
        read_runs([tmp_path / "a", tmp_path / "b"])
    assert str(caught.value) == (
        f"{second}: a second verdict for m joint one, first in {first}\n"
        "hint: give each configuration a folder of its own"
    )


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"schema": "other"}, "expected an object of schema wideswe-facts/1"),
        ({"colour": 1}, "unknown keys: colour"),
        ({"failure_class": "luck"}, "failure_class: expected scope, delivery, post-edit, or null"),
        ({"requests": True}, "requests: expected a number of requests, or null"),
        ({"logs": {"a": 1}, "kind": 2}, "kind: expected text; logs: expected text by target"),
    ],
)
def test_facts_that_cannot_be_are_refused(tmp_path: Path, facts: dict[str, Any], problem: str) -> None:
    write_run(tmp_path / "m", made_up("one", BOTH), **facts)
    assert refusal(tmp_path) == f"m/one.facts.json: {problem}"


def test_the_table_has_a_row_per_target_and_nothing_in_it_is_a_formula(tmp_path: Path) -> None:
    write_run(tmp_path / "=cmd()", made_up("one", HALF, failing=("x", "y")), kind="bugfix", requests=3)
    rows = list(csv.DictReader(io.StringIO(format_csv(read_runs([tmp_path])).decode())))
    assert [(row["configuration"], row["target"], row["outcome"], row["failing"], row["requests"]) for row in rows] == [
        ("'=cmd()", "a", "resolved", "0", "3"),
        ("'=cmd()", "b", "unresolved", "2", "3"),
    ]
    assert (rows[0]["task_outcome"], rows[0]["kind"], rows[0]["seconds"]) == ("unresolved", "bugfix", "1.5")


def test_nothing_that_a_test_is_called_or_writes_becomes_markup(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028"
    write_run(tmp_path / "m", made_up("one", HALF, failing=(evil,)), logs={"b": evil})
    page = format_page(read_runs([tmp_path]), title=evil).decode()
    assert page.count("</script>") == 3
    assert "<img" not in page
    data, logs = (part.partition("</script>")[0] for part in page.split('type="application/json">')[1:])
    assert "\u2028" not in data + logs
    [run] = json.loads(data)["runs"]
    assert run["targets"]["b"]["failing"] == [evil]
    assert json.loads(logs) == [{"a": "", "b": evil}]


def test_the_page_fetches_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "m", made_up("one", BOTH))
    page = format_page(read_runs([tmp_path])).decode()
    assert "default-src 'none'" in page
    assert not [word for word in ("http://", "https://", "src=", "@import", "url(") if word in page]


def test_long_lists_and_logs_are_cut_and_counted(tmp_path: Path) -> None:
    names = tuple(f"test {number:04d}" for number in range(500))
    write_run(tmp_path / "m", made_up("one", HALF, failing=names), logs={"b": "x" * 100_000 + "end"})
    page = format_page(read_runs([tmp_path])).decode()
    data, logs = (part.partition("</script>")[0] for part in page.split('type="application/json">')[1:])
    [run], [log] = json.loads(data)["runs"], [one["b"] for one in json.loads(logs)]
    target = run["targets"]["b"]
    assert (len(target["failing"]), target["failing_total"], len(log), log[-3:]) == (50, 500, 20_000, "end")


def test_the_verb_prints_the_summary_and_writes_both_files(tmp_path: Path) -> None:
    write_run(tmp_path / "r" / "m" / "joint", made_up("one", HALF), failure_class="post-edit")
    write_run(tmp_path / "r" / "m" / "independent", made_up("one", BOTH))
    words = ["report", str(tmp_path / "r"), "--html", str(tmp_path / "p.html"), "--csv", str(tmp_path / "t.csv")]
    done = CliRunner().invoke(cli, words)
    assert done.output.splitlines() == [
        (
            "CONFIGURATION  MODE         TASKS  RESOLVED  UNRESOLVED  MISSING  TIMEOUT  INFRA  OF TASKS  ANY TARGET  "
            "OF TARGETS  FAILURES"
        ),
        "m              independent  1      1         0           0        0        0      100.00 %  100.00 %    100.00 %",
        (
            "m              joint        1      0         1           0        0        0      0.00 %    100.00 %    "
            "50.00 %     post-edit 1"
        ),
        "",
        "CONFIGURATION  MODE         2 TARGETS  OVERALL",
        "m              independent  100.00 %   100.00 %",
        "m              joint        0.00 %     0.00 %",
        "",
        "CONFIGURATION  TASK  TARGET  JOINT       INDEPENDENT",
        "m              one   all     unresolved  resolved",
        "m              one   b       unresolved  resolved",
    ]
    assert (tmp_path / "p.html").read_bytes() == format_page(read_runs([tmp_path / "r"]))
    assert (tmp_path / "t.csv").read_bytes().startswith(b"configuration,mode,task,")
    assert api.report([tmp_path / "r"]) == summarise(read_runs([tmp_path / "r"]))
