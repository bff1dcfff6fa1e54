"""Small targets in Python, shell and Node, and patches that try to forge their results; see test_forged_results.py."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packager.evaluate.capture import capture_patch
from packager.evaluate.controls import plant_all
from packager.evaluate.expected import ExpectedCases
from packager.evaluate.grade import grade_target
from packager.evaluate.guards import derive_guards
from packager.evaluate.predictions import Patch
from packager.evaluate.profile import Profile, TargetProfile
from packager.evaluate.run import Control, Session
from packager.sandbox.engine import Limits
from tests.support.host_tree import PATH, make_host_layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.sandbox.engine import Engine

WORD = "5eedf00d"
RUNNER = "/opt/runner"
_PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py")
BASE: Mapping[str, Mapping[str, str]] = {
    "py": {
        "calc.py": "def add(a, b):\n    return 0\n",
        "pyproject.toml": '[project]\nname = "calc"\nversion = "1"\n',
        "tests/test_old.py": "def test_stands():\n    assert True\n",
    },
    "sh": {"calc.sh": "add() { echo 0; }\n", "t/all.sh": ". t/calc.sh\n"},
    "node": {
        "calc.js": "exports.add = () => 0;\n",
        "package.json": '{"name": "calc", "scripts": {"test": "node --test --test-reporter=tap t/calc.test.js"}}\n',
    },
}
HIDDEN: Mapping[str, Mapping[str, str]] = {
    "py": {
        "tests/test_calc.py": "import calc\n\n\ndef test_adds():\n    assert calc.add(2, 2) == 4\n\n\n"
        "def test_adds_nothing():\n    assert calc.add(0, 0) == 0\n"
    },
    "sh": {
        "t/calc.sh": '. ./calc.sh\ncheck() { [ "$(add $2 $3)" = "$4" ] && echo "ok - $1" || { echo "not ok - $1"; bad=1; }; }\n'
        "check adds 2 2 4\ncheck adds-nothing 0 0 0\necho 1..2\nexit ${bad:-0}\n"
    },
    "node": {
        "t/calc.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "const { add } = require('../calc.js');\n\n"
        "test('adds', () => assert.strictEqual(add(2, 2), 4));\ntest('adds-nothing', () => assert.strictEqual(add(0, 0), 0));\n"
    },
}
HONEST: Mapping[str, Mapping[str, str | None]] = {
    "py": {"calc.py": "def add(a, b):\n    return a + b\n", "pyproject.toml": BASE["py"]["pyproject.toml"] + "# 2\n"},
    "sh": {"calc.sh": "add() { echo $(($1 + $2)); }\n"},
    "node": {"calc.js": "exports.add = (a, b) => a + b;\n"},
}
EXPECTED: Mapping[str, ExpectedCases] = {
    "py": ExpectedCases(
        ("tests.test_calc::test_adds",), ("tests.test_calc::test_adds_nothing", "tests.test_old::test_stands")
    ),
    "sh": ExpectedCases(("adds",), ("adds-nothing",)),
    "node": ExpectedCases(("adds",), ("adds-nothing",)),
}
_HOW: Mapping[str, tuple[str, str, str]] = {
    "py": ('python3 -m pytest -q -p no:cacheprovider --junitxml="$WIDESWE_REPORT" tests', "junit-xml", "file"),
    "sh": ("sh t/all.sh", "tap", "stdout"),
    "node": ("npm --silent test", "tap", "stdout"),
}
_ENV = (
    ("HOME", "/tmp"),
    ("PATH", PATH),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONPATH", f"{RUNNER}:/workspace/py"),
    ("npm_config_update_notifier", "false"),
)


def a_target(name: str) -> TargetProfile:
    run, results, report = _HOW[name]
    return TargetProfile(name, "", run, ".", results, report, 30.0, _ENV, ())


@dataclass(frozen=True)
class Trick:
    """A patch that solves nothing and wants to be resolved; `works` says that it is where nothing is guarded."""

    name: str
    files: Mapping[str, str | bytes | None]
    target: str = "py"
    links: Mapping[str, str] = field(default_factory=dict)
    works: bool = False
    said: str = ""
    """The reason of the verdict; nothing: that the tests failed."""

    def patch(self, folder: Path) -> Patch:
        return make_patch(folder, BASE[self.target], self.files, self.links)


def make_patch(
    folder: Path, base: Mapping[str, str], files: Mapping[str, str | bytes | None], links: Mapping[str, str]
) -> Patch:
    """Return the patch from `base` to it with other files; None removes one."""
    for name, found in (("a", base), ("b", base)):
        write_files(folder / name, found)
    for path in [path for path, text in files.items() if text is None]:
        (folder / "b" / path).unlink()
    write_files(folder / "b", {path: text for path, text in files.items() if text is not None})
    for path, text in links.items():
        if (folder / "b" / path).is_dir():
            (folder / "b" / path).rmdir()
        (folder / "b" / path).symlink_to(text)
    return Patch(capture_patch(folder / "a", folder / "b", "x"))


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())


@dataclass(frozen=True)
class Arena:
    """One layer that all evaluations share."""

    engine: Engine
    layer: Path
    store: Path

    def evaluate(self, name: str, patch: Patch, *, guarded: bool = True) -> tuple[str, str]:
        """Judge a patch as `evaluate` does; without guards and controls if told so."""
        profile = Profile("wide", (a_target(name),), Limits(1, 1 << 30, 128))
        hidden = {name: {path: (0o644, text.encode()) for path, text in HIDDEN[name].items()}}
        planted, controlled = plant_all(profile.targets, hidden, EXPECTED, WORD) if guarded else (hidden, frozenset())
        session = Session(
            engine=self.engine,
            layers=[self.layer],
            env={},
            profile=profile,
            hidden=planted,
            store_root=self.store,
            guards=derive_guards(profile, {}) if guarded else {},
            control=Control(WORD, controlled),
        )
        grade = grade_target(EXPECTED[name], session.run({name: patch})[name].run)
        return grade.outcome.value, grade.reason


def make_layer(folder: Path) -> Path:
    """Make a layer with the checkouts, and with this process's own pytest where the sandbox's Python finds it."""
    layer = make_host_layer(folder)
    for name, files in BASE.items():
        write_files(layer / "workspace" / name, files)
    for package in _PACKAGES:
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        source, target = Path(found.origin), layer / RUNNER.lstrip("/")
        if found.submodule_search_locations is None:
            shutil.copy(source, target)
        else:
            shutil.copytree(source.parent, target / package, ignore=shutil.ignore_patterns("__pycache__"))
    return layer


def names_of(tricks: Sequence[Trick]) -> list[str]:
    return [trick.name for trick in tricks]
