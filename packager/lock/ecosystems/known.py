"""All ecosystems that can be recorded and replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.lock.ecosystems import git, web
from packager.lock.ecosystems.apt import DebianPackages
from packager.lock.ecosystems.cargo import RustCrates
from packager.lock.ecosystems.composer import ComposerPackages
from packager.lock.ecosystems.git import GitDependencies
from packager.lock.ecosystems.gomod import GoModules
from packager.lock.ecosystems.gradle import GradleDistributions
from packager.lock.ecosystems.maven import JavaPackages, gradle_plugins
from packager.lock.ecosystems.npm import NodePackages
from packager.lock.ecosystems.nuget import NugetPackages
from packager.lock.ecosystems.pip import PythonPackages
from packager.lock.ecosystems.rubygems import RubyGems
from packager.lock.ecosystems.rustup import RustDistribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.lock.ecosystems.asked import Ecosystem
    from packager.sandbox.fetches import Request

ALIAS_SUFFIX = ".invalid"
"""Alias hosts are `<alias>.invalid`: a reserved top-level domain (RFC 2606) that nothing answers for."""

PAGES_STAY = frozenset({"crates", "git", "maven"})
"""Registries whose clients keep what is on offer: a layer holds everything that was offered while recording, the locked
versions alone afterwards, so that only two replays can be held against each other."""

UNLISTED = frozenset({git.ALIAS, web.ALIAS, "gradle", "gradleplugins"})
"""What no registry that every machine knows lists: where it was had stands in the sources file beside the lock."""

_BY_CLIENT = {
    "Composer/": "packagist",
    "NuGet ": "nuget",
    "Ruby, RubyGems/": "rubygems",
    "RubyGems/": "rubygems",
    "bundler/": "rubygems",
    "cargo/": "crates",
}
"""How requests of clients begin to name themselves that cannot be told where their registry is."""


def make_ecosystems() -> dict[str, Ecosystem]:
    """Return a new ecosystem of each kind by alias; each remembers what it learns, so one recording has its own."""
    found: tuple[Ecosystem, ...] = (
        GradleDistributions(),  # before those that would look for such a name in their index
        DebianPackages(),
        GitDependencies(),
        GoModules(),
        NodePackages(),
        PythonPackages(),
        RustCrates(),
        RustDistribution(),
        JavaPackages(),
        gradle_plugins(),
        RubyGems(),
        ComposerPackages(),
        NugetPackages(),
    )
    return {ecosystem.alias: ecosystem for ecosystem in found}


def client_environment(ecosystems: Iterable[Ecosystem]) -> Mapping[str, str]:
    """Return the variables that point all package clients at their alias hosts."""
    found: dict[str, str] = {}
    for ecosystem in ecosystems:
        found.update(ecosystem.environment())
    return found


def alias_of_client(request: Request) -> str | None:
    """Return the registry of a client whose requests are for it, whatever host they name."""
    agent = request.headers.get("user-agent", "")
    return next((alias for start, alias in _BY_CLIENT.items() if agent.startswith(start)), None)


def may_guess(alias: str, request: Request) -> bool:
    """Say whether a request to a foreign host can be for a registry: to some, only their own client's are."""
    return alias not in _BY_CLIENT.values() or alias_of_client(request) == alias
