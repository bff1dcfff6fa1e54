"""How long the native engine takes to start `true`, beside a plain Python start and, if a daemon answers, docker.

Run: python -m tests.bench.bench_sandbox [docker image]. Ratios within one run are what counts.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.processes import find_program, run
from packager.sandbox.engine import Command, Limits, Streams
from packager.sandbox.native import NativeEngine, prepare_process
from packager.sandbox.overlay import stacked
from tests.support.fake_fetches import FakeFetches
from tests.support.host_tree import HOST_USR, make_host_layer

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 20


def measure(name: str, work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Report the least and the median time of a piece of work, and return the median in milliseconds."""
    work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    sys.stdout.write(f"{name:40} min {min(times):7.1f} ms   median {statistics.median(times):7.1f} ms\n")
    return statistics.median(times)


def main() -> None:
    """Measure on the machine as it is."""
    prepare_process()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        layer = make_host_layer(place / "layer")
        layers = [layer, *(place / f"empty-{number}" for number in range(60))]
        for path in layers[1:]:
            path.mkdir()
        engine = NativeEngine()
        true = Command(("/bin/true",), binds=(HOST_USR,))
        measure("python -I -S -c pass", lambda: run([sys.executable, "-I", "-S", "-c", "pass"]))
        numbers = iter(range(1 << 20))

        def mount(stack: list[Path]) -> None:
            with stacked(stack, place / f"stack-{next(numbers)}"):
                pass

        measure("mount and delete, 2 layers", lambda: mount(layers[:2]))
        measure("mount and delete, 61 layers", lambda: mount(layers))
        with engine.open_tree(layers[:2], scratch=place / "scratch") as tree:
            free = Command(("/bin/true",), binds=(HOST_USR,), limits=Limits(0, 0, 0))
            measure("native: true, without limits", lambda: tree.run(free, Streams()))
            native = measure("native: true", lambda: tree.run(true, Streams()))
            measure("native: true, with a proxy", lambda: tree.run(true, Streams(), fetches=FakeFetches({})))
        image = sys.argv[1] if len(sys.argv) > 1 else "busybox"
        docker = find_program("docker")
        if docker is None or run([docker, "image", "inspect", image]).exit_code != 0:
            sys.stdout.write(f"docker: no daemon, or no image {image}\n")
            return
        argv = [docker, "run", "--rm", "--network", "none", image, "true"]
        sys.stdout.write(f"native / docker: {native / measure('docker run', lambda: run(argv), 8):.3f}\n")


if __name__ == "__main__":
    main()
