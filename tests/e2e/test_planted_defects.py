"""Every planted defect is caught and named by its checklist id, and its cured twin gives one digest.

All defects are steps of one Dockerfile over this machine's own programs, built twice: on disk, and in memory with
shuffled directories and one processor. Each step that differs then runs again under each of these conditions alone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.build.causes import REPEATED
from packager.build.dockerfile import parse_dockerfile
from packager.build.execute import Builder, Input
from packager.build.reproduce import TOGETHER, Remembered, compare_builds, differing_steps, find_reactions
from packager.build.trace import Traced, steps_of
from packager.oci.entries import Entry, Kind, file_entry
from packager.oci.tree import scan_tree
from packager.sandbox.shuffled import ShuffledEngine
from packager.store.store import Store
from tests.support.host_engine import HostEngine
from tests.support.host_tree import make_host_layer
from tests.support.leaky_engine import Leak, LeakyEngine
from tests.support.planted import CURED_BY_US, PLANTED, SOURCES, Planted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from packager.build.reproduce import Comparison, Found
    from packager.sandbox.engine import Engine

pytestmark = pytest.mark.engine

HEAD = (
    "FROM scratch\nADD inputs/base.tar /\n"
    "ENV PATH=/usr/local/go/bin:/usr/bin:/bin:/usr/sbin HOME=/root LANG=C.UTF-8 LC_ALL=C.UTF-8 TZ=UTC "
    "SOURCE_DATE_EPOCH=315532800 PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1\nWORKDIR /work\n"
)
NAMES = [f"{word}-{number}" for word in ("oak", "elm", "ash", "fir") for number in range(12)]


@dataclass(frozen=True)
class Bench:
    """Two empty stores, one on disk and one in memory, and the tree that every step begins with."""

    disk: Path
    memory: Path
    base: Input

    def build(self, text: str, root: Path, engine: Engine, again: Iterable[int] = ()) -> Remembered:
        """Carry out a Dockerfile and return what is remembered of it."""
        store, traced = Store(root), list[Traced]()
        builder = Builder(store, engine, {"inputs/base.tar": self.base}, again=frozenset(again))
        stage = replace(builder, trace=traced.append).build(parse_dockerfile(text))
        return Remembered(steps_of(traced, store), store, [layer.diff_id for layer in stage.layers])

    def compare(self, text: str) -> Comparison:
        """Build a Dockerfile twice under different conditions, and find out what the differences come from."""
        engine = HostEngine()
        ours = self.build(text, self.disk, engine)
        with one_processor():
            theirs = self.build(text, self.memory, ShuffledEngine(engine, 1))
        lines = [step.line for step in differing_steps(ours, theirs)]
        known = {step.line: step.layer for step in ours.steps}

        def differing(name: str, left: Sequence[int]) -> Collection[int]:
            assert name != TOGETHER, f"no condition alone explains the steps on lines {left}"
            root = self.disk if name in (REPEATED, "cpus") else self.memory
            with one_processor(enough=name == "cpus"):
                found = self.build(text, root, engine, left)
            return [step.line for step in found.steps if step.line in left and step.layer != known[step.line]]

        return compare_builds(ours, theirs, find_reactions(lines, ("cpus", "file system"), differing))


@contextmanager
def one_processor(*, enough: bool = True) -> Iterator[None]:
    """Let this thread, and what it starts, use one processor."""
    before = os.sched_getaffinity(0)
    if enough:
        os.sched_setaffinity(0, [max(before)])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def base_entries(folder: Path) -> list[Entry]:
    make_host_layer(folder)
    data = [file_entry(b"data/" + name.encode(), b"") for name in NAMES]
    twins = [
        Entry(b"links/one", Kind.FILE, 0o644, size=2, content=b"a\n"),
        Entry(b"links/two", Kind.HARDLINK, 0o644, link=b"links/one"),
    ]
    sources = [file_entry(name.encode(), text.encode()) for name, text in SOURCES.items()]
    etc = [entry for name in ("ssl", "alternatives", "java-17-openjdk") for entry in etc_entries(name)]
    return [*scan_tree(folder), *data, *twins, *sources, *etc]


def etc_entries(name: str) -> list[Entry]:
    """Return a folder of /etc that programs of this machine need, if there is one that everybody may read."""
    place = Path("/etc", name)
    if not place.is_dir():
        return []
    kept = [entry for entry in scan_tree(place) if not entry.path.startswith(b"private")]
    return [
        replace(entry, path=f"etc/{name}/".encode() + entry.path) for entry in kept if entry.kind is not Kind.HARDLINK
    ]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no file system in memory")
    folder = tmp_path_factory.mktemp("planted")
    entries = base_entries(folder / "base")
    memory = Path(tempfile.mkdtemp(prefix="wideswe-planted-", dir="/dev/shm"))
    yield Bench(folder, memory, Input({"kind": "made"}, lambda _: entries))
    shutil.rmtree(memory)


def dockerfile(steps: Iterable[tuple[str, str]]) -> str:
    """Return a Dockerfile of named steps, each of which has a folder of its own in place of /x."""
    rows = []
    for label, command in steps:
        name = step_name(label)
        rows.append(f"# step: {name}\nRUN mkdir -p /x/{name} && {command.replace('/x/', f'/x/{name}/')}\n")
    return HEAD + "".join(rows)


@pytest.fixture(scope="module")
def caught(bench: Bench) -> Comparison:
    rows = [(row.name, row.defect) for row in (*PLANTED, *CURED_BY_US) if not row.missing]
    return bench.compare(dockerfile(rows))


def found_in(comparison: Comparison, name: str) -> list[Found]:
    return [row for row in comparison.found if row.step == step_name(name)]


def step_name(label: str) -> str:
    return label.replace(" ", "-").replace("'", "")


@pytest.mark.parametrize("planted", PLANTED, ids=lambda row: row.name)
def test_a_planted_defect_is_caught_and_named(planted: Planted, caught: Comparison) -> None:
    if planted.missing:
        pytest.skip(f"missing: {', '.join(planted.missing)}")
    rows = found_in(caught, planted.name)
    assert rows
    assert {row.cause for row in rows} == {planted.cause}, "\n".join(map(str, rows))


@pytest.mark.parametrize("planted", CURED_BY_US, ids=lambda row: row.name)
def test_what_sandbox_and_canonicaliser_cure_is_the_same(planted: Planted, caught: Comparison) -> None:
    assert found_in(caught, planted.name) == []


def test_every_difference_belongs_to_a_planted_defect(caught: Comparison) -> None:
    names = {step_name(row.name) for row in PLANTED}
    assert {row.step for row in caught.found} <= names
    assert caught.follow == ()


def test_all_cured_twins_are_the_same(bench: Bench) -> None:
    rows = [(row.name, row.cure) for row in PLANTED if not row.missing]
    comparison = bench.compare(dockerfile(rows))
    assert [str(row) for row in comparison.found] == []


LEAKS = {
    "H time zone": (Leak({"TZ": "Asia/Kathmandu"}), "date -d @86400 >/x/day"),
    "H locale": (  # no other locale is installed everywhere: `sort -f` sorts as most of them do
        Leak({"LC_ALL": "en_US.UTF-8"}),
        "printf 'b\\nA\\na\\nB\\n' | sort $([ $LC_ALL = C.UTF-8 ] || echo -f) >/x/sorted",
    ),
    "A10": (Leak(before=("/bin/sh", "-c", 'umask 077; exec "$@"', "sh")), "echo a >/x/a"),
    "H host name": (Leak({"HOST": "lab-7"}), "echo ${HOST:-$(hostname)} >/x/host"),
    "H hash seed": (Leak({"PYTHONHASHSEED": "7"}), PLANTED[10].cure),
}


@pytest.mark.parametrize("cause", LEAKS)
def test_an_engine_that_leaks_is_caught_and_the_leak_is_named(cause: str, bench: Bench) -> None:
    leak, command = LEAKS[cause]
    text = dockerfile([("leak", command)])
    ours = bench.build(text, bench.disk, HostEngine())
    theirs = bench.build(text, bench.memory / cause.replace(" ", "-"), LeakyEngine(HostEngine(), leak))
    found = compare_builds(ours, theirs, find_reactions((), (), lambda _name, _lines: ()))
    assert {row.cause for row in found.found} == {cause}, "\n".join(map(str, found.found))
