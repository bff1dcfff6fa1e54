"""Many evaluations at once: whatever ends one of them is its own affair, and a later run does what is left."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.errors import InputError
from packager.evaluate.grade import Outcome, grade_task
from packager.evaluate.verdict import format_verdict, parse_verdict
from packager.sandbox import kernel
from packager.sandbox.namespaces import may_mount, prepare_process
from tests.support.killing import children, groups_of, mounts_below
from tests.support.walk import TASK

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.walk import Party

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="mounts a full disk")]
GONE = "localhost:1/nobody"
HANG_S = 60
SMALL_DISK = "size=1m,mode=755"


def place_of(author: Party, store: Path | None = None, *inputs: Path) -> api.Place:
    return api.Place(root=author.root, store_root=store or author.store_root, keys=author.keys, inputs=inputs)


def a_job(place: api.Place, folder: Path, patches: dict[str, bytes]) -> api.Job:
    folder.mkdir()
    files = {name: folder / f"{name}.patch" for name in patches}
    for name, data in patches.items():
        files[name].write_bytes(data)
    return api.Job(place, TASK, api.EvaluationRequest(target_patches=files))


def hanging(gauge: bytes, until: float) -> bytes:
    """Gold with one more file, which the tests of the target load in place of their own, and which waits for a time."""
    text = f"BEGIN {{ sleep 1 while time < {until:.0f} }} require '/workspace/gauge/t/Tap.pm'; 1;"
    head = b"diff --git a/lib/Tap.pm b/lib/Tap.pm\nnew file mode 100644\n--- /dev/null\n+++ b/lib/Tap.pm\n"
    return gauge + head + f"@@ -0,0 +1 @@\n+{text}\n".encode()


def kill_the_last(count: int, known: list[int]) -> None:
    """Wait until so few evaluations are left, beside children that were there before, then kill them."""
    seen, left = 0, [*range(count + 1)]
    while seen <= count or len(left) > count:
        left = [pid for pid in children() if pid not in known]
        seen = max(seen, len(left))
        time.sleep(0.2)
    for pid in left:
        os.kill(pid, signal.SIGKILL)


def test_tasks_that_cannot_be_judged_are_told_apart(tmp_path: Path) -> None:
    place = api.Place(root=tmp_path, store_root=tmp_path / "store", keys=tmp_path / "keys")
    request = api.EvaluationRequest(gold=True)
    jobs = [api.Job(place, "a-001", request), api.Job(place, "b-001", request, GONE)]
    here, gone = api.evaluate_many(jobs, api.Campaign(tmp_path / "runs", jobs=2))
    assert (here.outcome, here.exit_code, here.reason.partition("\n")[0]) == (
        "refused",
        3,
        "a-001: there is no image of this task in the store",
    )
    assert (gone.outcome, gone.exit_code, gone.verdict) == ("infra", 6, None)
    assert [path.name for path in (tmp_path / "runs").rglob("*.json")] == []


def test_the_name_of_a_task_leads_nowhere_else(tmp_path: Path) -> None:
    place = api.Place(root=tmp_path, store_root=tmp_path / "store", keys=tmp_path / "keys")
    job = api.Job(place, "../x", api.EvaluationRequest(gold=True))
    with pytest.raises(InputError) as caught:
        api.evaluate_many([job], api.Campaign(tmp_path / "runs"))
    assert str(caught.value) == "tasks: expected the name of a task, found '../x'"


def test_a_patch_that_is_gone_is_refused_alone(author: Party, tmp_path: Path) -> None:
    job = a_job(place_of(author), tmp_path / "p", {"gauge": b""})
    (tmp_path / "p" / "gauge.patch").unlink()
    [found] = api.evaluate_many([job], api.Campaign(tmp_path / "runs", resume=True))
    assert (found.outcome, found.exit_code) == ("refused", 3)
    assert found.reason == f"{tmp_path / 'p' / 'gauge.patch'}: cannot be read: No such file or directory"


def test_trouble_is_judged_again_and_judgements_never_are(author: Party, tmp_path: Path) -> None:
    job = a_job(place_of(author), tmp_path / "p", {"gauge": b"", "tidewatch": b""})
    campaign = api.Campaign(tmp_path / "runs", resume=True)
    [first] = api.evaluate_many([job], campaign)
    assert (first.outcome, first.known) == ("unresolved", False)
    assert first.verdict is not None
    verdict = parse_verdict(first.verdict.read_bytes())
    for outcome, known, now in ((Outcome.TIMEOUT, True, "timeout"), (Outcome.INFRA, False, "unresolved")):
        changed = {name: replace(one, outcome=outcome) for name, one in verdict.grade.targets.items()}
        first.verdict.write_bytes(format_verdict(replace(verdict, grade=grade_task(changed))))
        [again] = api.evaluate_many([job], campaign)
        assert (again.outcome, again.known) == (now, known)


@pytest.mark.slow
def test_twelve_at_once_of_which_three_are_killed_one_has_no_registry_and_one_no_disk(
    author: Party, gold: dict[str, bytes], tmp_path: Path
) -> None:
    prepare_process()
    known = children()
    place, empty = place_of(author), dict.fromkeys(gold, b"")
    small = tmp_path / "small"
    small.mkdir()
    kernel.mount("tmpfs", str(small), "tmpfs", 0, SMALL_DISK)
    full = place_of(author, small / "store", author.store_root)
    record = author.store.name("images", TASK)
    assert record is not None
    full.store().set_name("images", TASK, record)
    (tmp_path / "none.jsonl").write_text(json.dumps({"instance_id": "other-001", "model_patch": ""}) + "\n")
    until = time.time() + HANG_S
    slow = [{**gold, "gauge": hanging(gold["gauge"], until + number)} for number in range(3)]

    def spaced(lines: int) -> dict[str, bytes]:
        """Gold in other bytes: else what was judged of it is known."""
        return {name: data + b"\n" * lines for name, data in gold.items()}

    solved = [a_job(place, tmp_path / f"p{number}", gold) for number in range(3)]
    halves = [a_job(place, tmp_path / f"h-{name}", {**empty, name: gold[name]}) for name in gold]
    jobs = [
        *(a_job(place, tmp_path / f"s{number}", patches) for number, patches in enumerate(slow)),
        *solved,
        *halves,
        a_job(place, tmp_path / "empty", empty),
        api.Job(place, TASK, api.EvaluationRequest(patches=tmp_path / "none.jsonl")),
        a_job(full, tmp_path / "full", spaced(1)),
        replace(a_job(place_of(author, tmp_path / "bare"), tmp_path / "gone", spaced(2)), source=GONE),
    ]
    assert len(jobs) == 12
    campaign = api.Campaign(tmp_path / "runs", jobs=12)
    killer = threading.Thread(target=kill_the_last, args=(3, known))
    killer.start()
    found = api.evaluate_many(jobs, campaign)
    killer.join()
    outcomes = [one.outcome for one in found]
    print([(one.outcome, one.reason[:90]) for one in found])
    assert outcomes == [*["infra"] * 3, *["resolved"] * 3, *["unresolved"] * 3, "missing", "infra", "infra"]
    assert Counter(one.reason for one in found)["the evaluation was killed by signal 9"] == 3

    kernel.unmount(str(small))
    for store in (small / "store", tmp_path / "bare"):
        place_of(author, store).store().set_name("images", TASK, record)
    inputs = (author.store_root,)
    again = [replace(one, place=replace(one.place, inputs=inputs)) for one in jobs]
    time.sleep(max(0.0, until + 3 - time.time()))
    rest = api.evaluate_many(again, replace(campaign, jobs=2, resume=True))
    assert [one.known for one in rest] == [*[False] * 3, *[True] * 7, False, False]
    assert [one.outcome for one in rest] == [*["resolved"] * 6, *["unresolved"] * 3, "missing", "resolved", "resolved"]

    author.evaluate("--gold")  # the next command sweeps what the killed ones left
    assert list((author.store_root / "tmp").iterdir()) == []
    assert (mounts_below(author.store_root), children(), groups_of(os.getpid())) == ([], known, [])
    changed = a_job(place, tmp_path / "changed", spaced(3))
    assert [one.known for one in api.evaluate_many([changed], replace(campaign, resume=True))] == [False]
