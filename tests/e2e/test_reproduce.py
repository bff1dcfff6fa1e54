"""`reproduce` over a tiny suite with real processes: equal builds, planted defects, and a step that fails elsewhere."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.api.place import PLATFORM
from packager.base.digests import digest_of
from packager.base.errors import UsageError
from packager.base.processes import Surroundings, run
from packager.store.store import Store
from tests.support.registry import MemoryRegistry
from tests.support.tiny_base import TinyWorld, publish_tiny_base
from tests.support.walk import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.engine

CONDITIONS = (
    "clock",
    "host name",
    "user",
    "umask",
    "time zone",
    "locale",
    "hash seed",
    "working folder",
    "store path",
    "file system",
    "directory order",
    "cpus",
    "user namespace",
    "engine",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyWorld]:
    with MemoryRegistry() as registry:
        yield TinyWorld(tmp_path_factory.mktemp("reproduce"), publish_tiny_base(registry))


def test_a_task_is_the_same_under_every_condition_and_a_statement_says_so(world: TinyWorld) -> None:
    suite = world.suite("good", "mkdir -p /opt/x", "ls /usr/bin >/opt/x/list", "echo 2 >/opt/x/jobs")
    statement = world.folder / "statement.json"
    found = api.reproduce(suite.place, suite.task, wish=api.Wish(engine="native", statement=statement))
    assert (found.same, found.found, found.more, found.follow) == (True, (), 0, ())
    assert found.rebuilt == found.content_id != found.environment_id
    assert [row.name for row in found.varied] == list(CONDITIONS)
    built = api.build(suite.place, suite.task)
    assert (built.manifest, built.content_id) == (found.manifest, found.content_id)
    said = json.loads(statement.read_bytes())
    varied = sorted(row.name for row in found.varied if row.varied)
    assert said == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": found.manifest.removeprefix("sha256:")}}],
        "predicateType": "https://wideswe.dev/rebuild/v1",
        "predicate": {
            "task": suite.task,
            "platform": PLATFORM,
            "lock": {"sha256": digest_of(suite.lock_path.read_bytes()).removeprefix("sha256:")},
            "packager": {"name": "wideswe-pack", "version": "0.1.0"},
            "engines": ["native"],
            "varied": varied,
            "notVaried": sorted(set(CONDITIONS) - set(varied)),
            "environmentId": found.environment_id,
            "contentId": found.content_id,
            "result": "REPRODUCED",
        },
    }
    before = statement.read_bytes()
    api.reproduce(suite.place, suite.task, wish=api.Wish(engine="native", statement=statement))
    assert statement.read_bytes() == before
    assert list((suite.place.store_root / "tmp").iterdir()) == []


def test_planted_defects_are_named_by_step_layer_path_field_values_and_cause(world: TinyWorld) -> None:
    suite = world.suite("bad", "mkdir -p /opt/x", "date >/opt/x/built", "nproc >/opt/x/jobs")
    argv = [sys.executable, "-m", "packager", "--quiet", "--json", "--root", suite.place.root]
    argv += ["--store", suite.place.store_root, "--keys", suite.place.keys, "reproduce", "--task", suite.task]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = run([str(word) for word in argv], Surroundings(env=env))
    assert done.exit_code == 1, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["same"] is False
    assert said["rebuilt"] not in (said["content_id"], said["environment_id"])
    rows = {row["path"]: row for row in said["found"]}
    several = len(os.sched_getaffinity(0)) > 1
    assert sorted(rows) == ["opt/x/built", *(["opt/x/jobs"] if several else [])]
    row = rows["opt/x/built"]
    assert (row["step"], row["field"], row["cause"], row["reacts"]) == (
        "bad/prepare",
        "content",
        "H time",
        ["nothing"],
    )
    image = Store(suite.place.store_root).name("derivations", suite.task) or b""
    steps = [step for step in json.loads(image) if step["layer"] is not None]
    assert steps[row["layer"] - 1]["step"] == "bad/prepare"  # the base image is layer 0
    assert "UTC" in row["a"]
    assert row["a"] != row["b"]


def test_one_condition_can_be_varied_alone_and_is_named(world: TinyWorld) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this process may use one processor only")
    suite = world.suite("jobs", "mkdir -p /opt/x", "nproc >/opt/x/jobs")
    assert api.reproduce(suite.place, suite.task, wish=api.Wish(vary=("umask", "clock"))).same
    found = api.reproduce(suite.place, suite.task, wish=api.Wish(vary=("umask", "cpus")))
    assert [str(row) for row in found.found] == [
        (
            "step jobs/prepare: layer 3: opt/x/jobs: content\n"
            f"  a: 2 bytes, from byte 0: b'{len(os.sched_getaffinity(0))}\\n'\n"
            "  b: 2 bytes, from byte 0: b'1\\n'\n"
            "  varies with: cpus\n"
            "  likely cause: H cpus (the number of processors): give the number: make -j2, not -j$(nproc)"
        )
    ]


def test_a_step_that_fails_elsewhere_is_a_difference(world: TinyWorld) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this process may use one processor only")
    suite = world.suite("fails", "mkdir -p /opt/x", "test $(nproc) != 1")
    found = api.reproduce(suite.place, suite.task, wish=api.Wish(vary=("cpus",)))
    command = "cd /workspace/fails && mkdir -p /opt/x && test $(nproc) != 1"
    assert (found.same, found.rebuilt) == (False, "")
    assert [(row.step, row.field, row.a, row.b, row.cause) for row in found.found] == [
        ("fails/prepare", "result", "succeeds", f"step fails/prepare: exit code 1 from: {command}", "H host")
    ]


def test_what_cannot_be_varied_is_no_condition(world: TinyWorld) -> None:
    suite = world.suite("wrong", "true")
    with pytest.raises(UsageError) as caught:
        api.reproduce(suite.place, suite.task, wish=api.Wish(vary=("weather", "cpus")))
    assert str(caught.value) == (f"nothing called weather can be varied\nhint: one of: {', '.join(CONDITIONS)}")
