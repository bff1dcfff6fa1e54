from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.store.store import Store
from tests.support.fake_registry import FakeRegistry, fake_registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")
