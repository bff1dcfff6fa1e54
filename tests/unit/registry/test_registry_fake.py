"""The registry in this process keeps the contract, with the referrers API and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.registry import MemoryRegistry, Options
from tests.support.registry_contract import RegistryContract

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestMemoryRegistry(RegistryContract):
    @pytest.fixture(params=["api", "fallback", "liar"])
    def host(self, request: pytest.FixtureRequest) -> Iterator[str]:
        api = request.param == "api"
        with MemoryRegistry(Options(referrers_api=api, says_subject=request.param != "fallback")) as registry:
            yield registry.host
            registry.check()
