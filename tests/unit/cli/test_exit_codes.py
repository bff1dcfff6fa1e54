"""The exit codes that README documents, each from a real situation, with the whole of what is said."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from packager.base.processes import Surroundings, run
from packager.oci.record import format_record
from tests.support.command_line import call, environment
from tests.support.docker_registry import free_port
from tests.support.sealed_images import KEY, OTHER_KEY, SealedImage, build_image

TASK = "hello-wide-001"


@pytest.fixture
def image(tmp_path: Path) -> SealedImage:
    made = build_image(tmp_path / "store")
    made.store.set_name("images", TASK, format_record(made.record))
    (tmp_path / "release.pub").write_bytes(KEY.public.pem)
    (tmp_path / "other.pub").write_bytes(OTHER_KEY.public.pem)
    return made


def said(home: Path, *words: str, **variables: str) -> tuple[int, str]:
    """Return the exit code and standard error of a command that says nothing else."""
    done = call(home, "--quiet", "--store", str(home / "store"), *words, **variables)
    assert done.stdout == b""
    return done.exit_code, done.stderr.decode()


def test_0_is_a_yes(image: SealedImage, tmp_path: Path) -> None:
    done = call(tmp_path, "--quiet", "--store", "store", "verify", TASK, "--key", "release.pub")
    assert (done.exit_code, done.stderr) == (0, b"")
    assert image.record.manifest.digest.encode() not in done.stderr


def test_1_is_a_no(image: SealedImage, tmp_path: Path) -> None:
    done = call(tmp_path, "--quiet", "--store", "store", "verify", TASK, "--key", "other.pub")
    assert (done.exit_code, done.stderr) == (1, b"")
    assert b" NO " in done.stdout.splitlines()[-1]
    image.flipped(image.manifest.layers[0].digest)
    done = call(tmp_path, "--quiet", "--store", "store", "verify", TASK, "--key", "release.pub")
    assert (done.exit_code, done.stderr) == (1, b"")


def test_2_is_the_command_line(tmp_path: Path) -> None:
    assert said(tmp_path, "verify") == (2, "error: no task named\nhint: --task ID\n")
    code, text = said(tmp_path, "verfy")
    assert (code, text.splitlines()[-1]) == (2, "Error: No such command 'verfy'.")


def test_3_is_what_a_person_wrote(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "bad.yaml").write_text("id: [\n")
    code, text = said(tmp_path, "list", WIDESWE_ROOT=str(tmp_path))
    assert code == 3
    where = tmp_path / "recipes" / "bad.yaml"
    problem = "not YAML: while parsing a flow node, expected the node content, but found '<stream end>'"
    assert text == f"error: 1 problem\n{where}:2: {problem}\n"


def test_4_is_bytes_that_are_not_what_they_should_be(image: SealedImage, tmp_path: Path) -> None:
    image.flipped(image.manifest.layers[0].digest)
    code, text = said(tmp_path, "evaluate", TASK, "--gold", "--key", "release.pub")
    assert code == 4
    assert text.startswith(f"error: {TASK}: check 6, layer 1 of 2: ")


def test_5_is_a_signature_or_a_key(image: SealedImage, tmp_path: Path) -> None:
    assert image.record.signatures
    code, text = said(tmp_path, "evaluate", TASK, "--gold", "--key", "other.pub")
    assert code == 5
    assert text.startswith(f"error: {TASK}: check 4, legacy signature: ")
    assert said(tmp_path, "keygen") == (
        5,
        "error: no password for the signing key\nhint: set WIDESWE_PASSWORD (empty is allowed) or name a password file with --password-file\n",
    )


def test_6_is_the_world(tmp_path: Path) -> None:
    host = f"127.0.0.1:{free_port()}"
    code, text = said(tmp_path, "pull", f"{host}/suite/{TASK}:v1")
    assert code == 6
    assert text.startswith("error: ")
    assert text.endswith("hint: check the host's name and the network, then try again\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full, which is a disk without room")
def test_6_is_a_full_disk_too(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "packager", "completion", "bash"]
    around = Surroundings(env=environment(tmp_path), cwd=tmp_path, timeout_s=60)
    done = run(["sh", "-c", 'exec "$@" >/dev/full', "sh", *words], around)
    assert (done.exit_code, done.stderr) == (6, b"error: No space left on device\n")


_FAULT = """
import sys, types
import click
from packager.cli import main
def broken(): raise ZeroDivisionError("deep inside")
sys.modules["packager.cli.broken"] = types.SimpleNamespace(broken_command=click.Command("broken", callback=broken))
main._VERBS["broken"] = "broken"
main.main()
"""


def test_70_is_a_fault_of_ours_with_its_trace(tmp_path: Path) -> None:
    around = Surroundings(env=environment(tmp_path), cwd=tmp_path, timeout_s=60)
    done = run([sys.executable, "-c", _FAULT, "broken"], around)
    assert done.exit_code == 70
    assert done.stderr.decode().splitlines()[-2:] == [
        "ZeroDivisionError: deep inside",
        "error: this is a fault of wideswe-pack itself; please report the lines above",
    ]


def test_130_is_the_persons_own_wish(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        words = [sys.executable, "-m", "packager", "--quiet", "--store", "store", "pull", f"{host}/suite/{TASK}:v1"]
        heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
        around: dict[str, Any] = {"env": environment(tmp_path), "cwd": tmp_path, "preexec_fn": heeds}
        process = subprocess.Popen(words, stderr=subprocess.PIPE, **around)
        silent.settimeout(60)
        accepted, _ = silent.accept()
        with accepted:
            os.kill(process.pid, signal.SIGINT)
            _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, b"\nstopped; the same command continues where this one was\n")


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    around = Surroundings(env=environment(tmp_path), cwd=tmp_path, timeout_s=60)
    words = [sys.executable, "-m", "packager", "completion", "bash"]
    done = run(["bash", "-c", '"$@" | true; echo "${PIPESTATUS[0]}"', "bash", *words], around)
    assert (done.stdout, done.stderr) == (b"0\n", b"")
