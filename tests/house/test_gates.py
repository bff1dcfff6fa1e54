"""The linter and the type checker are tests: what they refuse does not land."""

from __future__ import annotations

import sys
from pathlib import Path

from packager.base.processes import Surroundings, run

ROOT = Path(__file__).parents[2]
HERE = Surroundings(cwd=ROOT, timeout_s=600)


def outcome(*words: str) -> tuple[int, str]:
    done = run([sys.executable, "-m", *words], HERE)
    return done.exit_code, (done.stdout + done.stderr).decode()


def test_ruff_has_no_complaint() -> None:
    assert outcome("ruff", "check", "--quiet", "packager", "tests") == (0, "")


def test_ruff_would_format_nothing_otherwise() -> None:
    assert outcome("ruff", "format", "--quiet", "--check", "packager", "tests") == (0, "")


def test_mypy_strict_has_no_complaint() -> None:
    code, text = outcome("mypy", "--no-error-summary")
    assert (code, text) == (0, "")
