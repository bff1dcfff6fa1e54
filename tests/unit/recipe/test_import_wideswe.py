"""Importing released cases: made-up folders in the same format, each odd in one way; the report is right to the case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.cli.importing import describe_import
from packager.recipe.reader import read_recipe
from packager.recipe.released.importing import import_cases
from packager.recipe.released.values import Imported, ImportedCase
from tests.support import released_oddities as oddities
from tests.support.released_cases import ODD_CASES, MadeCase

IMAGES = Path(__file__).parents[3] / "images"


def imported(tmp_path: Path, *cases: MadeCase) -> tuple[ImportedCase, ...]:
    for case in cases:
        case.write(tmp_path / "checkout")
    return import_cases(tmp_path / "checkout", tmp_path / "into", images=IMAGES).cases


@pytest.mark.parametrize("name", sorted(ODD_CASES))
def test_the_report_is_right_to_the_case(name: str, tmp_path: Path) -> None:
    odd = ODD_CASES[name]
    [case] = imported(tmp_path, odd.make())
    assert (case.state, case.todo, sorted(case.notes)) == (odd.state, odd.todo, sorted(odd.notes))
    if case.state == "complete":
        assert read_recipe(Path(case.recipe), images=IMAGES).id == case.task
    else:
        assert not (tmp_path / "into" / f"{case.task}.yaml").exists()


def test_there_are_at_least_thirty_odd_cases_and_one_bad_case_stops_no_other(tmp_path: Path) -> None:
    cases = imported(tmp_path, *(odd.make() for odd in ODD_CASES.values()))
    assert len(cases) >= 30
    assert {case.case: case.state for case in cases} == {odd.make().name: odd.state for odd in ODD_CASES.values()}


def test_counts_come_from_the_scoring_manifest_target_by_target(tmp_path: Path) -> None:
    [case] = imported(tmp_path, oddities.stale_validation())
    rows = [(row.native_fail_to_pass, row.missing_to_pass, row.fail_to_pass, row.pass_to_pass) for row in case.targets]
    assert rows == [(2, 1, 3, 3), (2, 1, 3, 3)]
    frozen = json.loads((tmp_path / "into" / case.task / "frozen.json").read_bytes())
    assert frozen["app"]["FAIL_TO_PASS"] == [
        "app/native_fail_to_pass::Test0",
        "app/native_fail_to_pass::Test1",
        "app/missing_to_pass::Test0",
    ]


def test_the_files_beside_a_recipe_are_those_of_the_checkout_and_say_where_they_come_from(tmp_path: Path) -> None:
    [case] = imported(tmp_path, oddities.plain())
    folder = tmp_path / "into" / case.task
    origin = json.loads((folder / "origin.json").read_bytes())
    assert sorted(origin) == [
        "frozen.json",
        "gold/app.patch",
        "gold/lib.patch",
        "hidden/app.patch",
        "hidden/lib.patch",
        "prompt.md",
    ]
    for name, row in origin.items():
        source = (tmp_path / "checkout" / row["path"]).read_bytes()
        assert (row["digest"], row["size"]) == (digest_of(source), len(source))
        assert name == "frozen.json" or (folder / name).read_bytes() == source
    assert (folder / ".gitignore").read_bytes() == b"*\n"


def test_ids_of_merged_candidates_are_aliases(tmp_path: Path) -> None:
    [case] = imported(tmp_path, oddities.merged_candidates())
    assert read_recipe(Path(case.recipe), images=IMAGES).aliases == (
        "acme_first_aaaa",
        "acme_merged_000000000010",
        "acme_second_bbbb",
    )


def test_a_go_replacement_becomes_a_link_with_a_check(tmp_path: Path) -> None:
    [case] = imported(tmp_path, oddities.joint_by_go_replace())
    recipe = read_recipe(Path(case.recipe), images=IMAGES)
    [link] = recipe.links
    assert (recipe.relation, link.consumer, link.producer, link.how, link.check) == (
        "producer-consumer",
        "app",
        "lib",
        "go-replace",
        "test \"$(go list -m -f '{{.Dir}}' example.org/lib)\" = /workspace/lib",
    )
    assert recipe.target("app").test.run == "go test -json ./cmd/..."


def test_a_commit_that_looks_like_a_number_stays_a_commit(tmp_path: Path) -> None:
    [case] = imported(tmp_path, oddities.yaml_traps())
    assert read_recipe(Path(case.recipe), images=IMAGES).target("lib").commit == "1" * 38 + "e1"


def test_contexts_are_taken_at_their_snapshot(tmp_path: Path) -> None:
    [case] = imported(tmp_path, oddities.contexts_and_three_targets())
    names = [one.name for one in read_recipe(Path(case.recipe), images=IMAGES).contexts]
    assert (case.contexts, names) == (2, ["Site.io", "docs"])


def test_importing_again_changes_nothing_and_leaves_what_a_person_wrote_alone(tmp_path: Path) -> None:
    [first] = imported(tmp_path, oddities.plain())
    [again] = imported(tmp_path, oddities.plain())
    assert again == first
    Path(first.recipe).write_text(Path(first.recipe).read_text() + "# mine\n")
    [kept] = imported(tmp_path, oddities.plain())
    assert kept.notes[-1] == (
        "there is a recipe already; it was left alone, and the new one is beside its files as draft.yaml"
    )
    assert Path(first.recipe).read_text().endswith("# mine\n")


def test_a_draft_lists_what_is_to_do_and_nothing_of_a_case_leaves_its_comment(tmp_path: Path) -> None:
    case = oddities.python_tests()
    case.repos["repos"]["x\nid: evil"] = {"url": "https://example.org/x"}
    [found] = imported(tmp_path, case)
    text = Path(found.recipe).read_text()
    assert yaml.safe_load(text)["id"] == found.task
    assert [line for line in text.splitlines() if line.startswith("# todo: ")] == [
        "# todo: lib: Python as in 3.13-slim; Debian's own is 3.11",
        "# todo: lib: commands that install its dependencies, with exact versions",
        "# todo: app: its test command (2 test commands in one profile)",
        "# todo: context x?id: evil: its commit",
    ]


def test_two_cases_that_would_be_one_task_are_not_mixed(tmp_path: Path) -> None:
    cases = imported(tmp_path, MadeCase("acme_x_1"), MadeCase("acme-x-1", org="other"))
    assert [(case.state, case.todo) for case in cases] == [
        ("complete", ()),
        ("refused", ("its task acme-x-1 is already that of cases/acme/acme_x_1",)),
    ]


def test_a_case_is_found_by_its_folder_or_its_task_and_an_unknown_one_is_said(tmp_path: Path) -> None:
    for make in (oddities.plain, oddities.merged_candidates):
        make().write(tmp_path / "checkout")

    def tasks(*names: str) -> list[str]:
        found = import_cases(tmp_path / "checkout", tmp_path / "into", cases=names, images=IMAGES)
        return [case.task for case in found.cases]

    assert tasks("acme_lib_app_000000000001") == tasks("acme-lib-app-000000000001") == ["acme-lib-app-000000000001"]
    with pytest.raises(InputError) as raised:
        tasks("acme_lib_app_000000000001", "nothing")
    assert str(raised.value) == f"{tmp_path / 'checkout'}: no such case: nothing\nhint: 2 cases there"


def test_a_folder_without_cases_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        import_cases(tmp_path, tmp_path / "into", images=IMAGES)
    assert str(raised.value) == (
        f"{tmp_path}: there is no case below this folder\n"
        "hint: name the folder that git cloned: it holds cases/<organisation>/<case>/task.yaml"
    )


def test_the_report_is_a_table_with_what_is_to_do_below_it(tmp_path: Path) -> None:
    cases = imported(tmp_path, oddities.empty_fail_to_pass(), oddities.no_task_file())
    assert describe_import(Imported(cases)) == (
        "TASK                        STATE       TESTED  CONTEXTS  FAIL/PASS_TO_PASS  TODO  REGISTRIES\n"
        "acme-empty-f2p-000000000012  incomplete  2/2     0         3/5                1     gomod\n"
        "acme-no-task-000000000022    refused     0/0     0         0/0                1     -\n"
        "\n"
        "acme-empty-f2p-000000000012: todo: lib: FAIL_TO_PASS is empty, so its tests cannot judge\n"
        "acme-empty-f2p-000000000012: note: app: 1 of FAIL_TO_PASS do not exist at base\n"
        "acme-no-task-000000000022: todo: acme_no_task_000000000022: there is no task.yaml: "
        "no repository and no commit is known\n"
        "2 cases: 0 complete, 1 incomplete, 1 refused"
    ).replace("TASK                        STATE", "TASK                         STATE")
