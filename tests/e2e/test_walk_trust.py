"""The trust part of the walk, on the shipped task: attest, list, judge by a policy, open with a grant."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from packager import api
from packager.base.processes import Surroundings, run
from packager.oci.record import format_record
from packager.trust.attestations import attached
from packager.trust.keyfiles import Password
from packager.trust.validation import Validated, parse_result
from tests.support.docker_registry import docker_registry
from tests.support.walk import HOME, ROOT, TASK, Party, outcomes, read_contents, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.engine, *([] if os.environ.get("WIDESWE_INPUTS") else [pytest.mark.network])]

PREDICATES = [
    "https://in-toto.io/attestation/test-result/v0.1",
    "https://slsa.dev/provenance/v1",
    "https://spdx.dev/Document",
]


@pytest.fixture(scope="module")
def attested(author: Party) -> Iterator[Any]:
    record = author.record
    yield author.ask("attest", "--task", TASK)
    author.store.set_name("images", TASK, format_record(record))


def place_of(author: Party) -> api.Place:
    return api.Place(ROOT, author.store_root, author.keys, password=Password(""))


def test_three_statements_say_where_it_is_from_what_is_in_it_and_that_it_was_validated(
    author: Party, attested: Any
) -> None:
    assert attested == {"task": TASK, "manifest": author.record.manifest.digest, "predicates": PREDICATES}
    record = author.record
    said = {one.predicate_type: one.predicate for _, _, one in attached(record, author.store)}
    expected = read_contents(author).expected
    assert expected is not None
    result = parse_result(said[PREDICATES[0]])
    assert isinstance(result, Validated)
    assert {name: (counts.fail_to_pass, counts.pass_to_pass) for name, counts in result.targets.items()} == {
        name: (len(lists["FAIL_TO_PASS"]), len(lists["PASS_TO_PASS"])) for name, lists in expected.items()
    }
    everything = b"".join(envelope.payload for _, envelope, _ in attached(record, author.store)).decode()
    names = [name for lists in expected.values() for name in (*lists["FAIL_TO_PASS"], *lists["PASS_TO_PASS"])]
    assert names
    assert [name for name in names if name in everything] == []
    byproducts = {row["name"]: row["digest"]["sha256"] for row in said[PREDICATES[1]]["runDetails"]["byproducts"]}
    built = replace(author, inputs=os.environ.get("WIDESWE_INPUTS")).ask("build", "--task", TASK)
    assert byproducts["environment id"] == built["environment_id"].removeprefix("sha256:")
    declared = {one["name"]: one["licenseDeclared"] for one in said[PREDICATES[2]]["packages"]}
    assert (declared["iniconfig"], declared["pygments"]) == ("MIT", "BSD-2-Clause")
    assert byproducts["content id"] == built["content_id"].removeprefix("sha256:")
    author.ask("attest", "--task", TASK)
    assert author.record == record, "the same image, lock and key say the same bytes"


def test_a_statement_that_names_a_hidden_test_is_not_signed(author: Party, attested: Any, tmp_path: Path) -> None:
    assert attested
    contents = read_contents(author)
    assert contents.expected is not None
    name = contents.expected["gauge"]["FAIL_TO_PASS"][0]
    path = tmp_path / "result.json"
    path.write_text(f'{{"result": "PASSED", "passedTests": ["{name}"]}}')
    assert author.refuse("attest", "--task", TASK, path, "--predicate-type", PREDICATES[0], exit_code=3) == (
        f"error: {path}: it names a hidden test\nhint: say how many tests, not which: statements are public\n"
    )


def test_a_verdict_says_by_which_suite_it_was_judged_and_that_it_had_expired(
    author: Party, attested: Any, tmp_path: Path
) -> None:
    assert attested
    policy = tmp_path / "trust.yaml"
    store, place = author.store, place_of(author)
    request = api.SuiteRequest(HOME, (TASK,), expires_days=2)
    try:
        made = api.create_suite(place, "wideswe", request, now=datetime.now(UTC) - timedelta(days=1))
        author.ask("trust", "export", "--format", "trust.yaml", "--into", policy)
        verdict = author.evaluate("--gold", "--policy", policy)
        suite = {"name": "wideswe", "version": 1, "digest": made.digest, "expired": False}
        assert (verdict["bound"]["suite"], outcomes(verdict)[TASK]) == (suite, "resolved")
        later = replace(request, expires_days=1)
        listed = api.update_suite(place, "wideswe", later, now=datetime.now(UTC) - timedelta(days=9))
        said = author.refuse("evaluate", TASK, "--gold", "--policy", policy, exit_code=5)
        assert said.startswith(f"error: {TASK}: check 1, suite: index expiry: version 2 expired ")
        verdict = author.evaluate("--gold", "--policy", policy, "--allow-expired")
        suite = {"name": "wideswe", "version": 2, "digest": listed.digest, "expired": True}
        assert verdict["bound"]["suite"] == suite
        bare = replace(author.record, referrers=author.record.referrers[-1:])
        with remembered(author, bare):
            said = author.refuse("evaluate", TASK, "--gold", "--policy", policy, "--allow-expired", exit_code=5)
        assert "bundle signature: " in said or "validated: " in said
    finally:
        store.remove_name("suites", "wideswe")
        shutil.rmtree(author.keys / "suites", ignore_errors=True)


def test_an_evaluator_opens_with_a_key_from_the_environment_and_a_stranger_does_not(
    author: Party, tmp_path: Path
) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    evaluator = Party(lab, tmp_path / "store", lab, lab / "keys")
    (recipient,) = evaluator.ask("keygen", "--evaluator")["recipients"]
    shutil.copy(author.keys / "release.pub", evaluator.keys)
    before = author.record
    with docker_registry(tmp_path / "registry") as host:
        granted = author.ask("grant", "--task", TASK, "--to", recipient, "--publish", f"{host}/wideswe")
        assert granted["manifest"] == before.manifest.digest
        assert granted["artifacts"] == 1
        evaluator.ask("pull", f"{host}/wideswe/{TASK}:v1")
    author.store.set_name("images", TASK, format_record(before))
    secret = (evaluator.keys / "evaluator.key").read_text().split("\n")[1]
    (evaluator.keys / "evaluator.key").unlink()
    assert "no evaluator key" in evaluator.refuse("open", TASK, "--into", "answer", exit_code=3)
    environment = {**evaluator.environment(), "WIDESWE_EVALUATOR_KEY": secret}
    words = [sys.executable, "-m", "packager", "--quiet", "open", TASK, "--into", "answer"]
    done = run(words, Surroundings(env=environment, cwd=lab, timeout_s=600))
    assert done.exit_code == 0, done.stderr.decode()
    contents = read_contents(author)
    for name, patch in contents.gold.items():
        assert (lab / "answer" / "gold" / f"{name}.patch").read_bytes() == patch
    hidden = {path.relative_to(lab / "answer" / "hidden").as_posix() for path in (lab / "answer" / "hidden").rglob("*")}
    assert {f"{target}/{path}" for target, files in contents.hidden.items() for path in files} <= hidden
    assert (lab / "answer").stat().st_mode & 0o777 == 0o700
    again = run(words, Surroundings(env=environment, cwd=lab, timeout_s=600))
    assert (again.exit_code, again.stderr) == (3, b"error: answer: exists already and is not written over\n")
    shutil.rmtree(evaluator.store_root)
