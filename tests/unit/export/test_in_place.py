"""The engine without a sandbox: checkouts are put back, differences are seen, and nothing that was started stays."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import pytest

from packager.base.processes import Surroundings, run
from packager.export.in_place import InPlaceEngine, InPlaceTree, copy_tree

ROOT = Path(__file__).parents[3]


@pytest.fixture
def engine(tmp_path: Path) -> InPlaceEngine:
    for name in ("one", "two"):
        folder = tmp_path / "root/workspace" / name / "src"
        folder.mkdir(parents=True)
        (folder / "a").write_text("a")
        (folder / "b").write_text("b")
        (folder.parent / ".git").mkdir()
    return InPlaceEngine(tmp_path / "root", tmp_path / "scratch", ["one", "two"])


def marks(tree: InPlaceTree) -> list[str]:
    upper = tree.upper
    return sorted(str(path.relative_to(upper)) for path in upper.rglob("*") if not path.is_dir())


def test_differences_are_marked_and_nothing_else(engine: InPlaceEngine, tmp_path: Path) -> None:
    with engine.open_tree([], scratch=tmp_path) as tree:
        assert marks(tree) == []
        one = engine.root / "workspace/one"
        (one / "src/a").write_text("A")
        (one / "src/b").unlink()
        (one / "new/deep").mkdir(parents=True)
        (one / "new/deep/c").touch()
        (one / "empty").mkdir()
        (one / "link").symlink_to("/etc")
        (one / ".git/HEAD").write_text("x")
        (one / "src/.git").mkdir()
        names = ["link", "new/deep/c", "src/a", "src/b"]
        assert marks(tree) == [f"workspace/one/{name}" for name in names]


def test_a_mode_a_kind_and_a_folder_in_the_way_are_differences(engine: InPlaceEngine, tmp_path: Path) -> None:
    with engine.open_tree([], scratch=tmp_path) as tree:
        two = engine.root / "workspace/two/src"
        (two / "a").chmod(0o755)
        (two / "b").unlink()
        (two / "b").mkdir()
        assert marks(tree) == ["workspace/two/src/a", "workspace/two/src/b"]
        (two / "b/inner").touch()
        assert marks(tree) == ["workspace/two/src/a", "workspace/two/src/b/inner"]


def test_a_checkout_that_was_removed_or_replaced_by_a_link_stands_out(engine: InPlaceEngine, tmp_path: Path) -> None:
    with engine.open_tree([], scratch=tmp_path) as tree:
        copy_tree(engine.root / "workspace/one", tmp_path / "elsewhere")
        (tmp_path / "rm").mkdir()
        (engine.root / "workspace/one").rename(tmp_path / "rm/one")
        (engine.root / "workspace/one").symlink_to(tmp_path / "elsewhere")
        assert (tree.upper / "workspace/one").is_dir()
        assert marks(tree) == []


def test_what_no_layer_changes_is_put_back(engine: InPlaceEngine, tmp_path: Path) -> None:
    with engine.open_tree([], scratch=tmp_path):
        for name in ("one", "two"):
            (engine.root / "workspace" / name / "src/a").write_text("changed")
        layer = tmp_path / "layer"
        (layer / "workspace/one").mkdir(parents=True)
    with engine.open_tree([layer], scratch=tmp_path):
        assert (engine.root / "workspace/one/src/a").read_text() == "changed"
        assert (engine.root / "workspace/two/src/a").read_text() == "a"


PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from packager.export.in_place import InPlaceTree, stand_apart
from packager.sandbox.engine import Bind, Command, Streams

stand_apart()
place = Path({place!r})
said = []
binds = (Bind(place / "shared", "/run/wideswe/report", writable=True),)
env = {{"A": "b", "PATH": "/usr/bin:/bin"}}
command = Command(("/bin/sh", "-c", {script!r}), env=env, cwd=str(place), timeout_s={timeout_s}, binds=binds)
ended = InPlaceTree(place, place, place, ()).run(command, Streams(said.append))
print(json.dumps([ended.exit_code, ended.timed_out, b"".join(said).decode()]))
"""


def run_apart(place: Path, script: str, *, timeout_s: float = 60.0) -> list[object]:
    """Run a command in a process of its own, which ends whatever came from it; return code, lateness and output."""
    (place / "shared").mkdir()
    program = PROGRAM.format(root=str(ROOT), place=str(place), script=script, timeout_s=timeout_s)
    done = run([sys.executable, "-c", program], Surroundings(cwd=place, timeout_s=60.0))
    assert done.exit_code == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert isinstance(found, list)
    return found


def test_a_command_sees_its_variables_its_folder_and_its_place_for_a_report(tmp_path: Path) -> None:
    script = "echo out $A; echo err >&2; pwd; echo report > run/wideswe/report/report; exit 3"
    assert run_apart(tmp_path, script) == [3, False, f"out b\n{tmp_path}\n"]
    assert (tmp_path / "shared/report").read_text() == "report\n"
    assert not os.path.lexists(tmp_path / "run/wideswe/report")


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    assert run_apart(tmp_path, "echo begun; sleep 60", timeout_s=2) == [128 + 15, True, "begun\n"]


@pytest.mark.engine
def test_a_process_that_cut_itself_off_ends_with_its_command(tmp_path: Path) -> None:
    start = "setsid sh -c 'echo $$ > pid; sleep 300' > /dev/null 2>&1 & while [ ! -s pid ]; do :; done"
    assert run_apart(tmp_path, start) == [0, False, ""]
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.05)
        raise AssertionError(f"{pid} still runs")
