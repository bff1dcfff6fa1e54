"""All ecosystems that can be recorded and replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.lock.ecosystems.apt import DebianPackages
from packager.lock.ecosystems.gomod import GoModules
from packager.lock.ecosystems.npm import NodePackages
from packager.lock.ecosystems.pip import PythonPackages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.lock.ecosystems.asked import Ecosystem

ALIAS_SUFFIX = ".invalid"
"""Alias hosts are `<alias>.invalid`: a reserved top-level domain (RFC 2606) that nothing answers for."""


def make_ecosystems() -> dict[str, Ecosystem]:
    """Return a new ecosystem of each kind by alias; each remembers what it learns, so one recording has its own."""
    found: tuple[Ecosystem, ...] = (DebianPackages(), GoModules(), NodePackages(), PythonPackages())
    return {ecosystem.alias: ecosystem for ecosystem in found}


def client_environment(ecosystems: Iterable[Ecosystem]) -> Mapping[str, str]:
    """Return the variables that point all package clients at their alias hosts."""
    found: dict[str, str] = {}
    for ecosystem in ecosystems:
        found.update(ecosystem.environment())
    return found
