"""A suite of twenty images on its way: pushed, mirrored twice, put into one file, taken out, and verified by a lab."""

from __future__ import annotations

import json
import re
import tarfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.errors import InputError, TrustError, UsageError, WorldError
from packager.base.progress import Event, Overall
from packager.oci.record import parse_record
from packager.trust.keyfiles import Password, read_private_key
from tests.support.images import layers_of
from tests.support.registry import MemoryRegistry
from tests.support.registry_contract import as_sets
from tests.support.suite_images import HOME, make_layers, make_variant, task_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 20
TASKS = tuple(task_name(number) for number in range(1, COUNT + 1))


@dataclass
class Stage:
    """An author with a suite, pushed to one registry; another registry; and a lab that knows only the root."""

    author: api.Place
    lab: api.Place
    first: MemoryRegistry
    second: MemoryRegistry

    def namespace(self, registry: MemoryRegistry) -> str:
        return f"{registry.host}/wideswe"


def place_in(folder: Path) -> api.Place:
    return api.Place(folder, folder / "store", folder / "keys", password=Password(""))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("suite")
    author, lab = place_in(folder / "author"), place_in(folder / "lab")
    api.keygen(author)
    key = read_private_key(author.keys / "release.key", Password(""))
    below = make_layers(author.store())
    for number in range(1, COUNT + 1):
        make_variant(author.store(), number, below, key=key)
    api.create_suite(author, "wideswe", api.SuiteRequest(home=HOME, tasks=TASKS))
    lab.keys.mkdir(parents=True)
    policy = api.export_trust(author, api.ExportRequest("trust.yaml"), api.Trust())
    (lab.keys / "trust.yaml").write_text(policy)
    with MemoryRegistry() as first, MemoryRegistry() as second:
        made = Stage(author, lab, first, second)
        for task in TASKS:
            api.push(author, task, namespace=made.namespace(first))
        api.push_suite(author, "wideswe", namespace=made.namespace(first))
        yield made


def mirror(stage: Stage, place: api.Place) -> tuple[api.Copied, ...]:
    return api.mirror_suite(place, (stage.namespace(stage.first), stage.namespace(stage.second)), "wideswe")


def test_layers_are_sent_once_and_mounted_by_the_other_tasks(stage: Stage) -> None:
    shared = layers_of(stage.author.store(), stage.author.record(TASKS[0]))[1:3]
    for digest in shared:
        assert sum(digest in held for held in stage.first.blobs.values()) == COUNT
        sent = [seen for seen in stage.first.seen if seen.method == "PUT" and seen.path.endswith(f"digest={digest}")]
        assert len(sent) == 1


def test_the_second_mirror_moves_no_blob(stage: Stage) -> None:
    first = mirror(stage, stage.lab)
    assert len(first) == COUNT + 2
    assert sum(copied.moved for copied in first) < sum(copied.blobs for copied in first)
    stage.first.begin(None)
    stage.second.begin(None)
    second = mirror(stage, stage.lab)
    assert [(copied.moved, copied.moved_bytes) for copied in second] == [(0, 0)] * len(first)
    assert [copied.manifest for copied in second] == [copied.manifest for copied in first]
    assert stage.first.requests("GET", "/blobs/") == []
    assert [seen.path for seen in stage.second.seen if "/blobs/" in seen.path and seen.method != "HEAD"] == []
    for kept in (stage.first, stage.second):
        kept.check()
    assert stage.second.tags["wideswe/wideswe-suite"].keys() >= {"v1", "latest"}


def test_a_mirrored_image_is_verified_by_the_suite(stage: Stage, tmp_path: Path) -> None:
    mirror(stage, stage.lab)
    lab = replace(stage.lab, store_root=tmp_path / "store")
    api.pull_suite(lab, f"{stage.namespace(stage.second)}/wideswe-suite:latest", api.Trust())
    api.pull(lab, f"{stage.namespace(stage.second)}/{TASKS[3]}:v1")
    checks = api.verify(lab, TASKS[3])
    listed = next(check for check in checks if check.name == "listed")
    assert listed.ok, listed.reason


def test_a_bundle_of_the_suite_goes_round_and_is_smaller_than_its_images(stage: Stage, tmp_path: Path) -> None:
    whole = api.export_bundle(stage.author, api.Cargo(suites=("wideswe",)), tmp_path / "suite.tar")
    single = [
        api.export_bundle(stage.author, api.Cargo(tasks=(task,)), tmp_path / "one.tar").size_bytes for task in TASKS
    ]
    print(f"bundle of {COUNT} images: {whole.size_bytes} bytes; their own bundles: {sum(single)} bytes")
    assert whole.images == COUNT + 1
    shared = sum(layer.size for layer in make_layers(stage.author.store()))
    assert sum(single) - whole.size_bytes > (COUNT - 1) * shared
    lab = replace(stage.lab, store_root=tmp_path / "store")
    taken = api.import_bundle(lab, tmp_path / "suite.tar")
    assert [shipped.task for shipped in taken] == [*TASKS, "wideswe"]
    assert not lab.store().check()
    for task in TASKS:
        found, made = (parse_record(place.store().name("images", task) or b"") for place in (lab, stage.author))
        assert as_sets(found) == as_sets(made)
    listed = next(check for check in api.verify(lab, TASKS[7]) if check.name == "listed")
    assert listed.ok, listed.reason
    api.export_bundle(lab, api.Cargo(suites=("wideswe",)), tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == (tmp_path / "suite.tar").read_bytes()


def test_a_bundle_with_a_suite_of_somebody_else_names_nothing(stage: Stage, tmp_path: Path) -> None:
    other = place_in(tmp_path / "other")
    api.keygen(other)
    key = read_private_key(other.keys / "release.key", Password(""))
    make_variant(other.store(), 1, make_layers(other.store()), key=key)
    api.create_suite(other, "wideswe", api.SuiteRequest(home=HOME, tasks=TASKS[:1]))
    api.export_bundle(other, api.Cargo(suites=("wideswe",)), tmp_path / "evil.tar")
    lab = replace(stage.lab, store_root=tmp_path / "store")
    with pytest.raises(TrustError) as caught:
        api.import_bundle(lab, tmp_path / "evil.tar")
    assert re.fullmatch(r"suite wideswe: check 1, [^:]+: .+", str(caught.value))
    assert lab.store().names("images") == lab.store().names("suites") == []


def test_a_pull_offline_asks_nobody_and_says_what_is_missing(stage: Stage, tmp_path: Path) -> None:
    lab = replace(stage.lab, store_root=tmp_path / "store")
    reference = f"{stage.namespace(stage.first)}/{TASKS[0]}:v1"
    with pytest.raises(WorldError) as never:
        api.pull(lab, reference, offline=True)
    assert str(never.value) == (
        f"{reference}: was not pulled into this store before\nhint: pull it once without --offline, or import a bundle"
    )
    pulled = api.pull(lab, reference)
    stage.first.begin(None)
    lab.store().remove_name("images", TASKS[0])
    assert api.pull(lab, reference, offline=True) == pulled
    assert lab.store().names("images") == [TASKS[0]]
    layer = layers_of(lab.store(), lab.record(TASKS[0]))[1]
    size = lab.store().path(layer).stat().st_size
    lab.store().path(layer).unlink()
    with pytest.raises(WorldError) as lacking:
        api.pull(lab, reference, offline=True)
    assert str(lacking.value) == (
        f"{reference}: the store lacks {layer} ({size} bytes)\nhint: pull it again without --offline"
    )
    assert stage.first.seen == []


def test_images_of_two_registries_are_not_mirrored_at_once(stage: Stage) -> None:
    pairs = [(f"{registry.host}/a:v1", "localhost:1/b:v1") for registry in (stage.first, stage.second)]
    with pytest.raises(UsageError) as caught:
        api.mirror(stage.lab, pairs)
    assert str(caught.value) == "expected images of one registry, and one registry to copy them to"


def test_plain_http_is_spoken_with_those_that_were_named(tmp_path: Path) -> None:
    place = replace(place_in(tmp_path), plain_http=("registry.lan:5000",))
    assert place.plain("registry.lan:5000") is True
    assert place.plain("registry.lan:5001") is None


def test_two_images_of_one_task_are_not_imported(stage: Stage, tmp_path: Path) -> None:
    author = place_in(tmp_path / "author")
    below = make_layers(author.store())
    make_variant(author.store(), 1, below)
    api.export_bundle(author, api.Cargo(tasks=TASKS[:1]), tmp_path / "one.tar")
    lab = replace(stage.lab, store_root=tmp_path / "store")
    taken = api.import_bundle(lab, tmp_path / "one.tar")
    assert [shipped.reference for shipped in taken] == [f"{HOME}/{TASKS[0]}:v1"]
    with pytest.raises(InputError) as caught:
        api.export_bundle(author, api.Cargo(tasks=(TASKS[1],)), tmp_path / "two.tar")
    assert str(caught.value).startswith(f"{TASKS[1]}: there is no image of this task in the store")


def test_all_together_have_a_line_of_their_own() -> None:
    events: list[Event] = []
    told = Overall.over(events.append, "push", 2)
    told(Event("one", 1, 10, "bytes"))
    told(Event("two", 5, 5, "bytes", finished=True))
    told(Event("one", 10, 10, "bytes", finished=True))
    assert [event for event in events if event.task == "push"] == [
        Event("push", 1, 10, "bytes", "0 of 2"),
        Event("push", 6, 15, "bytes", "1 of 2"),
        Event("push", 15, 15, "bytes", "2 of 2", finished=True),
    ]
    assert Overall.over(events.append, "push", 1) == events.append


def test_the_docker_list_of_a_suite_names_images_only(stage: Stage, tmp_path: Path) -> None:
    api.export_bundle(stage.author, api.Cargo(suites=("wideswe",)), tmp_path / "suite.tar")
    with tarfile.open(tmp_path / "suite.tar") as archive:
        listed = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
    assert [entry["RepoTags"] for entry in listed] == [[f"{HOME}/{task}:v1"] for task in TASKS]
