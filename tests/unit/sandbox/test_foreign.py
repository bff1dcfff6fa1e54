"""Which registered interpreters take programs of another machine, and what is said where none does."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from packager.base.errors import WorldError
from packager.base.processes import Surroundings, run
from packager.sandbox import foreign

ARM = """\
enabled
interpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P
flags: POCF
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""
JAR = "enabled\ninterpreter /usr/bin/jexec\nflags: \noffset 0\nmagic 504b0304\n"
SCRIPT = "enabled\ninterpreter /usr/bin/tool\nflags: \nextension .tool\n"


def test_an_entry_takes_the_machine_that_its_magic_names() -> None:
    arm, amd = foreign.elf_head("linux/arm64"), foreign.elf_head("linux/amd64")
    assert arm is not None
    assert amd is not None
    assert [foreign.fits(text, arm) for text in (ARM, JAR, SCRIPT)] == [True, False, False]
    assert not foreign.fits(ARM, amd)
    assert not foreign.fits(ARM.replace("enabled", "disabled"), arm)
    assert foreign.elf_head("linux/s390x") is None


def test_the_running_program_begins_as_the_own_platform_says() -> None:
    with Path("/proc/self/exe").open("rb") as stream:
        head = stream.read(20)
    expected = foreign.elf_head(foreign.own_platform())
    assert expected is not None
    assert (head[:5], head[18:]) == (expected[:5], expected[18:])


def test_entries_are_read_but_for_the_two_control_files(tmp_path: Path) -> None:
    for name, text in {"register": "", "status": "enabled", "qemu-aarch64": ARM, "jar": JAR}.items():
        (tmp_path / name).write_text(text)
    assert list(foreign.read_registered(tmp_path)) == [JAR, ARM]
    assert list(foreign.read_registered(tmp_path / "none")) == []


def test_the_own_platform_needs_nothing_and_an_unknown_one_is_refused() -> None:
    assert foreign.why_not(foreign.own_platform()) == ""
    foreign.refuse_foreign(foreign.own_platform())
    with pytest.raises(WorldError) as caught:
        foreign.refuse_foreign("linux/s390x")
    assert str(caught.value) == (
        f"this machine is {foreign.own_platform()} and cannot run commands of linux/s390x: no such platform is known\n"
        "hint: install qemu-user-static and binfmt-support (Debian), or work on a machine of that platform; "
        "`lock` without dependencies and `render` start no command"
    )


def test_doctor_says_whether_the_other_platform_runs_and_doing_without_is_no_fault(tmp_path: Path) -> None:
    code = "from packager.sandbox.probe import probe_machine as p; print([c for c in p() if c.name[:8] == 'commands'])"
    around = Surroundings(env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, cwd=tmp_path)
    said = run([sys.executable, "-c", code], around).stdout.decode()
    assert re.search(r"name='commands of linux/(arm64|amd64)', ok=(True|False), .*required=False", said)
