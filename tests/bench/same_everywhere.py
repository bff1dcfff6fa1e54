"""Builds a task from an empty store with every engine that is at hand, and prints what came out side by side.

    WIDESWE_KEYS=… WIDESWE_INPUTS=… python -m tests.bench.same_everywhere [--task ID] [--docker NAME=HOST]... [--folder DIR]

Native as root and, where a user can be made, as a plain user; buildah and podman where they are installed; every docker
daemon that is named. Ends with 1 if two builds differ.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import _pytest.outcomes

from packager.base.processes import Surroundings, find_program, run
from tests.support.plain_user import SYSTEM_PYTHON, as_user, copy_dependencies, copy_suite, give, plain_user
from tests.support.plain_user import reachable_folder as folder_for_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Way:
    """One way to build: the engine, who runs it, and what the environment says."""

    name: str
    engine: str = "native"
    before: tuple[str, ...] = ()
    python: str = sys.executable
    suite: Path = ROOT
    path: str = str(ROOT)
    keys: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    def build(self, task: str, store: Path) -> dict[str, object]:
        """Build a task into a store, which is deleted afterwards, and return what the command says."""
        env = {name: text for name, text in os.environ.items() if not name.startswith("WIDESWE_ROOT")}
        env |= {"PYTHONPATH": self.path, "PYTHONDONTWRITEBYTECODE": "1", "WIDESWE_PASSWORD": "", **self.env}
        argv = [*self.before, self.python, "-m", "packager", "--json", "--quiet", "--root", str(self.suite)]
        argv += ["--store", str(store), "--engine", self.engine]
        argv += ["--keys", self.keys] if self.keys else []
        done = run([*argv, "build", "--task", task], Surroundings(env=env, cwd=Path("/"), timeout_s=7200))
        if done.exit_code != 0:
            return {"problem": done.stderr.decode(errors="replace")[-2000:]}
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found


@contextlib.contextmanager
def ways(daemons: Mapping[str, str]) -> Iterator[list[Way]]:
    """Give every way that this machine has."""
    found = [Way("native, root")]
    found += [Way(name, name) for name in ("buildah", "podman") if find_program(name)]
    found += [Way(f"docker, {name}", "docker", env={"DOCKER_HOST": host}) for name, host in daemons.items()]
    with contextlib.ExitStack() as held:
        with contextlib.suppress(_pytest.outcomes.Skipped):
            place = held.enter_context(folder_for_all(Path("/var/tmp")))
            user = held.enter_context(plain_user())
            copy_suite(place / "suite", mask=0o022)
            copy_dependencies(place / "site")
            shutil.copytree(os.environ["WIDESWE_KEYS"], place / "keys")
            give(user, place)
            path = f"{place / 'suite'}:{place / 'site'}"
            found.insert(
                1,
                Way(
                    "native, plain user",
                    before=as_user(user),
                    python=str(SYSTEM_PYTHON),
                    suite=place / "suite",
                    path=path,
                    keys=str(place / "keys"),
                    env={"HOME": str(place)},
                ),
            )
        yield found


def compare(task: str, daemons: Mapping[str, str], folder: Path) -> int:
    """Build in every way, print a line for each, and return how many different manifests there were."""
    manifests: set[object] = set()
    sys.stdout.write(f"{task}\n{'':24}{'content id':72}{'manifest':72}seconds\n")
    with ways(daemons) as known:
        for number, way in enumerate(known):
            store = (Path(way.env["HOME"]) if "HOME" in way.env else folder) / f"store-{number}"
            started = time.monotonic()
            built = way.build(task, store)
            seconds = time.monotonic() - started
            shutil.rmtree(store, ignore_errors=True)
            manifests.add(built.get("manifest"))
            shown = built.get("problem") or f"{built['content_id']!s:72}{built['manifest']!s:72}{seconds:.0f}"
            sys.stdout.write(f"{way.name:24}{shown}\n")
            sys.stdout.flush()
    return len(manifests)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", default="hello-wide-001")
    parser.add_argument("--docker", action="append", default=[], metavar="NAME=HOST")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))
    options = parser.parse_args()
    daemons = dict(word.split("=", 1) for word in options.docker)
    sys.exit(int(compare(options.task, daemons, options.folder) != 1))


if __name__ == "__main__":
    main()
