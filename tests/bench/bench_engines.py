"""How fast the native engine builds beside stock builders: the same Dockerfile, cold and with one changed repository.

    WIDESWE_STORE=… WIDESWE_KEYS=… python -m tests.bench.bench_engines [--task ID] [--rounds N] [--changes N]
        [--folder DIR] [--against buildkit|buildah] [--daemon HOST] [--client DOCKER]

All start from the rendered context on a warm disk and end with an image in their own store: BuildKit's and buildah's as
they are, ours compressed and ready to be pushed; each is a process started for it. The steps are the task's own, and
over the repositories one that reads and writes them, since those that fetch, or need what was fetched, are left out.
Cold: nothing of an earlier build is known. Changed: a file is added to the last target, so that it and the step are new;
everything else is known. Ratios are within one run.
"""

from __future__ import annotations

import argparse
import compileall
import io
import os
import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.processes import find_program, run, run_ok
from tests.bench.bench_walk import OWN_NAME, ROOT, Table, around, without_fetches

if TYPE_CHECKING:
    from collections.abc import Callable

    Measure = Callable[[], float]

IMAGE = "localhost/wideswe-bench:engines"
_STEP = "RUN cd /workspace && find . -type f -exec sha256sum {} + >/opt/sums"


def with_step(text: str) -> str:
    """Return a Dockerfile with one more command after the last repository."""
    before, mark, after = text.rpartition("ADD inputs/target-")
    line, _, rest = after.partition("\n")
    return f"{before}{mark}{line}\n{_STEP}\n{rest}"


class Bench:
    """One context, built again and again."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._context = folder / "context"
        self._store = folder / "store"
        self._docker = [options.client, *(["-H", options.daemon] if options.daemon else [])]
        self._table = Table(options.rounds)
        self._changes = 0

    def run(self) -> None:
        """Measure what the machine has."""
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        sys.stdout.write(f"{self._options.task}, {os.cpu_count()} processors, load {load}\n")
        run_ok([*OWN_NAME, "render", "--task", self._options.task, "--into", str(self._context)], around())
        text = with_step(without_fetches((self._context / "Dockerfile").read_text()))
        (self._context / "Dockerfile").write_text(text)
        native = self._rows("native", (self._native_cold, self._native_changed))
        wanted = self._options.against
        if wanted in ("all", "buildkit") and run([*self._docker, "version"]).exit_code == 0:
            self._compare("BuildKit", (self._buildkit_cold, self._buildkit_changed), native)
        if wanted in ("all", "buildah") and find_program("buildah") is not None:
            self._compare("buildah bud", (self._buildah_cold, self._buildah_changed), native)

    def _rows(self, name: str, measures: tuple[Measure, Measure]) -> tuple[float, float]:
        cold = self._table.row(f"{name}, cold", measures[0], rounds=self._options.rounds)
        changed = self._table.row(f"{name}, one repository changed", measures[1], rounds=self._options.changes)
        return cold, changed

    def _compare(self, name: str, measures: tuple[Measure, Measure], native: tuple[float, float]) -> None:
        theirs = self._rows(name, measures)
        ratios = [f"{one / other:.3f}" for one, other in zip(native, theirs, strict=True)]
        sys.stdout.write(f"native / {name}: cold {ratios[0]}, one repository changed {ratios[1]}\n")

    def _change(self) -> None:
        """Add a file to the last target's tar, each time another one."""
        self._changes += 1
        path = max(self._context.glob("inputs/target-*.tar"))
        name = path.name.removeprefix("target-").removesuffix(".tar")
        with tarfile.open(path, "a") as archive:
            data = f"change {self._changes}\n".encode()
            member = tarfile.TarInfo(f"workspace/{name}/changed-{self._changes}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))

    def _native_cold(self) -> float:
        shutil.rmtree(self._store, ignore_errors=True)
        return self._native()

    def _native_changed(self) -> float:
        self._change()
        return self._native()

    def _native(self) -> float:
        argv = [sys.executable, "-m", "tests.bench.native_build", str(self._context), str(self._store)]
        return self._timed(argv)

    def _buildkit_cold(self) -> float:
        run_ok([*self._docker, "builder", "prune", "-af"], around())
        return self._timed(self._build("--no-cache"))

    def _build(self, *more: str) -> list[str]:
        return [*self._docker, "build", "-q", *more, "--network", "none", "-t", IMAGE, str(self._context)]

    def _buildkit_changed(self) -> float:
        self._change()
        return self._timed(self._build())

    def _buildah(self, *words: str) -> list[str]:
        places = ("--root", f"{self._folder}/b", "--runroot", f"{self._folder}/r", "--storage-driver", "overlay")
        return [find_program("buildah") or "buildah", *places, *words]

    def _bud(self) -> list[str]:
        words = (
            "bud",
            "-q",
            "--layers",
            "--pull-never",
            "--network",
            "none",
            "--isolation",
            "oci",
            "--runtime",
            "runc",
        )
        return self._buildah(*words, "-t", IMAGE, str(self._context))

    def _buildah_cold(self) -> float:
        run_ok(self._buildah("rmi", "--all", "--force"), around())
        return self._timed(self._bud())

    def _buildah_changed(self) -> float:
        self._change()
        return self._timed(self._bud())

    def _timed(self, argv: list[str]) -> float:
        started = time.perf_counter()
        run_ok(argv, around(DOCKER_BUILDKIT="1"))
        return (time.perf_counter() - started) * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", default="hello-wide-001")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--changes", type=int, default=5)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--against", choices=["all", "buildkit", "buildah"], default="all")
    parser.add_argument("--daemon", default="")
    parser.add_argument("--client", default="docker")
    options = parser.parse_args()
    compileall.compile_dir(ROOT / "packager", quiet=1)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        Bench(options, Path(folder)).run()


if __name__ == "__main__":
    main()
