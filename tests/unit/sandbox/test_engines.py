"""Why an engine cannot work is said before any work starts, with what helps and with another way."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import UsageError, WorldError
from packager.sandbox.engines import NAMES, find_lack, open_engine

if TYPE_CHECKING:
    from pathlib import Path

OR_ELSE = (
    "or build with the engine native, or render the context, build that with any engine, "
    "and compare with `wideswe-pack inspect --content-id`"
)
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="another reason comes first for a plain user")


def refusal(name: str, place: Path) -> str:
    with pytest.raises(WorldError) as caught:
        open_engine(name, place)
    return str(caught.value)


def test_an_unknown_engine_is_a_mistake_of_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_engine("kaniko", tmp_path)
    assert str(caught.value) == "expected one of the engines native, docker, buildah, podman, found 'kaniko'"


@root_only
def test_a_missing_daemon_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert refusal("docker", tmp_path) == (
        f"engine docker: no daemon at unix://{tmp_path}/none.sock: No such file or directory\n"
        f"hint: start dockerd, or name its socket in DOCKER_HOST; {OR_ELSE}"
    )


@root_only
def test_a_daemon_that_died_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{tmp_path}/s")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
    assert refusal("docker", tmp_path) == (
        f"engine docker: no daemon at unix://{tmp_path}/s: Connection refused\n"
        f"hint: start dockerd, or name its socket in DOCKER_HOST; {OR_ELSE}"
    )


def test_a_daemon_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert refusal("docker", tmp_path) == (
        "engine docker: the daemon at tcp://192.0.2.1:2375 may be on another machine, and its containers' files cannot "
        "be reached from here\n"
        f"hint: unset DOCKER_HOST or name a socket of this machine (unix:///…); {OR_ELSE}"
    )


def test_nothing_is_lacking_for_what_is_not_foreign(tmp_path: Path) -> None:
    assert NAMES[0] == "native"
    assert find_lack("native", tmp_path) is None
