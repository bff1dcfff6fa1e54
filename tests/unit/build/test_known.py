from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.build.known import build_key

if TYPE_CHECKING:
    from pathlib import Path

PLATFORM = "linux/amd64"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    for name in ("recipes/one.yaml", "recipes/one/prompt.md", "images/task.Dockerfile.j2"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "lockfiles").mkdir()
    (tmp_path / "lockfiles/one.linux-amd64.lock.json").write_text("{}")
    return tmp_path


def test_the_same_files_have_the_same_key_wherever_they_lie(
    suite: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("elsewhere") / "suite"
    suite.rename(other)
    first = build_key(other, "one", platform=PLATFORM, secret=b"s")
    other.rename(suite)
    assert first == build_key(suite, "one", platform=PLATFORM, secret=b"s")


@pytest.mark.parametrize(
    "name",
    [
        "recipes/one.yaml",
        "recipes/one/prompt.md",
        "recipes/one/hidden/new.py",
        "images/task.Dockerfile.j2",
        "lockfiles/one.linux-amd64.lock.json",
        "lockfiles/one.linux-amd64.expected.json",
    ],
)
def test_a_change_of_any_file_changes_the_key(suite: Path, name: str) -> None:
    before = build_key(suite, "one", platform=PLATFORM, secret=b"s")
    (suite / name).parent.mkdir(parents=True, exist_ok=True)
    (suite / name).write_text("changed")
    assert before != build_key(suite, "one", platform=PLATFORM, secret=b"s")


def test_another_root_secret_or_platform_changes_the_key(suite: Path) -> None:
    keys = {
        build_key(suite, "one", platform=PLATFORM, secret=b"s"),
        build_key(suite, "one", platform=PLATFORM, secret=b"t"),
        build_key(suite, "one", platform="linux/arm64", secret=b"s"),
    }
    assert len(keys) == 3
