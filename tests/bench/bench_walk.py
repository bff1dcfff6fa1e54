"""How fast the walk is: a build with nothing to do, `evaluate` to the first command, a native build beside BuildKit.

    WIDESWE_STORE=… WIDESWE_KEYS=… python -m tests.bench.bench_walk [--task ID] [--rounds N] [--folder DIR] [--daemon HOST] [--client DOCKER]

Needs a store in which the task is built, and keys; the store gains a small image (bench-clock-001). Without a docker
daemon (HOST as DOCKER_HOST has it) the comparisons are left out. Only the ratios within one run say anything about
other machines. Our byte code is compiled first, as an installation does. The steps of the native and the BuildKit build
are the task's own without those that replay recorded fetches; both start from the rendered context and end with an archive.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from packager import api
from packager.base.processes import Surroundings, find_program, run, run_ok
from packager.oci.record import ImageRecord
from packager.registry.bundle_export import Export
from packager.sandbox.native import prepare_process
from packager.store.store import Store
from tests.bench.clock_image import CLOCK_TASK, SAY_TIME, make_clock_image
from tests.bench.native_build import native_build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[2]
SUITE = Path(os.environ.get("WIDESWE_ROOT") or ROOT)
IMAGE = "wideswe-bench:walk"
OWN_NAME = [sys.executable, "-c", "import sys;from packager.cli.main import main;sys.argv[0]='wideswe-pack';main()"]
_TIME_DIGITS = 19
_IN_PROCESS = """
import sys, time
from pathlib import Path
from packager import api
root, store, keys, patches, task, warm = sys.argv[1:]
place = api.Place(root=Path(root), store_root=Path(store), keys=Path(keys))
said = []
def listen(event):
    said.append(event.message.split()[-1:])
for _ in range(2 if warm else 1):
    said.clear()
    started = time.time_ns()
    api.evaluate(place, task, api.EvaluationRequest(patches=Path(patches)), progress=listen)
[first] = [int(word) for words in said for word in words if word.isdigit() and len(word) == 19]
print((first - started) / 1e6)
"""


class Table:
    """Prints a row as soon as it is known: least and median of the rounds, and a ratio if there is one."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    def row(self, name: str, measure: Callable[[], float], *, rounds: int = 0, against: float = 0.0) -> float:
        """Measure some milliseconds several times; return the median."""
        if not rounds:
            measure()
        found = [measure() for _ in range(rounds or self._rounds)]
        middle = statistics.median(found)
        ratio = f"   ratio {middle / against:.3f}" if against else ""
        sys.stdout.write(f"{name:48} min {min(found):9.1f} ms   median {middle:9.1f} ms{ratio}\n")
        sys.stdout.flush()
        return middle


class Walk:
    """What is measured, in one place of work."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._place = api.Place(root=SUITE, store_root=_path("WIDESWE_STORE"), keys=_path("WIDESWE_KEYS"))
        self._docker = [options.client, *(["-H", options.daemon] if options.daemon else [])]
        self._table = Table(options.rounds)

    def run(self) -> None:
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        sys.stdout.write(f"{self._options.task}, {os.cpu_count()} processors, load {load}\n")
        self.nothing_to_do()
        has_docker = find_program(self._options.client) is not None and run([*self._docker, "version"]).exit_code == 0
        if has_docker:
            self.builds()
        else:
            sys.stdout.write("no docker daemon answers: comparisons left out\n")
        self.first_command(has_docker=has_docker)

    def nothing_to_do(self) -> None:
        row, task = self._table.row, self._options.task
        row("python -c pass", lambda: _timed([sys.executable, "-c", "pass"]))
        row("python -c 'import click'", lambda: _timed([sys.executable, "-c", "import click"]))
        row(f"build --task {task}, nothing to do", lambda: _timed([*OWN_NAME, "build", "--task", task]))
        row("build --all, nothing to do", lambda: _timed([*OWN_NAME, "build", "--all"]))

    def first_command(self, *, has_docker: bool) -> None:
        recipe = self._place.recipe(self._options.task)
        make_clock_image(self._place, recipe)
        patches = self._folder / "patches"
        patches.mkdir()
        (patches / f"{recipe.targets[0].name}.patch").touch()
        evaluate = [*OWN_NAME, "evaluate", CLOCK_TASK, "--patch", str(patches)]
        _until_told(evaluate)
        time.sleep(3)  # a layer so young gets no mark; see packager/trust/marks.py
        docker = 0.0
        if has_docker:
            command = [*self._docker, "run", "--rm", "--network", "none", IMAGE, "sh", "-c", SAY_TIME]
            docker = self._table.row("docker run, to the first command", lambda: _until_told(command))
        names = (SUITE, self._place.store_root, self._place.keys, patches, CLOCK_TASK)
        within = [sys.executable, "-c", _IN_PROCESS, *map(str, names)]
        row = self._table.row
        row("evaluate, process start to first command", lambda: _until_told(evaluate), against=docker)
        row("api.evaluate, first call, to first command", lambda: _number([*within, ""]), against=docker)
        row("api.evaluate, later call, to first command", lambda: _number([*within, "warm"]), against=docker)

    def builds(self) -> None:
        context = self._folder / "context"
        run_ok([*OWN_NAME, "render", "--task", self._options.task, "--into", str(context)], around())
        text = without_fetches((context / "Dockerfile").read_text())
        (context / "Dockerfile").write_text(text)
        rounds = max(1, self._options.rounds // 4)
        theirs = self._table.row("BuildKit build and docker save", lambda: self._buildkit(context), rounds=rounds)
        name = "native build and archive"
        self._table.row(name, lambda: self._native(context), rounds=rounds, against=theirs)

    def _buildkit(self, context: Path) -> float:
        settings = around(DOCKER_BUILDKIT="1")
        archive = self._folder / "theirs.tar"
        build = [*self._docker, "build", "-q", "--no-cache", "--network", "none", "-t", IMAGE, str(context)]
        started = time.perf_counter()
        run_ok(build, settings)
        run_ok([*self._docker, "save", "-o", str(archive), IMAGE], settings)
        ended = time.perf_counter()
        archive.unlink()
        run_ok([*self._docker, "builder", "prune", "-af"], settings)
        return (ended - started) * 1000

    def _native(self, context: Path) -> float:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            started = time.perf_counter()
            store = Store(Path(folder, "store"))
            image = native_build(context, store)
            Export(store, Path(folder, "ours.tar")).run({IMAGE: ImageRecord(image.manifest)})
            return (time.perf_counter() - started) * 1000


def without_fetches(text: str) -> str:
    """Return a Dockerfile without the steps that install, or need what was installed: all but the bootstrap."""
    kept: list[str] = []
    step = "bootstrap"
    for line in text.splitlines():
        step = line.removeprefix("# step: ") if line.startswith("# step: ") else step
        if not line.startswith("RUN ") or step == "bootstrap":
            kept.append(line)
    return "\n".join(kept) + "\n"


def around(**more: str) -> Surroundings:
    return Surroundings(env={**os.environ, "PYTHONPATH": str(ROOT), **more})


def _timed(argv: Sequence[str]) -> float:
    started = time.perf_counter()
    run_ok(argv, around())
    return (time.perf_counter() - started) * 1000


def _until_told(argv: Sequence[str]) -> float:
    """Return the milliseconds from the start of a program to the time that something in it prints."""
    started = time.time_ns()
    done = run(argv, around())
    words = (done.stderr + b" " + done.stdout).split()
    told = [int(word) for word in words if word.isdigit() and len(word) == _TIME_DIGITS]
    if not told:
        raise SystemExit(f"no time was told: {done.stderr.decode()}")
    return (told[0] - started) / 1e6


def _number(argv: Sequence[str]) -> float:
    return float(run_ok(argv, around()))


def _path(variable: str) -> Path:
    if variable not in os.environ:
        raise SystemExit(f"set {variable}")
    return Path(os.environ[variable])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", default="hello-wide-001")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--daemon", default="")
    parser.add_argument("--client", default="docker")
    options = parser.parse_args()
    compileall.compile_dir(ROOT / "packager", quiet=1)
    prepare_process()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        Walk(options, Path(folder)).run()


if __name__ == "__main__":
    main()
