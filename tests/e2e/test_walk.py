"""The walk through a registry: build, sign, push; then, with no network but loopback, pull, verify, evaluate.

Stock tools judge what lies in the registry, and a second evaluator is let in without the image noticing.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import sys
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.processes import Surroundings, run
from packager.oci.manifest import parse_manifest
from packager.oci.record import format_record
from packager.sandbox.namespaces import may_mount
from packager.seal.grants import count_grants, put_grant
from packager.seal.identities import create_evaluator_key, write_identity
from tests.support.debian_tools import obtain_program
from tests.support.docker_registry import docker_registry, require_program
from tests.support.walk import HOME, ROOT, TARGETS, TASK, Party, outcomes, sealed_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.processes import Finished

pytestmark = [pytest.mark.engine, *([] if os.environ.get("WIDESWE_INPUTS") else [pytest.mark.network])]


@pytest.fixture(scope="module")
def pushed(author: Party, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Push the image, under a name that is not the task's too, and return the folder of the registry's data."""
    folder = tmp_path_factory.mktemp("pushed")
    with docker_registry(folder) as host:
        answer = author.ask("push", "--task", TASK, "--to", f"{host}/wideswe")
        assert answer == {
            "task": TASK,
            "reference": f"{host}/wideswe/{TASK}:v1",
            "manifest": author.record.manifest.digest,
        }
    repositories = folder / "data/docker/registry/v2/repositories"
    shutil.copytree(repositories / "wideswe" / TASK, repositories / "mirror" / "of-a-task")
    return folder


@pytest.fixture
def registry(pushed: Path) -> Iterator[str]:
    with docker_registry(pushed) as host:
        yield host


def lab_of(folder: Path, author: Party) -> Party:
    """Somebody with an evaluator key of his own, the authors' public key, and no suite."""
    suite = folder / "no-suite"
    suite.mkdir()
    lab = Party(suite, folder / "store", suite, folder / "keys")
    lab.ask("keygen", "--evaluator")
    shutil.copy(author.keys / "release.pub", lab.keys)
    return lab


# (a) ------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not may_mount(), reason="needs root for a network namespace")
def test_a_lab_without_any_network_pulls_verifies_and_evaluates(
    author: Party, pushed: Path, tmp_path: Path, gold: dict[str, bytes]
) -> None:
    keys, patches, registry = tmp_path / "keys", tmp_path / "patches", tmp_path / "registry"
    keys.mkdir()
    for name in ("release.pub", "evaluator.key"):
        shutil.copy(author.keys / name, keys)
    write_patches(patches / "empty", dict.fromkeys(TARGETS, b""))
    for target in TARGETS:
        write_patches(patches / f"only-{target}", {target: gold[target]})
    (patches / "of-another-task.jsonl").write_text(json.dumps({"instance_id": "x-1", "model_patch": ""}))
    shutil.copytree(pushed, registry)
    found = alone(tmp_path, tmp_path, keys, patches)
    assert (found["interfaces"], found["outside"]) == (["lo"], "Network is unreachable")
    assert found["pull"]["exit_code"] == 0, found["pull"]["said"]
    assert found["pull"]["answer"]["task"] == TASK
    assert found["pull"]["answer"]["manifest"] == author.record.manifest.digest
    assert found["verify"]["exit_code"] == 0
    checks = found["verify"]["answer"]
    layers = len(parse_manifest(author.store.read(author.record.manifest.digest, 1 << 20)).layers)
    assert [check["number"] for check in checks] == list(range(1, layers + 8))
    assert all(check["ok"] for check in checks)
    assert checks[3]["reason"].startswith(f"{HOME}/{TASK}:v1 signed by key ")
    assert {name: (one["exit_code"], one["answer"]) for name, one in found["evaluate"].items()} == {
        "gold": (0, {TASK: "resolved", "gauge": "resolved", "tidewatch": "resolved"}),
        "empty": (1, {TASK: "unresolved", "gauge": "unresolved", "tidewatch": "unresolved"}),
        "only-gauge": (1, {TASK: "unresolved", "gauge": "resolved", "tidewatch": "unresolved"}),
        "only-tidewatch": (1, {TASK: "unresolved", "gauge": "unresolved", "tidewatch": "unresolved"}),
        "of-another-task": (1, {TASK: "missing", "gauge": "missing", "tidewatch": "missing"}),
    }


def write_patches(folder: Path, patches: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for target, data in patches.items():
        (folder / f"{target}.patch").write_bytes(data)


def alone(cwd: Path, *arguments: Path) -> dict[str, Any]:
    """Run the offline part in a network namespace of its own."""
    argv = [require_program("unshare"), "--net", sys.executable, "-m", "tests.support.walk_offline"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run([*argv, *map(str, arguments)], Surroundings(env=env, cwd=cwd, timeout_s=900))
    assert done.exit_code == 0, done.stderr.decode()
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


# (b) ------------------------------------------------------------------------------------------------------------------


def cosign(suite: str, folder: Path, *arguments: str) -> Finished:
    """Run stock cosign where it can reach loopback only, with an empty home."""
    nowhere = "http://127.0.0.1:9"
    env = {"HOME": str(folder), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1"}
    program = obtain_program("cosign", suite)
    return run([str(program), *arguments], Surroundings(env=env, cwd=folder, timeout_s=120))


def packaged_version(suite: str) -> str:
    """Return the version of the Debian package, since its cosign calls itself devel."""
    folder = obtain_program("cosign", suite).parents[1] / "share" / "doc" / "cosign"
    first = gzip.decompress((folder / "changelog.Debian.gz").read_bytes()).splitlines()[0].decode()
    return first.partition("(")[2].partition(")")[0]


@pytest.mark.network
@pytest.mark.parametrize(("suite", "version"), [("trixie", "2.5."), ("sid", "3.1.")])
def test_stock_cosign_verifies_the_pushed_image_offline(
    suite: str, version: str, author: Party, registry: str, tmp_path: Path
) -> None:
    assert packaged_version(suite).startswith(version)
    offline = ("--insecure-ignore-tlog=true", "--allow-http-registry")
    name = f"{registry}/wideswe/{TASK}:v1"
    done = cosign(suite, tmp_path, "verify", "--key", str(author.keys / "release.pub"), *offline, name)
    assert done.exit_code == 0, done.stderr.decode()
    assert json.loads(done.stdout)[0]["critical"]["image"]["docker-manifest-digest"] == author.record.manifest.digest
    other = Party(tmp_path, tmp_path / "store", tmp_path)
    other.ask("keygen")
    refused = cosign(suite, tmp_path, "verify", "--key", str(other.keys / "release.pub"), *offline, name)
    assert refused.exit_code != 0
    assert refused.stdout == b""


@pytest.mark.skipif(shutil.which("age") is None, reason="age is not installed")
def test_stock_age_opens_the_seal_with_the_granted_key_and_not_without(author: Party, tmp_path: Path) -> None:
    (tmp_path / "sealed.age").write_bytes(sealed_file(author))
    (grant,) = parse_manifest(author.store.read(author.record.grants[0].digest, 1 << 20)).layers
    (tmp_path / "grant.age").write_bytes(author.store.read(grant.digest, 1 << 20))
    write_identity(tmp_path / "stranger.key", create_evaluator_key()[0])
    around = Surroundings(cwd=tmp_path, timeout_s=60)
    granted = run(["age", "-d", "-i", str(author.keys / "evaluator.key"), "grant.age"], around)
    assert granted.exit_code == 0, granted.stderr.decode()
    (tmp_path / "task.key").write_bytes(granted.stdout)
    opened = run(["age", "-d", "-i", "task.key", "sealed.age"], around)
    assert opened.exit_code == 0, opened.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(opened.stdout)) as archive:
        names = archive.getnames()
    assert [name for name in names if name.startswith("gold/")] == [f"gold/{name}.patch" for name in TARGETS]
    for key, file in (
        (str(author.keys / "evaluator.key"), "sealed.age"),
        ("stranger.key", "sealed.age"),
        ("stranger.key", "grant.age"),
    ):
        refused = run(["age", "-d", "-i", key, file], around)
        assert (refused.exit_code, refused.stdout) == (1, b"")
        assert b"no identity matched any of the recipients" in refused.stderr


# (e) ------------------------------------------------------------------------------------------------------------------


def test_a_second_evaluator_is_let_in_and_the_image_stays_the_same(author: Party, pushed: Path, tmp_path: Path) -> None:
    before = author.record
    lab = lab_of(tmp_path, author)
    with docker_registry(pushed) as host:
        pulled = lab.ask("pull", f"{host}/wideswe/{TASK}:v1")
        assert lab.ask("verify", TASK)[-1]["ok"]
        assert lab.refuse("evaluate", TASK, "--gold", exit_code=5) == (
            "error: none of the 1 grants of this image opens with the evaluator's key\n"
            "hint: send your public key (wideswe-pack keygen --evaluator shows it) to the suite's authors, who grant it "
            "the task with wideswe-pack grant and push; then pull again\n"
        )
        (recipient,) = lab.ask("keygen", "--evaluator")["recipients"]
        for _ in range(2):
            author.ask("sign", "--task", TASK, "--home", HOME, "--grant-to", recipient)
        assert author.record.manifest == before.manifest
        assert (author.record.signatures, author.record.referrers) == (before.signatures, before.referrers)
        store = author.store
        assert count_grants(store, author.record.grants) == count_grants(store, before.grants) + 1
        author.ask("push", "--task", TASK, "--to", f"{host}/wideswe")
        again = lab.ask("pull", f"{host}/wideswe/{TASK}:v1")
    assert again == pulled
    assert outcomes(lab.evaluate("--gold")) == {TASK: "resolved", "gauge": "resolved", "tidewatch": "resolved"}
    assert outcomes(author.evaluate("--gold"))[TASK] == "resolved"
    shutil.rmtree(lab.store_root)


def test_an_image_without_grants_says_that_nobody_was_given_its_key(author: Party) -> None:
    record = author.record
    author.store.set_name("images", TASK, format_record(replace(record, grants=())))
    try:
        said = author.refuse("evaluate", TASK, "--gold", exit_code=5)
    finally:
        author.store.set_name("images", TASK, format_record(record))
    assert said.splitlines()[0] == "error: the image comes without any grant: nobody was given its key"


def test_a_damaged_grant_stops_no_good_one_and_is_named_when_there_is_no_other(author: Party) -> None:
    record = author.record
    damaged = put_grant(author.store, record.manifest, b"age-encryption.org/v1\n-> X25519 x\n")
    try:
        author.store.set_name("images", TASK, format_record(replace(record, grants=(damaged, *record.grants))))
        assert outcomes(author.evaluate("--gold"))[TASK] == "resolved"
        author.store.set_name("images", TASK, format_record(replace(record, grants=(damaged,))))
        said = author.refuse("evaluate", TASK, "--gold", exit_code=5)
    finally:
        author.store.set_name("images", TASK, format_record(record))
    layer = parse_manifest(author.store.read(damaged.digest, 1 << 20)).layers[0]
    assert said.splitlines()[0] == (
        "error: none of the 1 grants of this image opens with the evaluator's key; 1 of them are damaged, first: "
        f"grant {layer.digest}: the header is cut off or has a line that is too long"
    )
