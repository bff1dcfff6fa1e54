"""Recording dependency steps: twice from empty, once from the recording, and what happens when the three differ."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.build.dockerfile import parse_dockerfile
from packager.build.execute import Builder
from packager.build.record import Recording, dependency_steps, record_fetches, replay_fetches, vouch
from packager.lock.model import AbsentFetch, LockedBlob, LockedFetch
from packager.lock.recorder import Recorder
from packager.lock.sources import Source
from packager.store.store import Store
from tests.support.artifacts import make_wheel
from tests.support.fake_engine import FakeEngine, Prepared
from tests.support.fake_registry import FakeRegistry, Fault, fake_registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

WHEEL = make_wheel("foo", "1.0")
FOO = "http://pypi.invalid/files/foo-1.0-py3-none-any.whl"
STEP = "one/dependencies"
TEXT = f"FROM scratch\n# step: {STEP}\nRUN install\nRUN later\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as found:
        found.add_file("foo", "foo-1.0-py3-none-any.whl", WHEEL)
        yield found


@dataclass
class Record:
    """One recording over an engine that runs nothing."""

    store: Store
    registry: FakeRegistry
    commands: dict[str, Prepared] = field(default_factory=dict)

    def __call__(self, engine: FakeEngine | None = None, text: str = TEXT) -> Recording:
        builder = Builder(self.store, engine or FakeEngine(self.commands), {})
        clients = self.registry.clients(self.store.root)
        return record_fetches(builder, parse_dockerfile(text), lambda: Recorder(self.store, clients))


class MovingEngine(FakeEngine):
    """Takes the next of several prepared results each time a command runs."""

    def __init__(self, commands: Mapping[str, list[Prepared]]) -> None:
        super().__init__({name: rows[0] for name, rows in commands.items()})
        self._rows = {name: list(rows) for name, rows in commands.items()}

    def prepared(self, text: str) -> Prepared:
        """Return the next result; the last one stays."""
        rows = self._rows[text]
        return rows.pop(0) if len(rows) > 1 else rows[0]


def test_steps_that_may_fetch_are_those_that_install_dependencies() -> None:
    text = "FROM scratch\n# step: bootstrap\nRUN a\n# step: t/dependencies\nRUN b\n# step: t/gold/dependencies\nRUN c\n"
    assert dependency_steps(parse_dockerfile(text)) == {"t/dependencies", "t/gold/dependencies"}


def test_a_recording_holds_what_a_step_fetched_and_what_was_absent(store: Store, registry: FakeRegistry) -> None:
    registry.put("/tool", b"a tool")
    missing = "http://pypi.invalid/simple/bar/"
    record = Record(store, registry)
    record.commands["install"] = Prepared({"opt/foo": b"1"}, asks=[FOO, missing, f"{registry.url}/tool"])
    engine = FakeEngine(record.commands)
    found = record(engine)
    assert [(row.step, row.blob.key, row.origin) for row in found.fetches if row.blob.alias == "pypi"] == [
        (STEP, "foo-1.0-py3-none-any.whl", "recorded")
    ]
    assert found.absent == (AbsentFetch(STEP, "pypi", "simple/bar/"),)
    assert [source.url for source in found.sources] == [f"{registry.url}/tool"]
    assert [command.argv[-1] for command in engine.ran] == ["install"] * 3


def test_without_dependency_steps_nothing_runs(store: Store, registry: FakeRegistry) -> None:
    assert Record(store, registry)(text="FROM scratch\nRUN later\n") == Recording()


def test_two_recordings_with_different_fetches_are_refused_with_the_step(store: Store, registry: FakeRegistry) -> None:
    engine = MovingEngine({"install": [Prepared({"x": b"x"}, asks=[FOO]), Prepared({"x": b"x"})]})
    with pytest.raises(InputError) as caught:
        Record(store, registry)(engine)
    assert str(caught.value) == (
        f"step {STEP}: two recordings of one command differ\n"
        "pypi foo-1.0-py3-none-any.whl: fetched in only one of two recordings\n"
        "hint: checklist I: pin what the command fetches (a version, a lock file, a commit): the same each time"
    )


def test_two_recordings_with_different_files_are_refused_with_the_first_file(
    store: Store, registry: FakeRegistry
) -> None:
    engine = MovingEngine({"install": [Prepared({"a": b"1", "b": b"1"}), Prepared({"a": b"1", "b": b"2"})]})
    with pytest.raises(InputError) as caught:
        Record(store, registry)(engine)
    assert str(caught.value) == (
        "lock: layer 0 recorded twice differs\n"
        "b: content: 1 bytes, from byte 0: b'1' and 1 bytes, from byte 0: b'2'\n"
        "hint: H random (random bytes): no random value in a file that stays; a fixed seed"
    )


def test_an_offline_run_with_other_files_is_refused(store: Store, registry: FakeRegistry) -> None:
    engine = MovingEngine({"install": [Prepared({"a": b"1"}), Prepared({"a": b"1"}), Prepared({"a": b"2"})]})
    with pytest.raises(InputError, match=r"(?s)^lock: layer 0 recorded and replayed differs.a: content: "):
        Record(store, registry)(engine)


def test_a_step_that_fails_while_it_is_recorded_names_what_could_not_be_fetched(
    store: Store, registry: FakeRegistry
) -> None:
    url = f"{registry.url}/forbidden"
    registry.put("/forbidden", b"")
    registry.faults["/forbidden"] = Fault([401])
    record = Record(store, registry, {"install": Prepared(asks=[url], exit_code=1)})
    with pytest.raises(InputError) as caught:
        record()
    assert str(caught.value) == (
        f"step {STEP}: exit code 1 from: install\nnot fetched: GET {url}: {url}: expected status 200, found 401"
    )


def fetch(store: Store, step: str, key: str, data: bytes) -> LockedFetch:
    return LockedFetch(step, LockedBlob("pypi", key, store.put(data), len(data)), "x/y", "pkg:x/y", "recorded")


def test_lock_files_vouch_for_their_own_step_only(store: Store) -> None:
    rows = tuple(fetch(store, step, "foo-1.0-py3-none-any.whl", WHEEL) for step in ("a/dependencies", "b/dependencies"))
    files = {"b/dependencies": {"b/requirements.txt": f"foo==1.0 --hash={digest_of(WHEEL)}\n".encode()}}
    found = vouch(Recording(rows, sources=(Source("web", "x", "https://x.invalid"),)), files, store)
    assert [(row.step, row.origin) for row in found.fetches] == [
        ("a/dependencies", "recorded"),
        ("b/dependencies", "lock"),
    ]
    assert replace(found, fetches=()) == Recording(sources=(Source("web", "x", "https://x.invalid"),))


def test_a_lock_file_that_promises_other_bytes_is_an_error(store: Store) -> None:
    rows = (fetch(store, "a/dependencies", "foo-1.0-py3-none-any.whl", WHEEL),)
    files = {"a/dependencies": {"a/requirements.txt": f"foo==1.0 --hash={digest_of(b'')}\n".encode()}}
    with pytest.raises(InputError) as caught:
        vouch(Recording(rows), files, store)
    assert str(caught.value) == (
        "lock: what was fetched is not what the project's lock files promise\n"
        f"a/requirements.txt:1: expected {digest_of(b'')}, found {digest_of(WHEEL)} in pypi foo-1.0-py3-none-any.whl\n"
        "hint: the registry serves other bytes than the project was locked with: find out which of them is right"
    )


def test_the_digest_of_a_steps_fetches_covers_each_row_and_not_its_origin(store: Store) -> None:
    row = fetch(store, "a", "foo-1.0-py3-none-any.whl", WHEEL)
    absent = AbsentFetch("a", "pypi", "simple/bar/")

    def digest(fetches: tuple[LockedFetch, ...], missing: tuple[AbsentFetch, ...] = ()) -> str:
        return replay_fetches(store, ["a"], fetches, missing)["a"].digest

    assert digest((row,)) == digest((replace(row, origin="lock"),))
    assert len({digest(()), digest((row,)), digest((row,), (absent,)), digest((), (absent,))}) == 4
    assert digest((replace(row, step="b"),)) == digest(())
