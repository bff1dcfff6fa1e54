"""Exports are loaded and executed by the harnesses themselves: gold scores 1, no answer scores 0.

By hand: WIDESWE_HARNESSES names a folder with a virtual environment for each package from PyPI, `harbor/` (harbor),
`swebench/` (swebench) and `inspect/` (inspect-ai); WIDESWE_DOCKER one with docker 23 or newer and its compose plugin, as
their Debian packages unpack. What is not there is skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.processes import Surroundings, run
from tests.support.docker_daemon import ELSEWHERE, docker_daemon
from tests.support.docker_registry import docker_registry, require_program
from tests.support.walk import ROOT, TARGETS, TASK, Party

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.processes import Finished

pytestmark = [pytest.mark.slow, pytest.mark.engine]

HARNESSES = "WIDESWE_HARNESSES"
TIMEOUT_S = 900.0
CUT_OFF = '''
"""Harbor's own docker environment, with docker's way of having no network instead of a proxy's image from elsewhere."""
from pathlib import Path

import harbor.environments.docker as home
from harbor.environments.docker.docker import DockerEnvironment


class CutOffDocker(DockerEnvironment):
    @classmethod
    def _egress_control_kernel_support(cls):
        return False

    @property
    def capabilities(self):
        return super().capabilities.model_copy(update={"disable_internet": True})

    @property
    def _docker_compose_paths(self):
        return [*super()._docker_compose_paths, Path(home.__file__).with_name("docker-compose-no-network.yaml")]
'''


@dataclass(frozen=True)
class Bench:
    """A registry with the image, a docker daemon, and the authors."""

    author: Party
    registry: str
    env: Mapping[str, str]

    def export(self, kind: str, into: Path, *words: str | Path) -> Any:
        done = self.author.ask(
            "export", "--format", kind, "--task", TASK, "--into", into, "--from", f"{self.registry}/wideswe", *words
        )
        return {one["instance"]: one["image"] for one in done["instances"]}

    def call(self, package: str, program: str, *words: str | Path, cwd: Path, **env: str) -> Finished:
        place = Path(os.environ.get(HARNESSES, "/nowhere")) / package / "bin" / program
        if not place.exists():
            pytest.skip(f"needs {package} in {HARNESSES}")
        around = Surroundings(env={**self.env, **env}, cwd=cwd, timeout_s=TIMEOUT_S)
        done = run([str(place), *map(str, words)], around)
        assert done.exit_code == 0, (done.stdout[-3000:].decode(), done.stderr[-3000:].decode())
        return done


@pytest.fixture(scope="module")
def bench(author: Party, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if HARNESSES not in os.environ:
        pytest.skip(f"needs the harnesses in {HARNESSES}")
    require_program("docker-registry")
    folder = tmp_path_factory.mktemp("bench")
    programs = Path(os.environ.get(ELSEWHERE, "/nowhere"))
    plugin = programs / "usr/libexec/docker/cli-plugins/docker-compose"
    if not plugin.exists():
        pytest.skip(f"needs docker's compose plugin in {ELSEWHERE}")
    (folder / "docker/cli-plugins").mkdir(parents=True)
    (folder / "docker/cli-plugins/docker-compose").symlink_to(plugin)
    with contextlib.ExitStack() as held:
        address = held.enter_context(docker_daemon(newer=True))
        registry = held.enter_context(docker_registry(folder)).replace("127.0.0.1", "localhost")
        author.ask("push", "--task", TASK, "--to", f"{registry}/wideswe")
        env = {
            **author.environment(),
            "PATH": f"{programs}/usr/bin:{os.environ['PATH']}",
            "DOCKER_HOST": address,
            "DOCKER_CONFIG": str(folder / "docker"),
            "HOME": str(folder),
            "HF_HUB_OFFLINE": "1",
            "HARBOR_TELEMETRY": "0",
        }
        yield Bench(author, registry, env)


@pytest.mark.parametrize(("agent", "worth"), [("oracle", 1), ("nop", 0)])
def test_harbor(bench: Bench, tmp_path: Path, agent: str, worth: int) -> None:
    bench.export("harbor", tmp_path / "tasks", "--keys-into", tmp_path / "keys.env")
    (tmp_path / "cut_off.py").write_text(CUT_OFF)
    bench.call("harbor", "harbor", "lint", tmp_path / "tasks" / TASK, cwd=tmp_path)
    words: list[str | Path] = [
        "run",
        "-p",
        tmp_path / "tasks",
        "-a",
        agent,
        "-e",
        "cut_off:CutOffDocker",
        "-y",
        "-o",
        tmp_path / "jobs",
    ]
    env_file = tmp_path / "keys.env"
    bench.call("harbor", "harbor", *words, "--env-file", env_file, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    (rewards,) = [json.loads(path.read_bytes()) for path in (tmp_path / "jobs").glob("*/*/verifier/reward.json")]
    assert rewards == dict.fromkeys(("reward", *TARGETS), worth)


NOTHING = "diff --git a/{0}NOTE b/{0}NOTE\nnew file mode 100644\n--- /dev/null\n+++ b/{0}NOTE\n@@ -0,0 +1 @@\n+hello\n"


def test_swebench(bench: Bench, tmp_path: Path) -> None:
    images = bench.export("swebench", tmp_path / "rows", "--push")
    bench.call("swebench", "swebench", "dataset", "check", tmp_path / "rows", cwd=tmp_path)
    bench.call("swebench", "swebench", "dataset", "build", tmp_path / "rows", "-o", tmp_path / "data", cwd=tmp_path)
    predictions = tmp_path / "nothing.jsonl"
    rows = [
        {
            "instance_id": name,
            "model_name_or_path": "x",
            "model_patch": NOTHING.format("" if "__" in name else "gauge/"),
        }
        for name in images
    ]
    predictions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for run_id, answer in (("gold", ("--gold",)), ("nothing", ("-p", predictions))):
        words = ["eval", tmp_path / "rows/rows.jsonl", *answer, "--run-id", run_id, "-j", "3"]
        bench.call("swebench", "swebench", *words, cwd=tmp_path)
    gold, nothing = (json.loads(next(tmp_path.glob(f"*.{run_id}.json")).read_bytes()) for run_id in ("gold", "nothing"))
    assert sorted(gold["resolved_ids"]) == sorted(images)
    assert sorted(nothing["unresolved_ids"]) == sorted(images)
    assert (gold["error_ids"], nothing["error_ids"]) == ([], [])


@pytest.mark.parametrize(("answer", "worth"), [("gold", 1), ("none", 0)])
def test_inspect(bench: Bench, tmp_path: Path, answer: str, worth: int) -> None:
    bench.export("inspect", tmp_path / "tasks")
    command = f"{sys.executable} -m packager --quiet"
    words: list[str | Path] = [
        "eval",
        "wideswe_task.py",
        "--model",
        "mockllm/model",
        "-T",
        f"answer={answer}",
        "--log-dir",
        tmp_path,
    ]
    env = {"WIDESWE_PACK": command, "PYTHONPATH": str(ROOT)}
    bench.call(
        "inspect", "inspect", *words, "--display", "plain", "--log-format", "json", cwd=tmp_path / "tasks", **env
    )
    (log,) = tmp_path.glob("*.json")
    (sample,) = json.loads(log.read_bytes())["samples"]
    score = sample["scores"]["verdict"]
    outcome = "resolved" if worth else "unresolved"
    assert (score["value"], score["metadata"]["outcome"]) == (worth, outcome)
    assert score["metadata"]["targets"] == dict.fromkeys(TARGETS, outcome)
    assert score["metadata"]["image"] == bench.author.record.manifest.digest
