"""Patches in SWE-bench's rows go on and off with git, binary files and modes included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.processes import Surroundings, run_ok
from packager.evaluate.trees import Kind
from packager.export.swebench import Instance, format_row
from packager.export.view import ExportedTarget, ExportedTask
from packager.seal.bundle import SealContents
from tests.support.docker_registry import require_program
from tests.support.memory_tree import MemoryTree

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "registry.example.org/wideswe/tides-001@sha256:" + "a" * 64
BEFORE = {
    "changed.bin": (Kind.FILE, b"\0old\xff" * 50),
    "gone.bin": (Kind.FILE, b"\0gone\xff"),
    "text": (Kind.FILE, b"a\r\nb"),
    "run": (Kind.FILE, b"#!/bin/sh\n"),
    "kind": (Kind.FILE, b"file\n"),
}
AFTER = {
    "changed.bin": (Kind.FILE, b"\0new\xfe" * 70),
    "new.bin": (Kind.PROGRAM, bytes(range(256))),
    "text": (Kind.FILE, b"a\r\nc\n"),
    "run": (Kind.PROGRAM, b"#!/bin/sh\n"),
    "kind": (Kind.SYMLINK, b"text"),
}
GOLD = b"".join(
    b"diff --git a/%s b/%s\nold mode 100644\nnew mode 100755\n" % (name.encode(), name.encode())
    for name in sorted({*BEFORE, *AFTER})
)


def tree_of(files: dict[str, tuple[Kind, bytes]]) -> MemoryTree:
    return MemoryTree({b"gauge/" + name.encode(): found for name, found in files.items()})


def write(folder: Path, files: dict[str, tuple[Kind, bytes]]) -> None:
    for name, (kind, data) in files.items():
        if kind is Kind.SYMLINK:
            (folder / name).symlink_to(data.decode())
            continue
        (folder / name).write_bytes(data)
        (folder / name).chmod(kind & 0o777)


def read(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.name: (Kind.SYMLINK, str(path.readlink()).encode())
        if path.is_symlink()
        else (Kind.PROGRAM if path.stat().st_mode & 0o100 else Kind.FILE, path.read_bytes())
        for path in folder.iterdir()
    }


def test_a_gold_patch_goes_on_and_off(tmp_path: Path) -> None:
    git = require_program("git")
    contents = SealContents("wideswe", "tides-001", "v1", gold={"gauge": GOLD}, hidden={"gauge": {}}, profile=b"{}")
    expected = {"gauge": {"FAIL_TO_PASS": ["a"], "PASS_TO_PASS": []}}
    view = ExportedTask("tides-001", IMAGE, "linux/amd64", "", "feature", "parallel", (ExportedTarget("gauge", "1"),))
    row = format_row(
        view,
        Instance("id", "gauge", IMAGE),
        SealContents(**{**vars(contents), "expected": expected}),
        base=tree_of(BEFORE),
        solved=tree_of(AFTER),
    )
    folder, patch = tmp_path / "gauge", tmp_path / "patch"
    folder.mkdir()
    write(folder, BEFORE)
    patch.write_bytes(str(row["patch"]).encode())
    around = Surroundings(cwd=folder)
    run_ok([git, "apply", "--whitespace=nowarn", str(patch)], around)
    assert read(folder) == AFTER
    run_ok([git, "apply", "-R", "--whitespace=nowarn", str(patch)], around)
    assert read(folder) == BEFORE
