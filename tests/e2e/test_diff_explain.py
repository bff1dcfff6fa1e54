"""`diff` and `explain` over a tiny suite: what changed between two images or locks, and why a step would run again."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.digests import hex_of, parse_digest
from packager.base.errors import InputError, IntegrityError, UsageError
from packager.base.processes import Surroundings, run
from packager.oci.manifest import Index, format_index, parse_manifest
from packager.oci.record import parse_record
from tests.support.registry import MemoryRegistry
from tests.support.tiny_base import TinyWorld, publish_tiny_base
from tests.support.walk import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.suites import Suite

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyWorld]:
    with MemoryRegistry() as registry:
        yield TinyWorld(tmp_path_factory.mktemp("diff"), publish_tiny_base(registry))


@pytest.fixture(scope="module")
def pair(world: TinyWorld) -> tuple[Suite, Suite]:
    """Two tasks that differ in what one step writes."""
    suites = [world.suite(name, "mkdir -p /opt/x", f"echo {word} >/opt/x/f") for name, word in (("a", "1"), ("b", "2"))]
    for suite in suites:
        api.build(suite.place, suite.task)
    return suites[0], suites[1]


def lay_out(suite: Suite, folder: Path) -> Path:
    """Write a task's image as an OCI layout."""
    store = suite.place.store()
    descriptor = parse_record(store.name("images", suite.task) or b"").manifest
    manifest = parse_manifest(store.read(descriptor.digest, 1 << 20))
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for blob in (descriptor, manifest.config, *manifest.layers):
        (blobs / hex_of(blob.digest)).write_bytes(store.path(blob.digest).read_bytes())
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (folder / "index.json").write_bytes(format_index(Index((descriptor,))))
    return folder


def test_an_image_is_the_same_as_itself_wherever_it_lies(pair: tuple[Suite, Suite], tmp_path: Path) -> None:
    suite = pair[0]
    folder = lay_out(suite, tmp_path / "layout")
    run(["tar", "-C", str(folder), "-cf", str(tmp_path / "a.tar"), "."])
    run(["tar", "-C", str(folder), "-cf", str(tmp_path / "b.tar"), "oci-layout", "index.json", "blobs"])
    places = [suite.task, str(folder), str(tmp_path / "b.tar")]
    assert [api.diff(suite.place, one, other).same for one in places for other in places] == [True] * 9


def test_two_images_differ_by_layer_path_and_field(pair: tuple[Suite, Suite]) -> None:
    ours, theirs = pair
    found = api.diff(ours.place, ours.task, theirs.task)
    rows = {(row.layer, row.path, row.field): (row.a, row.b, row.cause) for row in found.found}
    assert found.same is False
    assert rows[-1, "config", "config.Labels.dev.wideswe.task"] == ("a-001", "b-001", "D")
    assert rows[3, "opt/x/f", "content"][:2] == ("2 bytes, from byte 0: b'1\\n'", "2 bytes, from byte 0: b'2\\n'")
    assert rows[2, "workspace/a", "entry"][1] == "absent"
    assert not [path for layer, path, _ in rows if layer == 0]
    short = api.diff(ours.place, ours.task, theirs.task, shown=1)
    assert short.more == found.more + len(found.found) - len(short.found) > 0


def test_a_layer_that_only_one_image_has_is_named(world: TinyWorld, pair: tuple[Suite, Suite]) -> None:
    longer = world.suite("c", "mkdir -p /opt/x", "true")
    longer.write_recipe(prepare=[])
    api.lock(longer.place, longer.task)
    api.build(longer.place, longer.task)
    found = api.diff(longer.place, pair[0].task, longer.task)
    assert [row.b for row in found.found if row.field == "layer"] == ["absent"]


def test_a_broken_blob_of_a_layout_is_refused(pair: tuple[Suite, Suite], tmp_path: Path) -> None:
    folder = lay_out(pair[0], tmp_path / "layout")
    largest = max((folder / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1] + b"!")
    with pytest.raises(IntegrityError) as caught:
        api.diff(pair[0].place, pair[0].task, str(folder))
    assert largest.name in str(caught.value)
    (folder / "index.json").write_bytes(format_index(Index(())))
    with pytest.raises(InputError) as refused:
        api.diff(pair[0].place, pair[0].task, str(folder))
    assert str(refused.value) == f"{folder}: expected one image, found 0\nhint: bundle export --task ID"


def test_two_locks_differ_by_what_they_pin(pair: tuple[Suite, Suite]) -> None:
    one, other = (str(suite.lock_path) for suite in pair)
    assert api.diff(pair[0].place, one, one).same
    changes = [str(row) for row in api.diff(pair[0].place, one, other).changes]
    assert "task: a-001 -> b-001" in changes
    assert f"repository a: removed, was {pair[0].base}" in changes
    with pytest.raises(UsageError) as caught:
        api.diff(pair[0].place, one, pair[1].task)
    assert str(caught.value) == f"expected two images or two locks, found one of each: {one}, b-001"
    with pytest.raises(InputError, match=r"^none-001: there is no image of this task in the store\n"):
        api.diff(pair[0].place, "a-001", "none-001")


def test_a_step_is_explained_by_what_changed_of_its_key(world: TinyWorld) -> None:
    suite = world.suite("why", "mkdir -p /opt/x", "echo 7 >/opt/x/f")
    found = api.explain(suite.place, suite.task)
    assert {(row.state, row.reason) for row in found.steps} == {
        ("would run", "no earlier build of this step is remembered"),
        ("waits", "for an earlier step: if that gives an equal layer, nothing changes here"),
    }
    api.build(suite.place, suite.task)
    found = api.explain(suite.place, suite.task)
    assert (found.idle, {row.state for row in found.steps}) == (True, {"known"})
    suite.write_recipe(prepare=["mkdir -p /opt/x", "echo 2 >/opt/x/f"])
    api.lock(suite.place, suite.task)
    found = api.explain(suite.place, suite.task)
    (row,) = [row for row in found.steps if row.state == "would run"]
    command = "cd /workspace/why && mkdir -p /opt/x && echo {} >/opt/x/f"
    assert (row.step, row.reason) == ("why/prepare", "its key changed")
    assert [str(change) for change in row.changes] == [f"command: {command.format(7)} -> {command.format(2)}"]
    steps = json.loads(suite.place.store().name("derivations", suite.task) or b"")
    prepared = next(step for step in steps if step["step"] == "why/prepare")
    suite.write_recipe(prepare=["mkdir -p /opt/x", "echo 7 >/opt/x/f"])
    api.lock(suite.place, suite.task)
    suite.place.store().quarantine(parse_digest(prepared["layer"]["digest"]))
    (row,) = [row for row in api.explain(suite.place, suite.task).steps if row.state == "would run"]
    assert row.reason == "nothing changed; its result is not in the store any more"


def test_the_command_line_says_it_for_people(world: TinyWorld, pair: tuple[Suite, Suite]) -> None:
    suite = pair[0]
    words = ["--root", suite.place.root, "--store", suite.place.store_root, "--keys", suite.place.keys]

    def call(*more: object) -> tuple[int, str]:
        argv = [sys.executable, "-m", "packager", "--quiet", *map(str, (*words, *more))]
        done = run(argv, Surroundings(env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=world.folder))
        return done.exit_code, done.stdout.decode()

    assert call("diff", "a-001", "a-001") == (0, "a-001 and a-001: same\n")
    code, text = call("diff", "a-001", "b-001")
    assert (code, text.splitlines()[0]) == (1, "a-001 and b-001: DIFFERENT")
    assert "layer 3: opt/x/f: content\n  a: 2 bytes, from byte 0: b'1\\n'\n" in text
    code, text = call("explain", "--task", "a-001")
    assert (code, text.splitlines()[0]) == (0, "a-001: nothing to do")
    assert "  known      a/prepare\n" in text
