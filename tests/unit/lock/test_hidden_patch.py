"""Hidden tests that a recipe names as a patch: the files that it makes of base, byte for byte, or a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.lock.git import GitRepository
from packager.lock.git_runner import GitDirectory
from packager.lock.hidden_patch import files_of_patch
from tests.support.git_builder import Files, GitBuilder, PlainPlace

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine
BASE: Files = {"a.py": "one\n", "tests/test_a.py": "one\ntwo\n", "tests/old.py": "old\n"}
CHANGED = """\
diff --git a/tests/test_a.py b/tests/test_a.py
--- a/tests/test_a.py
+++ b/tests/test_a.py
@@ -1,2 +1,2 @@
 one
-two
+three\r
diff --git a/tests/run.sh b/tests/run.sh
new file mode 100755
--- /dev/null
+++ b/tests/run.sh
@@ -0,0 +1 @@
+run
\\ No newline at end of file
"""
DELETED = """\
diff --git a/tests/old.py b/tests/old.py
deleted file mode 100644
--- a/tests/old.py
+++ /dev/null
@@ -1 +0,0 @@
-old
"""
LINKED = """\
diff --git a/tests/link b/tests/link
new file mode 120000
--- /dev/null
+++ b/tests/link
@@ -0,0 +1 @@
+/etc/passwd
\\ No newline at end of file
"""


@pytest.fixture
def repository(tmp_path: Path) -> tuple[GitRepository, str]:
    builder = GitBuilder(tmp_path / "mirror")
    commit = builder.commit(BASE)
    place = PlainPlace(tmp_path / "store")
    return GitRepository("lib", GitDirectory(tmp_path / "mirror"), tmp_path / "cache", place), commit


def test_the_files_are_those_that_the_patch_makes_of_base(repository: tuple[GitRepository, str]) -> None:
    assert files_of_patch(*repository, CHANGED.encode()) == {
        "tests/run.sh": (0o755, b"run"),
        "tests/test_a.py": (0o644, b"one\nthree\r\n"),
    }


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (DELETED, "lib: hidden patch: deletes tests/old.py\nhint: hidden tests are laid over the checkout"),
        (LINKED, "lib: hidden patch: tests/link is not a plain file"),
    ],
)
def test_what_cannot_be_laid_over_a_checkout_is_refused(
    repository: tuple[GitRepository, str], patch: str, said: str
) -> None:
    with pytest.raises(InputError) as raised:
        files_of_patch(*repository, patch.encode())
    assert str(raised.value) == said


def test_a_patch_of_another_base_is_refused_in_gits_words(repository: tuple[GitRepository, str]) -> None:
    with pytest.raises(InputError) as raised:
        files_of_patch(*repository, CHANGED.replace("-two", "-2").encode())
    assert str(raised.value) == (
        f"lib: hidden patch: does not apply to {repository[1][:12]}: error: patch failed: tests/test_a.py:1\n"
        "error: tests/test_a.py: patch does not apply"
    )
