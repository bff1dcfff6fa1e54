"""A plain user's store holds files of his subordinate ids; he can be rid of them all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from packager.base.processes import Finished, Surroundings, run
from packager.sandbox.namespaces import may_mount
from tests.support.plain_user import (
    SYSTEM_PYTHON,
    as_user,
    copy_dependencies,
    copy_suite,
    give,
    plain_user,
    reachable_folder,
)

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root to become another user")]

FILL = """
import os, sys
from pathlib import Path
from packager.sandbox.namespaces import prepare_process
from packager.store.store import Store

def fill(tree):
    (tree / "d").mkdir(mode=0o700)
    (tree / "d/f").write_text("f")
    os.chown(tree / "d", 42, 42)

prepare_process()
Store(Path(sys.argv[1])).tree("t", fill)
"""

COLLECT_WITHOUT_THE_IDS = """
import sys
from pathlib import Path
from packager.store.store import Store
Store(Path(sys.argv[1])).collect_garbage(list)
"""


def test_a_plain_user_collects_trees_that_hold_other_owners_files() -> None:
    with reachable_folder(Path("/var/tmp")) as place, plain_user() as user:
        copy_suite(place / "suite", mask=0o022)
        copy_dependencies(place / "site")
        store = place / "store"
        store.mkdir()
        give(user, store)

        def python(*words: str) -> Finished:
            env = {"PATH": "/usr/bin:/bin", "HOME": str(place), "PYTHONPATH": f"{place / 'suite'}:{place / 'site'}"}
            around = Surroundings(env={**env, "PYTHONDONTWRITEBYTECODE": "1"}, cwd=Path("/"), timeout_s=60)
            return run([*as_user(user), str(SYSTEM_PYTHON), *words], around)

        filled = python("-c", FILL, str(store))
        assert (filled.exit_code, filled.stderr) == (0, b"")
        refused = python("-c", COLLECT_WITHOUT_THE_IDS, str(store))
        assert refused.stderr.decode().endswith(
            f"packager.base.errors.WorldError: {store}/tmp: 1 of 1 trees could not be deleted\n"
            "hint: run it as the user who unpacked them; what his subordinate ids own takes newuidmap to delete\n"
        )
        done = python("-m", "packager", "--json", "--root", str(place / "suite"), "--store", str(store), "gc")
        assert (done.exit_code, done.stderr) == (0, b"")
        assert [*(store / "trees").iterdir(), *(store / "tmp").iterdir()] == []
