"""One image of the small shipped task, built and signed once for all tests that need it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.walk import HOME, ROOT, TASK, Party, read_contents

if TYPE_CHECKING:
    from collections.abc import Iterator

STORE_VARIABLE = "WIDESWE_TEST_STORE"


@pytest.fixture(scope="session")
def author(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Party]:
    """Give the suite's author with the image built and signed.

    The store is new and goes away afterwards; WIDESWE_TEST_STORE names one to work in instead, which saves the build
    of the base. Locked inputs come from WIDESWE_INPUTS or else from the network.
    """
    folder = tmp_path_factory.mktemp("author")
    kept = os.environ.get(STORE_VARIABLE)
    party = Party(folder, Path(kept) if kept else folder / "store", ROOT)
    party.ask("keygen")
    built = replace(party, inputs=os.environ.get("WIDESWE_INPUTS")).ask("build", "--task", TASK)
    assert built["validated"]
    party.ask("sign", "--task", TASK, "--home", HOME)
    yield party
    if not kept:
        shutil.rmtree(party.store_root)


@pytest.fixture(scope="session")
def gold(author: Party) -> dict[str, bytes]:
    """The gold patches by target."""
    return dict(read_contents(author).gold)
