"""How fast the native engine builds beside stock builders: the same Dockerfile, cold and with one changed repository.

    WIDESWE_STORE=… WIDESWE_KEYS=… python -m tests.bench.bench_engines [--task ID] [--rounds N] [--folder DIR]
        [--against buildkit|buildah] [--daemon HOST] [--client DOCKER]

All start from the rendered context on a warm disk and end with an image in their own store: BuildKit's and buildah's as
they are, ours compressed and ready to be pushed. The steps are the task's own without those that fetch. Cold: nothing of
an earlier build is known. Changed: a file is added to one target, everything before is known. Ratios are within one run.
"""

from __future__ import annotations

import argparse
import compileall
import io
import os
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.processes import find_program, run, run_ok
from packager.build.assemble import assemble_image
from packager.build.dockerfile import parse_dockerfile
from packager.build.execute import Builder
from packager.sandbox.native import NativeEngine, prepare_process
from packager.store.store import Store
from tests.bench.bench_walk import OWN_NAME, ROOT, Table, around, inputs_of, without_fetches

if TYPE_CHECKING:
    from collections.abc import Callable

    Measure = Callable[[], float]

IMAGE = "localhost/wideswe-bench:engines"
_PLATFORM = "linux/amd64"


class Bench:
    """One context, built again and again."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._context = folder / "context"
        self._docker = [options.client, *(["-H", options.daemon] if options.daemon else [])]
        self._table = Table(options.rounds)
        self._changes = 0

    def run(self) -> None:
        """Measure what the machine has."""
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        sys.stdout.write(f"{self._options.task}, {os.cpu_count()} processors, load {load}\n")
        run_ok([*OWN_NAME, "render", "--task", self._options.task, "--into", str(self._context)], around())
        text = without_fetches((self._context / "Dockerfile").read_text())
        (self._context / "Dockerfile").write_text(text)
        rounds = self._options.rounds
        native = [self._row("native, cold", self._native_cold, rounds), 0.0]
        native[1] = self._row("native, one repository changed", self._native_changed, rounds)
        wanted = self._options.against
        if wanted in ("all", "buildkit") and run([*self._docker, "version"]).exit_code == 0:
            self._compare("BuildKit", (self._buildkit_cold, self._buildkit_changed), native)
        if wanted in ("all", "buildah") and find_program("buildah") is not None:
            self._compare("buildah bud", (self._buildah_cold, self._buildah_changed), native)

    def _compare(self, name: str, measures: tuple[Measure, Measure], native: list[float]) -> None:
        for what, measure, ours in zip(("cold", "one repository changed"), measures, native, strict=True):
            theirs = self._row(f"{name}, {what}", measure, self._options.rounds)
            sys.stdout.write(f"{'':48} native / {name}: {ours / theirs:.3f}\n")

    def _row(self, name: str, measure: Measure, rounds: int) -> float:
        return self._table.row(name, measure, rounds=rounds)

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
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            return self._native(Path(folder, "store"))

    def _native_changed(self) -> float:
        store = self._folder / "kept"
        if not store.exists():
            self._native(store)
        self._change()
        return self._native(store)

    def _native(self, root: Path) -> float:
        started = time.perf_counter()
        store = Store(root)
        builder = Builder(store, NativeEngine(), inputs=dict(inputs_of(self._context)))
        stage = builder.build(parse_dockerfile((self._context / "Dockerfile").read_text()))
        assemble_image(stage, store, task="bench", platform=_PLATFORM)
        return (time.perf_counter() - started) * 1000

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
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--against", choices=["all", "buildkit", "buildah"], default="all")
    parser.add_argument("--daemon", default="")
    parser.add_argument("--client", default="docker")
    options = parser.parse_args()
    compileall.compile_dir(ROOT / "packager", quiet=1)
    prepare_process()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        Bench(options, Path(folder)).run()


if __name__ == "__main__":
    main()
