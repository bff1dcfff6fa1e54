"""Guards by ecosystem: what a patch makes of files that decide how tests run is undone, and everything else is kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from packager.evaluate.guards import derive_guard
from packager.evaluate.profile import TargetProfile
from packager.evaluate.workspace import Workspace
from tests.support.forged import write_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANIFESTS = {
    "pyproject.toml": '[project]\nname = "a"\n[tool.pytest.ini_options]\naddopts = "-q"\n',
    "setup.cfg": "[metadata]\nname = a\n[tool:pytest]\naddopts = -q\n",
    "package.json": '{"name": "a", "scripts": {"test": "vitest run"}}',
    "composer.json": '{"name": "a/a", "scripts": {"test": "phpunit"}}',
    "Cargo.toml": '[package]\nname = "a"\n[dependencies]\nb = "1"\n',
    "go.mod": "module a\n\ngo 1.24\n\nrequire b v1.0.0\n",
    "pom.xml": "<project>\n<artifactId>maven-surefire-plugin</artifactId>\n<version>1</version>\n</project>\n",
    "build.gradle": "plugins { id 'java' }\ntest { useJUnitPlatform() }\n",
}
CONFIGS = {
    "tests/conftest.py": "x = 1\n",
    "vitest.config.ts": "export default {}\n",
    "a_test.go": "package a\n",
    ".rspec": "--require spec_helper\n",
    "spec/spec_helper.rb": "x\n",
    "phpunit.xml.dist": "<phpunit/>\n",
    ".cargo/config.toml": "[build]\n",
    "build.rs": "fn main() {}\n",
    "node_modules/.bin/vitest": "#!/usr/bin/env node\n",
    "t/all.pl": "run\n",
}
BASE = {**MANIFESTS, **CONFIGS, "src/a.py": "old\n"}


@dataclass(frozen=True)
class Folders:
    """A tree of three folders that no command runs in."""

    lower: Path
    root: Path
    upper: Path


def a_target(**more: object) -> TargetProfile:
    given: dict[str, object] = {
        "name": "a",
        "prepare": "",
        "run": "perl t/all.pl",
        "workdir": ".",
        "env": (),
        "protect": (),
    }
    return TargetProfile(**{**given, "results": "tap", "report": "stdout", "timeout_s": 1.0, **more})  # type: ignore[arg-type]


def restored(
    folder: Path, files: Mapping[str, str | None], *, gold: bytes = b"", prepared: bool = False, **more: object
) -> dict[str, str]:
    """Write files over the checkout (None removes one), restore it, and return what is not as in the image."""
    tree = Folders(folder / "lower", folder / "root", folder / "upper")
    places = [place / "workspace" / "a" for place in (tree.lower, tree.root, tree.upper)]
    for place in places[:2]:
        write_files(place, BASE)
    places[2].mkdir(parents=True)
    for path, text in files.items():
        for place in places[1:]:
            if text is None:
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).unlink(missing_ok=True)
            else:
                if (place / path).is_dir():
                    shutil.rmtree(place / path)
                write_files(place, {path: text})
    Workspace(tree).restore("a", derive_guard(gold, a_target(**more)), prepared=prepared)  # type: ignore[arg-type]
    here = {str(path.relative_to(places[1])): path.read_text() for path in places[1].rglob("*") if path.is_file()}
    gone = {path: "" for path in BASE if path not in here}
    return {path: text for path, text in here.items() if BASE.get(path) != text} | gone


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", '[project]\nname = "a"\n[tool.pytest.ini_options]\naddopts = "-p forger"\n'),
        ("pyproject.toml", '[project]\nname = "a"\n[project.entry-points.pytest11]\nx = "forger"\n'),
        ("pyproject.toml", "[[["),
        ("tests/pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-p forger"\n'),
        ("setup.cfg", "[metadata]\nname = a\n[tool:pytest]\naddopts = -p forger\n"),
        (
            "setup.cfg",
            "[metadata]\nname = a\n[tool:pytest]\naddopts = -q\n[options.entry_points]\npytest11 =\n  x = forger\n",
        ),
        ("package.json", '{"name": "a", "scripts": {"test": "true"}}'),
        ("package.json", '{"name": "a", "scripts": {"test": "vitest run", "pretest": "true"}}'),
        ("package.json", '{"name": "a", "scripts": {"test": "vitest run"}, "jest": {"globalSetup": "./x"}}'),
        ("package.json", '{"name": "a", "scripts": {"test": "vitest run"}, "overrides": {"vitest": "file:x"}}'),
        ("composer.json", '{"name": "a/a", "scripts": {"test": "true"}}'),
        ("Cargo.toml", '[package]\nname = "a"\n[dependencies]\nb = "1"\n[patch.crates-io]\nb = {path = "x"}\n'),
        ("Cargo.toml", '[package]\nname = "a"\n[lib]\nharness = false\n[dependencies]\nb = "1"\n'),
        ("Cargo.toml", '[package]\nname = "a"\nbuild = "x.rs"\n[dependencies]\nb = "1"\n'),
        ("go.mod", "module a\n\ngo 1.24\n\nrequire b v1.0.0\n\nreplace b => ./x\n"),
        ("go.mod", "module a\n\ngo 1.24\n\nrequire b v1.0.0\n\nreplace (\n\tb => ./x\n)\n"),
        ("pom.xml", "<project>\n<testFailureIgnore>true</testFailureIgnore>\n</project>\n"),
        ("build.gradle", "plugins { id 'java' }\ntest { useJUnitPlatform(); ignoreFailures = true }\n"),
    ],
)
def test_a_manifest_whose_deciding_part_was_changed_is_put_back(tmp_path: Path, path: str, text: str) -> None:
    assert restored(tmp_path, {path: text, "src/a.py": "new\n"}) == {"src/a.py": "new\n"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", '[project]\nname = "a"\nversion = "2"\n[tool.pytest.ini_options]\naddopts = "-q"\n'),
        ("setup.cfg", "[metadata]\nname = a\nversion = 2\n[tool:pytest]\naddopts = -q\n"),
        ("package.json", '{"name": "a", "version": "2", "scripts": {"test": "vitest run"}}'),
        ("packages/b/package.json", '{"name": "b", "scripts": {"build": "tsc"}}'),
        ("composer.json", '{"name": "a/a", "require": {"b/b": "1"}, "scripts": {"test": "phpunit"}}'),
        ("Cargo.toml", '[package]\nname = "a"\n[dependencies]\nb = "1"\nc = "1"\n'),
        ("go.mod", "module a\n\ngo 1.24\n\nrequire b v1.0.0\n\nrequire c v1.0.0\n"),
        ("src/x.egg-info/entry_points.txt", "[console_scripts]\na = a:main\n"),
    ],
)
def test_the_rest_of_a_manifest_is_the_patch_s(tmp_path: Path, path: str, text: str) -> None:
    assert restored(tmp_path, {path: text}) == {path: text}


@pytest.mark.parametrize("path", CONFIGS)
@pytest.mark.parametrize("text", ["forged\n", None])
def test_a_file_that_decides_how_tests_run_is_put_back(tmp_path: Path, path: str, text: str | None) -> None:
    assert restored(tmp_path, {path: text}) == {}


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "src/deep/conftest.py",
        "sitecustomize.py",
        "pytest.ini",
        "pytest/__init__.py",
        "x.pth",
        "src/__pycache__/a.cpython-311.pyc",
        "jest.config.mjs",
        "packages/b/vite.config.ts",
        "packages/b/node_modules/.bin/jest",
        "packages/b/node_modules/@jest/core/index.js",
        ".npmrc",
        "main_test.go",
        "go.work",
        "vendor/b/b.go",
        "crate/build.rs",
        "crate/.cargo/config.toml",
        ".rspec-local",
        "Rakefile",
        "phpunit.xml",
        ".mvn/maven.config",
        "src/test/resources/junit-platform.properties",
        "conftest.py/x/conftest.py",
    ],
)
def test_a_new_file_that_decides_how_tests_run_goes_away(tmp_path: Path, path: str) -> None:
    assert restored(tmp_path, {path: "forged\n", "src/new.py": "kept\n"}) == {"src/new.py": "kept\n"}


def test_what_gold_changes_is_left_to_the_patch(tmp_path: Path) -> None:
    gold = b"diff --git a/build.rs b/build.rs\n--- a/build.rs\n+++ b/build.rs\n@@ -1 +1 @@\n-fn main() {}\n+fn main() { }\n"
    files = {"build.rs": "mine\n", "b/build.rs": "forged\n"}
    assert restored(tmp_path, files, gold=gold) == {"build.rs": "mine\n"}


def test_vendored_files_are_left_to_the_patch_where_gold_changes_any(tmp_path: Path) -> None:
    gold = b"diff --git a/vendor/b/b.go b/vendor/b/b.go\nnew file mode 100644\n--- /dev/null\n+++ b/vendor/b/b.go\n@@ -0,0 +1 @@\n+x\n"
    assert restored(tmp_path, {"vendor/c/c.go": "mine\n"}, gold=gold) == {"vendor/c/c.go": "mine\n"}


def test_a_recipe_can_say_what_is_not_guarded(tmp_path: Path) -> None:
    files = {"src/conftest.py": "mine\n", "conftest.py": "forged\n"}
    assert restored(tmp_path, files, unprotected=("src/conftest.py",)) == {"src/conftest.py": "mine\n"}


def test_what_prepare_commands_write_is_kept_but_for_hooks(tmp_path: Path) -> None:
    files = {"node_modules/.bin/vitest": "installed\n", "go.work": "go 1.24\n", "conftest.py": "forged\n"}
    assert restored(tmp_path, files, prepared=True) == {
        "node_modules/.bin/vitest": "installed\n",
        "go.work": "go 1.24\n",
    }


def test_what_prepare_commands_make_for_the_test_command_is_kept(tmp_path: Path) -> None:
    files = {"build/tests": "made\n", "t/all.pl": "forged\n"}
    run = "./build/tests && perl t/all.pl"
    assert restored(tmp_path / "after", files, prepared=True, run=run) == {"build/tests": "made\n"}
    assert restored(tmp_path / "before", files, run=run) == {}
