"""Which files of a checkout decide how tests run, by ecosystem: what a patch makes of them does not count.

These defaults are the evaluator's, not the sealed profile's: images that were sealed before are judged by them, too.
A path that gold changes is left to the patch, as is whatever the recipe names as `unprotected`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.evaluate.patch_format import parse_patch
from packager.evaluate.sections import SECTIONS
from packager.recipe.globs import matches_any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packager.evaluate.profile import Profile, TargetProfile

HOOKS = (
    # Python
    "**/conftest.py",
    "**/sitecustomize.py",
    "**/usercustomize.py",
    "**/pytest.ini",
    "**/.pytest.ini",
    "**/tox.ini",
    "**/.coveragerc",
    "pytest.py",
    "pytest/**",
    "_pytest/**",
    "pluggy/**",
    # Node
    "**/vitest.config.*",
    "**/vitest.workspace.*",
    "**/vitest.setup.*",
    "**/jest.config.*",
    "**/jest.setup.*",
    "**/.mocharc*",
    "**/ava.config.*",
    "**/karma.conf.*",
    "**/playwright.config.*",
    "**/.taprc",
    # Go
    "**/*_test.go",
    # Ruby
    "**/.rspec",
    "**/.rspec-local",
    "**/.simplecov",
    "**/spec_helper.rb",
    "**/rails_helper.rb",
    # PHP
    "**/phpunit.xml",
    "**/phpunit.xml.dist",
    "**/phpunit.dist.xml",
    "tests/bootstrap.php",
    # JVM, .NET
    "**/junit-platform.properties",
    "**/*.runsettings",
    "**/xunit.runner.json",
    # Perl
    "**/.proverc",
)
"""Put back after the patch and once more after the prepare commands, which have no reason to write them."""

WIRING = (
    # Python
    "**/*.pth",
    "**/*.pyc",
    # Node
    "**/node_modules/.bin/**",
    "**/node_modules/vitest/**",
    "**/node_modules/@vitest/**",
    "**/node_modules/jest/**",
    "**/node_modules/jest-*/**",
    "**/node_modules/@jest/**",
    "**/node_modules/mocha/**",
    "**/node_modules/ava/**",
    "**/node_modules/tap/**",
    "**/.npmrc",
    "**/.yarnrc",
    "**/.yarnrc.yml",
    "**/.pnpmfile.cjs",
    "**/vite.config.*",
    "**/babel.config.*",
    "**/.babelrc*",
    # Go
    "**/go.work",
    "**/go.work.sum",
    "vendor/**",
    # Rust
    "**/.cargo/config",
    "**/.cargo/config.toml",
    "**/rust-toolchain",
    "**/rust-toolchain.toml",
    "**/build.rs",
    # Ruby
    "**/Gemfile",
    "**/Gemfile.lock",
    "**/.bundle/config",
    "**/Rakefile",
    # JVM, .NET
    "**/.mvn/**",
    "**/gradle.properties",
    "**/Directory.Build.props",
    "**/Directory.Build.targets",
)
"""Put back after the patch only: prepare commands may well write them."""


@dataclass(frozen=True)
class Guard:
    """What is guarded in one checkout: `own` are single files that the test command names."""

    own: frozenset[str] = frozenset()
    free: tuple[str, ...] = ()
    touched: frozenset[str] = field(default=frozenset())

    def covers(self, path: str, *, prepared: bool) -> bool:
        """Say whether a path is put back whole."""
        if self._is_free(path):
            return False
        return path in self.own or matches_any(HOOKS if prepared else (*HOOKS, *WIRING), path)

    def section(self, path: str) -> Callable[[bytes], object] | None:
        """Return what reads the part of a manifest that decides how tests run, if the path is a guarded manifest."""
        return None if self._is_free(path) else SECTIONS.get(path.rpartition("/")[2])

    def _is_free(self, path: str) -> bool:
        if path in self.touched or matches_any(self.free, path):
            return True
        return path.startswith("vendor/") and any(one.startswith("vendor/") for one in self.touched)


def derive_guard(gold: bytes, target: TargetProfile) -> Guard:
    """Return the guard of a target from its gold patch, its test command, and what its recipe leaves unprotected."""
    paths = {path for one in parse_patch(gold) for path in (one.old_path, one.new_path) if path} if gold else set()
    touched = frozenset(path.decode("utf-8", "surrogateescape") for path in paths)
    return Guard(_named_files(target.run, target.workdir), target.unprotected, touched)


def derive_guards(profile: Profile, gold: Mapping[str, bytes]) -> dict[str, Guard]:
    """Return the guards of all targets."""
    return {one.name: derive_guard(gold.get(one.name, b""), one) for one in profile.targets}


def _named_files(run: str, workdir: str) -> frozenset[str]:
    """Return what in a test command may be a file of the checkout: such as a script of its own that runs the tests."""
    try:
        words = shlex.split(run)
    except ValueError:
        return frozenset()
    plain = [word.removeprefix("./") for word in words if not word.startswith(("-", "/", "$"))]
    inside = "" if workdir == "." else f"{workdir}/"
    return frozenset(f"{inside}{word}" for word in plain if "." in word or "/" in word)
