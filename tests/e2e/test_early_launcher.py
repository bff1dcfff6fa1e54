"""A launcher that was started early serves the next command, or ends unseen."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.sandbox.engine import Streams
from packager.sandbox.namespaces import may_mount
from packager.sandbox.native import NativeEngine, NativeTree, prepare_process
from tests.support.fake_fetches import FakeFetches
from tests.support.host_tree import make_host_layer, run_captured, shell

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not may_mount(), reason="needs root here; rootless runs in tests/e2e/test_rootless_engine.py"),
]


@pytest.fixture
def engine() -> NativeEngine:
    prepare_process()
    return NativeEngine()


@pytest.fixture
def tree(engine: NativeEngine, tmp_path: Path) -> Iterator[NativeTree]:
    with engine.open_tree([make_host_layer(tmp_path / "layer")], scratch=tmp_path / "scratch") as opened:
        yield opened


def waiting(engine: NativeEngine) -> int:
    """The number of the launcher that waits, 0 if there is none."""
    return 0 if engine._waiting is None else engine._waiting.child.pid


def is_there(number: int) -> bool:
    return Path(f"/proc/{number}").exists()


def test_the_next_command_takes_it_and_the_one_after_has_its_own(engine: NativeEngine, tree: NativeTree) -> None:
    with engine.early():
        number = waiting(engine)
        assert is_there(number)
        assert run_captured(tree, shell("echo one"))[1:] == ("one\n", "")
        assert (waiting(engine), is_there(number)) == (0, False)
        assert run_captured(tree, shell("echo two"))[1:] == ("two\n", "")


def test_one_that_nobody_needed_ends_and_leaves_no_descriptor(engine: NativeEngine) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with engine.early():
        number = waiting(engine)
    assert (waiting(engine), is_there(number)) == (0, False)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_command_with_other_streams_or_with_fetches_does_not_take_it(engine: NativeEngine, tree: NativeTree) -> None:
    with engine.early():
        number = waiting(engine)
        assert tree.run(shell("exit 3"), Streams()).exit_code == 3
        out: list[bytes] = []
        assert tree.run(shell("exit 4"), Streams(out.append, out.append), fetches=FakeFetches({})).exit_code == 4
        assert waiting(engine) == number


def test_one_that_was_killed_is_not_taken(engine: NativeEngine, tree: NativeTree) -> None:
    with engine.early():
        assert engine._waiting is not None
        os.kill(waiting(engine), signal.SIGKILL)
        engine._waiting.child.wait()
        assert run_captured(tree, shell("echo still"))[1:] == ("still\n", "")


def test_what_it_is_told_may_be_larger_than_a_pipe(engine: NativeEngine, tree: NativeTree) -> None:
    many = {f"NAME_{number}": "x" * 1000 for number in range(200)}
    with engine.early():
        ended, out, _ = run_captured(tree, shell("echo $NAME_199 | wc -c", env=many))
    assert (ended.exit_code, out) == (0, "1001\n")
