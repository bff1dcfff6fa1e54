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


def readme_commands(program: str) -> list[str]:
    """Return the commands by which README builds with a stock tool, up to the saved image."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (block,) = (text for text in blocks if f"\n{program} " in text and "context/Dockerfile.replay" in text)
    return [line for line in block.splitlines() if not line.startswith("wideswe-pack ")]


def build_without_us(place: Path, programs: tuple[str, ...], commands: list[str], **env: str) -> None:
    """Run commands in `place` with nothing but some stock programs on the path."""
    tools = place / "bin"
    tools.mkdir()
    for name in programs:
        found = shutil.which(name, path=f"/usr/sbin:/usr/bin:/sbin:/bin:{os.environ['PATH']}")
        if found is None:
            pytest.skip(f"no {name}")
        (tools / name).symlink_to(found)
    script = "\n".join(["set -e", "trap 'kill $!' EXIT", *commands])
    around = {"PATH": str(tools), "HOME": str(place), **env}
    run_ok(["/bin/sh", "-c", script], Surroundings(env=around, cwd=place, timeout_s=1800))


def expect_our_image(author: Party, archive: Path) -> None:
    environment = author.ask("build", "--task", TASK)["environment_id"]
    known = author.ask("inspect", "--content-id", archive)
    assert (known["task"], known["content_id"]) == (TASK, environment)


def test_the_readmes_docker_commands_give_our_content_id(author: Party, place: Path) -> None:
    author.call("render", "--task", TASK, "--into", place / "context", "--with-fetches")
    commands = [*readme_commands("docker"), "docker rm --force wideswe-network"]
    with docker_daemon() as host:
        build_without_us(place, ("docker", "nsenter", "python3", "sleep"), commands, DOCKER_HOST=host)
    expect_our_image(author, place / "hello.tar")


def test_the_readmes_buildah_commands_give_our_content_id(author: Party, place: Path) -> None:
    author.call("render", "--task", TASK, "--into", place / "context", "--with-fetches")
    settings = place / "storage.conf"
    settings.write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{place}/root"\nrunroot = "{place}/run"\n')
    commands = [*readme_commands("buildah"), "buildah rmi --all --force"]
    programs = ("buildah", "runc", "unshare", "ip", "sh", "python3")
    build_without_us(place, programs, commands, CONTAINERS_STORAGE_CONF=str(settings))
    expect_our_image(author, place / "hello.tar")
