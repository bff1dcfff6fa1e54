"""Push, pull and mirror with each request going wrong in turn: they end right or say why, and a second try completes."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import PackError
from packager.base.processes import Surroundings, running
from packager.oci.record import ImageRecord, format_record
from packager.oci.reference import Reference
from packager.registry.client import RegistryClient
from packager.registry.http import Pacing
from packager.registry.mirror import Mirror
from packager.registry.pull import Pull
from packager.registry.push import Manner, Push
from packager.store.store import Store
from tests.support.images import make_full_image
from tests.support.registry import FAULTS, Fault, MemoryRegistry, Options
from tests.support.registry_contract import as_sets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HASTY = Pacing(attempts=2, first_wait_s=0.001, longest_wait_s=0.002)
IMPATIENT = replace(HASTY, read_s=0.1)
"""Gives up before a stalled registry goes on; on a busy machine it may give up without any fault, too."""
PATIENT = Pacing(attempts=3, first_wait_s=0.001, longest_wait_s=0.002)
REPOSITORY = "suite/task"
SIZES = (3000, 40_000)
CHUNK = 16_000
ONE_BY_ONE = Manner(workers=1, chunk_bytes=CHUNK)
MOST_REQUESTS = 200
STRIDE = 6
"""A mirror asks two registries some fifty times; the long tests try each request."""
BELIEVED = {("source", "404"), ("source", "redirect")}
"""A source that says "there is none" of a signature or a list is believed: nobody can tell."""
_CHILD = """
import sys
from pathlib import Path
from packager.oci.record import parse_record
from packager.oci.reference import parse_reference
from packager.registry.client import RegistryClient
from packager.registry.pull import Pull
from packager.registry.push import Manner, Push
from packager.store.store import Store
verb, text, root, record = sys.argv[1:]
reference, store = parse_reference(text), Store(Path(root))
client = RegistryClient(reference.registry, environ={})
if verb == "push":
    Push(client, store, reference, manner=Manner(workers=1, chunk_bytes=16_000)).run(parse_record(Path(record).read_bytes()))
else:
    Pull(client, store, reference, workers=1).run()
"""


class Stage:
    """A registry that asks for tokens, another host that must never see them, and a user's configuration."""

    def __init__(self, folder: Path, registry: MemoryRegistry, stranger: MemoryRegistry) -> None:
        self.folder = folder
        self.registry = registry
        self.stranger = stranger
        self.reference = Reference(registry.host, REPOSITORY, "v1")
        registry.options.redirect_host = stranger.host
        config = {"auths": {registry.host: {"username": "someone", "password": "secret"}}}
        (folder / "config.json").write_text(json.dumps(config))

    def client(self, pacing: Pacing) -> RegistryClient:
        return RegistryClient(self.registry.host, environ={"DOCKER_CONFIG": str(self.folder)}, pacing=pacing)

    def push(self, store: Store, record: ImageRecord, pacing: Pacing = PATIENT) -> None:
        client = self.client(pacing)
        try:
            Push(client, store, self.reference, manner=ONE_BY_ONE).run(record)
        finally:
            client.close()

    def pull(self, store: Store, pacing: Pacing = PATIENT) -> ImageRecord:
        client = self.client(pacing)
        try:
            return Pull(client, store, self.reference, workers=1).run()
        finally:
            client.close()

    def empty(self) -> None:
        for held in (self.registry.blobs, self.registry.manifests, self.registry.tags, self.registry.uploads):
            held.clear()

    def is_complete(self, record: ImageRecord) -> bool:
        kept = self.registry.manifests.get(REPOSITORY, {})
        tags = self.registry.tags.get(REPOSITORY, {})
        signed = all(tags.get(signature.tag) == signature.manifest.digest for signature in record.signatures)
        return signed and all(manifest.digest in kept for manifest in record.manifests())


def make_options(*, api: bool) -> Options:
    return Options(
        referrers_api=api, says_subject=api, authentication="bearer", users={"someone": "secret"}, stall_s=0.25
    )


def attempt(work: Callable[..., Any], *arguments: object) -> Any:
    """Return the result, or the PackError that says why there is none."""
    try:
        return work(*arguments)
    except PackError as error:
        return error


@pytest.mark.parametrize(("kind", "api"), [*((kind, False) for kind in FAULTS), ("lost", True), ("404", True)])
def test_a_push_survives_a_fault_at_any_request(tmp_path: Path, kind: str, *, api: bool) -> None:
    store = Store(tmp_path / "store")
    record = make_full_image(store, sizes=SIZES)
    with MemoryRegistry(make_options(api=api)) as registry, MemoryRegistry() as stranger:
        stage = Stage(tmp_path, registry, stranger)
        for at in range(1, MOST_REQUESTS):
            stage.empty()
            fault = Fault(kind, at)
            registry.begin(fault)
            outcome = attempt(stage.push, store, record, IMPATIENT if kind == "stall" else HASTY)
            if "v1" in registry.tags.get(REPOSITORY, {}):
                assert stage.is_complete(record), f"the tag came before everything else: {kind} at {at}"
            assert stage.is_complete(record) if outcome is None else registry.host in str(outcome), str(outcome)
            registry.begin(None)
            stage.push(store, record)
            registry.check()
            assert stage.is_complete(record)
            assert registry.tags[REPOSITORY]["v1"] == record.manifest.digest
            if outcome is None and not fault.met:
                break
        assert 20 < at < MOST_REQUESTS - 1
        assert not any("Authorization" in seen.headers for seen in stranger.seen)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_pull_survives_a_fault_at_any_request(tmp_path: Path, kind: str) -> None:
    source = Store(tmp_path / "source")
    record = make_full_image(source, sizes=SIZES)
    with MemoryRegistry(make_options(api=False)) as registry, MemoryRegistry() as stranger:
        stage = Stage(tmp_path, registry, stranger)
        stage.push(source, record)
        for at in range(1, MOST_REQUESTS):
            store = Store(tmp_path / f"store{at}")
            fault = Fault(kind, at)
            registry.begin(fault)
            outcome = attempt(stage.pull, store, IMPATIENT if kind == "stall" else HASTY)
            assert not store.check()
            if isinstance(outcome, PackError):
                assert registry.host in str(outcome)
            elif kind not in {"404", "redirect"}:  # a registry that says "there is none" is believed
                assert as_sets(outcome) == as_sets(record)
            registry.begin(None)
            assert as_sets(stage.pull(store)) == as_sets(record)
            assert not store.check()
            if not isinstance(outcome, PackError) and not fault.met:
                break
        assert 10 < at < MOST_REQUESTS - 1
        assert not any("Authorization" in seen.headers for seen in stranger.seen)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_mirror_survives_a_fault_at_many_requests(tmp_path: Path, kind: str, side: str) -> None:
    sweep_mirror(tmp_path, kind, side, range(1 + FAULTS.index(kind) % STRIDE, MOST_REQUESTS, STRIDE))


@pytest.mark.slow
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_mirror_survives_a_fault_at_any_request(tmp_path: Path, kind: str, side: str) -> None:
    sweep_mirror(tmp_path, kind, side, range(1, MOST_REQUESTS))


def sweep_mirror(tmp_path: Path, kind: str, side: str, places: range) -> None:
    store = Store(tmp_path / "store")
    record = make_full_image(store, sizes=SIZES)
    with (
        MemoryRegistry(make_options(api=False)) as source,
        MemoryRegistry(make_options(api=False)) as target,
        MemoryRegistry() as stranger,
    ):
        (tmp_path / "source").mkdir()
        (tmp_path / "target").mkdir()
        stages = {
            "source": Stage(tmp_path / "source", source, stranger),
            "target": Stage(tmp_path / "target", target, stranger),
        }
        stages["source"].push(store, record)
        for at in places:
            stages["target"].empty()
            transit = Store(tmp_path / f"transit{at}")
            fault = Fault(kind, at)
            stages[side].registry.begin(fault)
            outcome = attempt(copy_between, stages, transit, IMPATIENT if kind == "stall" else HASTY)
            if "v1" in target.tags.get(REPOSITORY, {}) and (side, kind) not in BELIEVED:
                assert stages["target"].is_complete(record), f"the tag came before everything else: {kind} at {at}"
            if isinstance(outcome, PackError):
                assert source.host in str(outcome) or target.host in str(outcome), str(outcome)
            elif (side, kind) not in BELIEVED:
                assert stages["target"].is_complete(record)
            stages[side].registry.begin(None)
            copy_between(stages, transit, PATIENT)
            target.check()
            assert stages["target"].is_complete(record)
            assert not list((transit.root / "tmp").glob("*"))
            if not isinstance(outcome, PackError) and not fault.met:
                break
        assert 10 < at < MOST_REQUESTS - 1
        assert not any("Authorization" in seen.headers for seen in stranger.seen)


def copy_between(stages: dict[str, Stage], transit: Store, pacing: Pacing) -> None:
    clients = {side: stage.client(pacing) for side, stage in stages.items()}
    references = {side: Reference(stage.registry.host, REPOSITORY, "v1") for side, stage in stages.items()}
    try:
        Mirror(clients["source"], clients["target"], transit, manner=ONE_BY_ONE).run(
            references["source"], references["target"]
        )
    finally:
        for client in clients.values():
            client.close()


@pytest.mark.parametrize("verb", ["push", "pull"])
def test_a_kill_in_the_middle_of_any_body_costs_only_time(tmp_path: Path, verb: str) -> None:
    source = Store(tmp_path / "source")
    record = make_full_image(source, sizes=(300_000, 40_000))
    (tmp_path / "record.json").write_bytes(format_record(record))
    with MemoryRegistry() as registry, MemoryRegistry() as stranger:
        stage = Stage(tmp_path, registry, stranger)
        store = source
        if verb == "pull":
            stage.push(source, record)
        for at in range(2, MOST_REQUESTS, 5):
            if verb == "push":
                stage.empty()
            else:
                store = Store(tmp_path / f"store{at}")
            fault = Fault("kill", at)
            registry.begin(fault)
            arguments = [verb, str(stage.reference), str(store.root), str(tmp_path / "record.json")]
            with running(
                [sys.executable, "-c", _CHILD, *arguments], Surroundings(env={"PYTHONPATH": os.pathsep.join(sys.path)})
            ) as child:
                fault.action = functools.partial(os.kill, child.pid, signal.SIGKILL)
                code = child.wait(timeout=60)
            assert code == (-signal.SIGKILL if fault.met else 0)
            assert not store.check()
            registry.begin(None)
            if verb == "push":
                stage.push(store, record)
            assert as_sets(stage.pull(store)) == as_sets(record)
            assert not store.check()
            registry.check()
            if not fault.met:
                break
        assert at > 10
