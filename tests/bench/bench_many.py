"""How long a build of a whole suite takes that has nothing to do: 120 recipes, one process.

    WIDESWE_INPUTS=… python -m tests.bench.bench_many [--count 120] [--rounds 7] [--folder DIR]

The suite is made of copies of hello-wide-001 under other ids, each with its own lock, image and seal, in a store of its
own that is built first (minutes). Our byte code is compiled first, as an installation does. The process with nothing in
it and the build of one recipe are printed beside it, since only ratios say anything about other machines.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from packager import api
from packager.base.processes import Surroundings, run_ok
from packager.lock.model import format_lock
from packager.recipe.model import recipe_digest
from packager.trust.keyfiles import Password

ROOT = Path(__file__).parents[2]
MODEL = "hello-wide-001"
PLATFORM = "linux/amd64"
OWN_NAME = [sys.executable, "-c", "import sys;from packager.cli.main import main;sys.argv[0]='wideswe-pack';main()"]


def make_suite(root: Path, count: int) -> list[str]:
    """Copy the model under so many ids; each copy's lock is the model's with the copy's own digests."""
    tasks = [f"hello-many-{number:03}" for number in range(count)]
    shutil.copytree(ROOT / "images", root / "images")
    text = (ROOT / "recipes" / f"{MODEL}.yaml").read_text()
    for task in tasks:
        shutil.copytree(ROOT / "recipes" / MODEL, root / "recipes" / task)
        (root / "recipes" / f"{task}.yaml").write_text(text.replace(MODEL, task))
    model = api.Place(ROOT, root / "none", root / "none").lock(MODEL, PLATFORM)
    suite = api.Place(root, root / "none", root / "none")
    (root / "lockfiles").mkdir()
    for task in tasks:
        recipe = suite.recipe(task)
        dockerfile = suite.dockerfile_digest(recipe, PLATFORM, gold=model.files.manifests)
        lock = replace(model, task=task, recipe=recipe_digest(recipe), dockerfile=dockerfile)
        suite.file(task, PLATFORM, "lock").write_bytes(format_lock(lock))
    return tasks


def timed_ms(argv: list[str], around: Surroundings) -> float:
    started = time.perf_counter()
    run_ok(argv, around)
    return (time.perf_counter() - started) * 1000


def show(name: str, found: list[float]) -> None:
    sys.stdout.write(f"{name:40} min {min(found):8.1f} ms   median {statistics.median(found):8.1f} ms\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", default=None)
    options = parser.parse_args()
    compileall.compile_dir(ROOT / "packager", quiet=1)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        tasks = make_suite(folder / "suite", options.count)
        api.keygen(api.Place(folder / "suite", folder / "store", folder / "keys", password=Password("")))
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "WIDESWE_ROOT": str(folder / "suite"),
            "WIDESWE_STORE": str(folder / "store"),
            "WIDESWE_KEYS": str(folder / "keys"),
        }
        around = Surroundings(env=env, timeout_s=3600)
        show(f"build --all, {options.count} recipes, from nothing", [timed_ms([*OWN_NAME, "build", "--all"], around)])
        rounds = range(options.rounds)
        show("python -c pass", [timed_ms([sys.executable, "-c", "pass"], around) for _ in rounds])
        one = [*OWN_NAME, "build", "--task", tasks[0]]
        show("build of one, nothing to do", [timed_ms(one, around) for _ in rounds])
        every = [*OWN_NAME, "build", "--all"]
        show(f"build --all, {options.count}, nothing to do", [timed_ms(every, around) for _ in rounds])


if __name__ == "__main__":
    main()
