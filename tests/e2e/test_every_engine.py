"""The small shipped task from every engine, and from stock docker without wideswe-pack on its path: one content id."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.processes import Surroundings, find_program, run_ok
from packager.sandbox.namespaces import may_mount
from tests.bench.same_everywhere import compare
from tests.support.docker_daemon import ELSEWHERE, docker_daemon
from tests.support.plain_user import reachable_folder
from tests.support.walk import ROOT, TASK, Party

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.engine,
    pytest.mark.network,
    pytest.mark.skipif(not may_mount(), reason="needs root"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    with reachable_folder(Path("/var/tmp")) as path:
        yield path


def test_every_engine_gives_one_manifest(
    author: Party, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    author.ask("fetch", "--task", TASK, "--into", place / "inputs")
    monkeypatch.setenv("WIDESWE_KEYS", str(author.keys))
    monkeypatch.setenv("WIDESWE_INPUTS", str(place / "inputs"))
    with ExitStack() as held:
        daemons = {}
        if find_program("dockerd"):
            daemons["Debian's"] = held.enter_context(docker_daemon())
        if ELSEWHERE in os.environ:
            newer = docker_daemon(newer=True, containerd_store=True)
            daemons["newer, containerd"] = held.enter_context(newer)
        count = compare(TASK, daemons, place)
    shown = capsys.readouterr().out
    assert count == 1, shown
    assert author.record.manifest.digest in shown


def readme_commands() -> list[str]:
    """Return the commands by which README builds with stock docker."""
    text = (ROOT / "README.md").read_text()
    found = re.search(
        r"^wideswe-pack render .*?--with-fetches\n(.*?)^wideswe-pack inspect", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[1].splitlines()


def test_the_readmes_docker_commands_give_our_content_id(author: Party, place: Path) -> None:
    environment = author.ask("build", "--task", TASK)["environment_id"]
    author.call("render", "--task", TASK, "--into", place / "context", "--with-fetches")
    tools = place / "bin"
    tools.mkdir()
    for name in ("docker", "nsenter", "python3", "sleep"):
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"no {name}")
        (tools / name).symlink_to(found)
    with docker_daemon() as host:
        script = "\n".join(["set -eu", *readme_commands(), "kill $!", "docker rm --force wideswe-network"])
        env = {"PATH": str(tools), "DOCKER_HOST": host, "HOME": str(place)}
        run_ok(["/bin/sh", "-c", script], Surroundings(env=env, cwd=place, timeout_s=1800))
    known = author.ask("inspect", "--content-id", place / "hello.tar")
    assert (known["task"], known["content_id"]) == (TASK, environment)
