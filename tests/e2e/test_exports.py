"""Exports of the shipped task: what is in them, who may make them, and what their scorer says of right and wrong answers.

The scorer runs in the image as a harness's container would run it; the harnesses themselves: test_harnesses.py.
"""

from __future__ import annotations

import base64
import io
import json
import os
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.export.scorer import KEY_VARIABLE
from packager.oci.config import format_config, parse_config
from packager.oci.descriptor import describe
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, format_manifest, parse_manifest
from packager.sandbox.namespaces import may_mount
from packager.seal.identities import create_evaluator_key, write_identity
from tests.support.in_image import InImage, in_image
from tests.support.walk import HOME, TARGETS, TASK, Party, read_contents, remembered, signed_by_authors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.base.processes import Finished
    from packager.oci.record import ImageRecord

pytestmark = [
    pytest.mark.engine,
    *([] if os.environ.get("WIDESWE_INPUTS") else [pytest.mark.network]),
    pytest.mark.skipif(not may_mount(), reason="needs mounts"),
]

RESOLVED = dict.fromkeys(("reward", *TARGETS), 1)
UNRESOLVED = dict.fromkeys(("reward", *TARGETS), 0)


def export(party: Party, kind: str, into: Path, *words: str | Path) -> Mapping[str, str]:
    """Export the task and return the images of its instances."""
    done = party.ask("export", "--format", kind, "--task", TASK, "--into", into, *words)
    assert (done["format"], done["folder"]) == (kind, str(into))
    found = sorted(str(path.relative_to(into)) for path in into.rglob("*") if path.is_file())
    assert done["files"] == found
    return {one["instance"]: one["image"] for one in done["instances"]}


@pytest.fixture(scope="module")
def exported(author: Party, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All three formats."""
    folder = tmp_path_factory.mktemp("exported")
    image = f"{HOME}/{TASK}@{author.record.manifest.digest}"
    assert export(author, "harbor", folder / "harbor", "--keys-into", folder / "keys.env") == {TASK: image}
    assert export(author, "inspect", folder / "inspect") == {TASK: image}
    instances = export(author, "swebench", folder / "swebench")
    assert sorted(instances) == [TASK, *(f"{TASK}__{name}" for name in TARGETS)]
    assert len({*instances.values(), image}) == 4
    assert all(name.startswith(f"{HOME}/{TASK}@sha256:") for name in instances.values())
    return folder


def every_byte(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        yield path.name, data
        if path.suffix == ".pyz":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                yield from ((f"{path.name}/{name}", archive.read(name)) for name in archive.namelist())


def test_nothing_that_is_sealed_is_in_what_keeps_the_seal(author: Party, exported: Path) -> None:
    contents = read_contents(author)
    lines = {line for patch in contents.gold.values() for line in patch.splitlines() if line.startswith(b"+")}
    lines |= {line for files in contents.hidden.values() for _, data in files.values() for line in data.splitlines()}
    names = {name.encode() for lists in (contents.expected or {}).values() for ids in lists.values() for name in ids}
    secret = {line.lstrip(b"+").strip() for line in lines | names}
    prompt = (exported / "harbor" / TASK / "instruction.md").read_bytes()
    secret = {line for line in secret if len(line) > 24 and line not in prompt}
    assert len(secret) > 40
    for kind in ("harbor", "inspect"):
        for name, data in every_byte(exported / kind):
            assert not [line for line in secret if line in data], name
            assert b"AGE-SECRET-KEY" not in data.replace(b"AGE-SECRET-KEY-1`", b"").replace(
                b"AGE-SECRET-KEY-1\xe2", b""
            )
    rows = (exported / "swebench/rows.jsonl").read_bytes()
    assert sum(json.dumps(line.decode())[1:-1].encode() in rows for line in secret) > 40


def test_the_same_image_gives_the_same_files(author: Party, exported: Path, tmp_path: Path) -> None:
    for kind in ("harbor", "swebench", "inspect"):
        export(author, kind, tmp_path / kind)
        assert list(every_byte(tmp_path / kind)) == list(every_byte(exported / kind))


def test_keys_are_in_a_file_of_their_own_that_nobody_else_reads(exported: Path) -> None:
    assert (exported / "keys.env").stat().st_mode & 0o777 == 0o600
    assert (exported / "keys.env").read_text().startswith("WIDESWE_KEY_HELLO_WIDE_001=AGE-SECRET-KEY-1")


def test_images_are_named_where_the_harness_finds_them(author: Party, tmp_path: Path) -> None:
    named = export(author, "inspect", tmp_path / "out", "--from", "localhost:5000/mirror/")
    assert named == {TASK: f"localhost:5000/mirror/{TASK}@{author.record.manifest.digest}"}


def test_without_the_evaluators_key_seals_stay_closed_and_swebench_is_refused(author: Party, tmp_path: Path) -> None:
    stranger = replace(author, key_folder=tmp_path / "keys")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/release.pub").write_bytes((author.keys / "release.pub").read_bytes())
    export(stranger, "harbor", tmp_path / "harbor")
    assert "timeout_sec = 7200.0" in (tmp_path / "harbor" / TASK / "task.toml").read_text()
    words = ("export", "--format", "swebench", "--task", TASK, "--into", tmp_path / "out")
    told = stranger.refuse(*words, exit_code=3)
    key = tmp_path / "keys/evaluator.key"
    assert told == f"error: {key}: there is no evaluator key to open the seal with\nhint: wideswe-pack keygen\n"
    write_identity(key, create_evaluator_key()[0])
    assert "opens with the evaluator's key" in stranger.refuse(*words, exit_code=5)
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_not_written_over_and_options_fit_their_format(author: Party, tmp_path: Path) -> None:
    words = ("export", "--task", TASK, "--into", tmp_path)
    told = author.refuse(*words, "--format", "inspect", exit_code=3)
    assert told == f"error: {tmp_path}: exists already and is not written over\n"
    into = ("export", "--task", TASK, "--into", tmp_path / "new")
    told = author.refuse(*into, "--format", "inspect", "--keys-into", tmp_path / "k", exit_code=2)
    assert told == "error: --keys-into is for --format harbor\n"
    told = author.refuse(*into, "--format", "harbor", "--push", exit_code=2)
    hint = "wideswe-pack push --task ID --to REGISTRY/NAMESPACE"
    assert told == f"error: --push is for --format swebench\nhint: {hint}\n"


def with_python(party: Party, script: bytes) -> ImageRecord:
    """Return the image with another python3, signed by the authors."""
    store = party.store
    manifest = parse_manifest(store.read(party.record.manifest.digest, 1 << 20))
    config = parse_config(store.read(manifest.config.digest, 1 << 20))
    layer = write_layer([file_entry(b"usr/bin/python3", script, mode=0o755)], store)
    diff_ids = (*config.diff_ids[:-1], layer.diff_id, config.diff_ids[-1])
    written = format_config(replace(config, diff_ids=diff_ids))
    store.put(written)
    layers = (*manifest.layers[:-1], layer.descriptor(), manifest.layers[-1])
    data = format_manifest(replace(manifest, config=describe(MEDIA_CONFIG, written), layers=layers))
    store.put(data)
    record = replace(party.record, manifest=describe(MEDIA_MANIFEST, data), signatures=(), referrers=())
    return signed_by_authors(party, record)


def test_an_image_without_a_python_for_the_scorer_is_refused(author: Party, tmp_path: Path) -> None:
    words = ("--task", TASK, "--into", tmp_path / "out")
    hint = "add python3 to the recipe's base packages; --format inspect needs none, its scorer runs outside"
    with remembered(author, with_python(author, b"#!/bin/sh\nexit 1\n")):
        for kind in ("harbor", "swebench"):
            told = author.refuse("export", "--format", kind, *words, exit_code=3)
            expected = f"error: {TASK}: the image has no Python 3.11, which the scorer needs\nhint: {hint}\n"
            assert told == expected
        export(author, "inspect", tmp_path / "out")


@pytest.fixture
def container(author: Party) -> Iterator[InImage]:
    with in_image(author) as made:
        yield made


def harbor(exported: Path, container: InImage, *, key: str | None = None) -> tuple[Finished, dict[str, int] | None]:
    """Do what Harbor does with a verifier; return how it ended and the rewards."""
    tests = exported / "harbor" / TASK / "tests"
    for name in ("test.sh", "score.pyz"):
        container.put(f"/tests/{name}", (tests / name).read_bytes())
    given = (exported / "keys.env").read_text().strip().partition("=")[2] if key is None else key
    done = container.call("sh /tests/test.sh", **{KEY_VARIABLE: given})
    rewards = container.root / "logs/verifier/reward.json"
    return done, json.loads(rewards.read_bytes()) if rewards.exists() else None


def collected(author: Party, exported: Path, patches: Mapping[str, bytes], script: str = ":") -> bytes:
    """Do what Harbor does with an agent: a container, its work, and the hook that collects it."""
    text = (exported / "harbor" / TASK / "task.toml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("command = "))
    with in_image(author) as container:
        container.solve(patches)
        done = container.call(f"cd /workspace; {script}")
        assert done.exit_code == 0, done.stderr
        done = container.call(json.loads(line.partition(" = ")[2]))
        assert done.exit_code == 0, done.stderr
        return (container.root / "logs/artifacts/wideswe/workspace.tar").read_bytes()


WORK = "/logs/artifacts/wideswe/workspace.tar"


def test_harbor_gold_is_worth_one(author: Party, exported: Path, container: InImage, gold: dict[str, bytes]) -> None:
    script = "cd gauge && git add -A && git -c user.name=a -c user.email=a@b commit -qm x && rm -rf ../tidewatch/.git"
    container.put(WORK, collected(author, exported, gold, script))
    done, rewards = harbor(exported, container)
    assert (done.exit_code, rewards) == (0, RESOLVED), done.stderr
    told = json.loads((container.root / "logs/verifier/wideswe.json").read_bytes())
    assert (told["outcome"], told["targets"]["gauge"]["FAIL_TO_PASS"]) == ("resolved", [9, 9])


def test_harbor_half_an_answer_is_worth_what_it_solves(
    author: Party, exported: Path, container: InImage, gold: dict[str, bytes]
) -> None:
    container.put(WORK, collected(author, exported, {"gauge": gold["gauge"]}))
    _, rewards = harbor(exported, container)
    assert rewards == {"reward": 0, "gauge": 1, "tidewatch": 0}


def test_harbor_nothing_is_worth_nothing_whatever_stands_where_rewards_go(
    author: Party, exported: Path, container: InImage
) -> None:
    script = "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; rm -f gauge/t/*.t; mkfifo gauge/pipe"
    container.put(WORK, collected(author, exported, {}, script))
    container.put("/logs/verifier/reward.json", b'{"reward": 1}')
    container.put("/logs/verifier/reward.txt", b"1")
    _, rewards = harbor(exported, container)
    assert rewards == UNRESOLVED
    assert not (container.root / "logs/verifier/reward.txt").exists()


@pytest.mark.parametrize(
    ("work", "outcome"), [(None, "missing"), (b"no tar", "unresolved")], ids=["nothing was collected", "no tar"]
)
def test_harbor_without_anything_to_judge(exported: Path, container: InImage, work: bytes | None, outcome: str) -> None:
    if work is not None:
        container.put(WORK, work)
    _, rewards = harbor(exported, container)
    assert rewards == UNRESOLVED
    told = json.loads((container.root / "logs/verifier/wideswe.json").read_bytes())
    assert {one["outcome"] for one in told["targets"].values()} == {outcome}


WRECK = """
system(q{mkdir -p /logs/verifier/reward.txt; echo '{"reward": 1}' > /tmp/won;
ln -sf /tmp/won /logs/verifier/wideswe.json; ln -sf /tmp/won /logs/verifier/reward.json;
for f in /tests/score.pyz /usr/lib/python3.11/shutil.py /usr/lib/python3.11/encodings/*.py; do
echo 'raise SystemExit(0)' > $f; done;
setsid sh -c 'while sleep 0.05; do cp /tmp/won /logs/verifier/reward.json; done' >/dev/null 2>&1 &});
"""


def test_harbor_what_tests_wreck_behind_the_scorer_is_worth_nothing(
    author: Party, exported: Path, container: InImage
) -> None:
    module = (container.root / "workspace/gauge/lib/Gauge.pm").read_text()
    wrecked = f"cat > gauge/lib/Gauge.pm <<'END'\nBEGIN {{{WRECK}}}\n{module}\nEND"
    container.put(WORK, collected(author, exported, {}, wrecked))
    done, rewards = harbor(exported, container)
    assert (container.root / "tmp/won").exists()
    assert (done.exit_code, rewards) == (1, UNRESOLVED), done.stderr
    assert not (container.root / "logs/verifier/reward.json").is_symlink()
    assert json.loads((container.root / "tmp/won").read_bytes()) == {"reward": 1}


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf gauge tidewatch; ln -s /etc gauge",
        "rm -rf gauge tidewatch; echo x > gauge; mkdir -p tidewatch; cd tidewatch; ln -s ../../../../../etc/passwd .GIT",
        "mkdir gauge/.GIT; echo x > gauge/.GIT/config; cd tidewatch; for n in $(seq 300); do mkdir d; cd d; done; >x",
    ],
    ids=["a link, and nothing", "a file, and a name of .git", "another name of .git, and too deep"],
)
def test_harbor_what_cannot_be_read_is_unresolved_and_no_trouble_of_ours(
    author: Party, exported: Path, container: InImage, script: str
) -> None:
    container.put(WORK, collected(author, exported, {}, script))
    done, rewards = harbor(exported, container)
    assert (done.exit_code, rewards) == (1, UNRESOLVED), done.stderr


def test_harbor_without_the_right_key_has_no_reward_at_all(exported: Path, container: InImage) -> None:
    done, rewards = harbor(exported, container, key="")
    told = f"{TASK}: there is no WIDESWE_TASK_KEY to open the seal with\n"
    assert (done.exit_code, done.stderr.decode(), rewards) == (6, told, None)
    done, rewards = harbor(exported, container, key=create_evaluator_key()[0])
    assert (done.exit_code, rewards) == (6, None)
    assert done.stderr.startswith(b"seal: none of 1 given identities opens it")


def test_harbors_solution_is_the_sealed_gold(exported: Path, container: InImage, gold: dict[str, bytes]) -> None:
    folder = exported / "harbor" / TASK / "solution"
    for name in ("solve.sh", "solve.pyz"):
        container.put(f"/solution/{name}", (folder / name).read_bytes())
    key = (exported / "keys.env").read_text().strip().partition("=")[2]
    done = container.call("sh /solution/solve.sh", **{KEY_VARIABLE: key})
    assert (done.exit_code, done.stderr) == (0, b"")
    changed = container.call("cd /workspace/gauge && git status --porcelain").stdout.decode().split()
    assert "lib/Gauge.pm" in changed
    assert b"lib/Gauge.pm" in gold["gauge"]


def rows_of(exported: Path) -> dict[str, dict[str, str]]:
    lines = (exported / "swebench/rows.jsonl").read_text().splitlines()
    return {row["instance_id"]: row for row in map(json.loads, lines)}


def swebench(exported: Path, container: InImage, instance: str, patch: bytes) -> dict[str, set[str]]:
    """Do what SWE-bench's harness does: apply a patch in the repository, run the script; return ids by status."""
    rows = rows_of(exported)
    target = instance.partition("__")[2]
    container.put("/tmp/patch.diff", patch)
    container.put("/eval.sh", rows[instance]["eval_script"].encode())
    done = container.call(f"cd /workspace/{target} && {{ [ ! -s /tmp/patch.diff ] || git apply /tmp/patch.diff; }}")
    assert done.exit_code == 0, done.stderr
    said = container.call("bash /eval.sh").stdout.decode()
    found: dict[str, set[str]] = {"PASSED": set(), "FAILED": set()}
    for line in said.partition(">>>>> Start Test Output")[2].splitlines():
        status, _, name = line.partition(" ")
        if status.strip("[]") in found:
            found[status.strip("[]")].add(name)
    wanted = [json.loads(rows[instance][key]) for key in ("FAIL_TO_PASS", "PASS_TO_PASS")]
    assert found["PASSED"] | found["FAILED"] == {name for names in wanted for name in names}, said
    found["FAIL_TO_PASS"] = set(wanted[0])
    return found


def gold_of(exported: Path, instance: str) -> bytes:
    return (exported / "swebench/tasks" / instance / "gold.patch").read_bytes()


@pytest.mark.parametrize("instance", [TASK, f"{TASK}__tidewatch"])
def test_swebench_gold_passes_every_test(exported: Path, container: InImage, instance: str) -> None:
    found = swebench(exported, container, instance, gold_of(exported, instance))
    assert found["FAILED"] == set()


def test_swebench_nothing_fails_what_must_turn(exported: Path, container: InImage) -> None:
    found = swebench(exported, container, TASK, b"")
    assert found["FAILED"] == found["FAIL_TO_PASS"]


def test_swebench_a_target_alone_stands_beside_the_gold_of_the_others(exported: Path, container: InImage) -> None:
    found = swebench(exported, container, f"{TASK}__gauge", b"")
    assert found["FAIL_TO_PASS"] <= found["FAILED"]


def test_swebench_a_patch_that_was_bent_to_fit_is_not_graded(exported: Path, container: InImage) -> None:
    container.put("/workspace/gauge/README.md", b"another\n")
    patch = b"diff --git a/gauge/README.md b/gauge/README.md\n--- a/gauge/README.md\n+++ b/gauge/README.md\n"
    container.put("/tmp/wrong.diff", patch + b"@@ -1 +1 @@\n-one\n+two\n")
    rows = rows_of(exported)
    container.put("/tmp/patch.diff", patch + b"@@ -1 +1 @@\n-one\n+two\n")
    container.put("/eval.sh", rows[TASK]["eval_script"].encode())
    said = container.call("bash /eval.sh").stdout.decode()
    assert "# 'the patch was applied with changes, and cannot be taken back: error: patch failed" in said
    assert "[PASSED]" not in said
    assert base64.b64encode(b"PK")[:3].decode() in rows[TASK]["eval_script"]
