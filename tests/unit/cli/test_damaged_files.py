"""Whatever stands where a file of the suite, a key or a record should stand: a reason and an exit code, no traceback."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.base.files import read_file
from packager.cli.main import main
from packager.cli.place import Mirrors
from packager.lock.sources import parse_sources

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
TASK = "hello-wide-001"
PLACE = f"lockfiles/{TASK}.linux-amd64"
KEYS = ("release.key", "release.pub", "root.key", "evaluator.key")
CONTENTS = {
    "empty": b"",
    "bytes": bytes(range(256)),
    "list": b"[1, 2]",
    "null": b"null",
    "number": b"5",
    "other": b'{"schema": 5, "targets": {"gauge": []}, "manifest": [], "signatures": {}}',
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "deep": b"[" * 100_000,
    "surrogate": b'"\\ud800"',
}


def replace_by_content(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda _path: None,
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "circle": lambda path: path.symlink_to(path.name),
    **{name: replace_by_content(data) for name, data in CONTENTS.items()},
}
VERBS = {
    f"recipes/{TASK}.yaml": ("list", "lock", "audit"),
    f"recipes/{TASK}/prompt.md": ("list", "lock"),
    f"{PLACE}.lock.json": ("list", "lock", "fetch"),
    f"{PLACE}.expected.json": ("list",),
    "images/task.Dockerfile.j2": ("lock",),
    "keys/release.key": ("sign",),
    "keys/release.pub": ("verify",),
    "keys/root.key": ("sign",),
    "keys/evaluator.key": ("sign",),
    f"store/names/images/{TASK}": ("list", "sign", "verify", "evaluate", "inspect", "push", "gc"),
    "answers/gauge.patch": ("evaluate",),
}
ARGUMENTS = {
    "list": ("list",),
    "lock": ("lock", "--check", "--task", TASK),
    "audit": ("audit", "--task", TASK),
    "fetch": ("fetch", "--task", TASK),
    "sign": ("sign", "--task", TASK, "--home", "registry.invalid/x"),
    "verify": ("verify", TASK),
    "evaluate": ("evaluate", TASK, "--patch", "answers"),
    "inspect": ("inspect", TASK),
    "push": ("push", "--task", TASK, "--to", "127.0.0.1:1/x"),
    "gc": ("gc",),
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("suite")
    shutil.copytree(ROOT / "recipes" / TASK, place / "recipes" / TASK)
    shutil.copy(ROOT / "recipes" / f"{TASK}.yaml", place / "recipes")
    shutil.copytree(ROOT / "images", place / "images")
    (place / "lockfiles").mkdir()
    for kind in ("lock", "expected"):
        shutil.copy(ROOT / f"{PLACE}.{kind}.json", place / "lockfiles")
    (place / "answers").mkdir()
    (place / "store/names/images").mkdir(parents=True)
    return place


def run(
    place: Path, *words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str]:
    """Run the command line in this process and return its exit code and what it said on standard error."""
    options = ("--quiet", "--root", ".", "--store", "store", "--keys", "keys", "--config", "config.yaml")
    monkeypatch.chdir(place)
    monkeypatch.setenv("WIDESWE_PASSWORD", "")
    monkeypatch.setattr("sys.argv", ["wideswe-pack", *options, *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(str(ended.value.code)), capsys.readouterr().err


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", VERBS)
def test_a_damaged_file_is_named_and_is_not_our_fault(
    suite: Path, name: str, damage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (suite / "keys").exists():
        assert run(suite, "keygen", capsys=capsys, monkeypatch=monkeypatch) == (0, "")
    path, aside = suite / name, suite / "aside"
    if path.exists():
        path.rename(aside)
    DAMAGES[damage](path)
    try:
        found = {verb: run(suite, *ARGUMENTS[verb], capsys=capsys, monkeypatch=monkeypatch) for verb in VERBS[name]}
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        if aside.exists():
            aside.rename(path)
    bugs = {verb: said for verb, (code, said) in found.items() if code not in range(7) or "Traceback" in said}
    assert bugs == {}
    silent = {verb for verb, (code, said) in found.items() if code > 1 and not said.startswith("error: ")}
    assert silent == set()


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name not in {"missing", "empty", "null", "other"}])
def test_a_damaged_settings_file_is_refused(damage: str, tmp_path: Path) -> None:
    DAMAGES[damage](tmp_path / "config.yaml")
    with pytest.raises(InputError) as caught:
        dict(Mirrors(tmp_path / "config.yaml"))
    assert caught.value.where == str(tmp_path / "config.yaml")


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_sources_are_refused(damage: str, tmp_path: Path) -> None:
    DAMAGES[damage](tmp_path / "sources.json")
    with pytest.raises(InputError):
        parse_sources(read_file(tmp_path / "sources.json", limit=1 << 20))
