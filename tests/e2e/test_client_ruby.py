"""Bundler and gem of this machine against a registry of real gems on loopback, then against the lock alone."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import InputError
from packager.sandbox.namespaces import may_mount
from tests.support.client_walk import Project, needs, walk
from tests.support.gems import build_gem, compact_index, quick_spec
from tests.support.small_registry import SmallRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.skipif(not may_mount(), reason="needs root: the sandbox mounts")]

GEMFILE = 'source "https://gems.example"\ngem "near", "~> 1.0"\n'
LOCK = """\
GEM
  remote: https://gems.example/
  specs:
    far (0.9)
    near (1.2)
      far (>= 0.5, < 1.0)

PLATFORMS
  ruby

DEPENDENCIES
  near (~> 1.0)

CHECKSUMS
  far (0.9) sha256={far}
  near (1.2) sha256={near}

BUNDLED WITH
   2.3.15
"""
RUBY = 'ruby -I /work -e \'require "bundler/setup"; require "near"; require "far"; puts Near::VERSION, Far::VERSION\''
INSTALL = "bundle config set --global path /opt/gems && bundle install --quiet"


@pytest.fixture(scope="module")
def gems(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[bytes, str]]:
    needs("gem", "bundle")
    folder = tmp_path_factory.mktemp("gems")
    return {
        "near-1.2": (build_gem(folder, "near", "1.2", far=">= 0.5 & < 1.0", dev_rake="> 12"), "far:< 1.0&>= 0.5"),
        "near-2.0": (build_gem(folder, "near", "2.0"), ""),
        "far-0.9": (build_gem(folder, "far", "0.9"), ""),
        "far-1.0": (build_gem(folder, "far", "1.0"), ""),
    }


@pytest.mark.shows("Bundler", "records", "replays offline", "cross-checked", "SBOM names")
def test_bundler_resolves_and_installs(tmp_path: Path, gems: Mapping[str, tuple[bytes, str]]) -> None:
    with SmallRegistry(compact_index(gems)) as registry:
        project = Project(
            f"{INSTALL} && cp Gemfile.lock /opt/locked",
            {"Gemfile": GEMFILE},
            {"WIDESWE_REGISTRY_RUBYGEMS": registry.url},
            after=f'test "$({RUBY})" = "$(printf \'1.2\\n0.9\')"',
        )
        done = walk(tmp_path, project)
    assert done.keys == ["rubygems gems/far-0.9.gem", "rubygems gems/near-1.2.gem"]
    assert done.purls == ["pkg:gem/far@0.9", "pkg:gem/near@1.2"]
    assert b"  remote: https://gems.example/\n" in done.files["opt/locked"]
    assert done.never(registry.host)
    hashes = {
        name: hashlib.sha256(gems[full][0]).hexdigest() for name, full in (("far", "far-0.9"), ("near", "near-1.2"))
    }
    assert done.origins({"Gemfile.lock": LOCK.format(**hashes)}) == {
        "gems/far-0.9.gem": "lock",
        "gems/near-1.2.gem": "lock",
    }
    with pytest.raises(InputError) as caught:
        done.origins({"Gemfile.lock": LOCK.format(**hashes | {"far": "00"})})
    assert str(caught.value) == (
        "lock: what was fetched is not what the project's lock files promise\n"
        f"Gemfile.lock:15: expected sha256:00, found sha256:{hashes['far']} in rubygems gems/far-0.9.gem\n"
        "hint: the registry serves other bytes than the project was locked with: find out which of them is right"
    )


@pytest.mark.shows("gem", "records", "replays offline", "SBOM names")
def test_gem_install_asks_its_usual_host(tmp_path: Path, gems: Mapping[str, tuple[bytes, str]]) -> None:
    files = compact_index(gems)
    for name, (data, _) in gems.items():
        files |= quick_spec(tmp_path, name, data)
    with SmallRegistry(files) as registry:
        command = "gem install --quiet --no-document --install-dir /opt/gems near -v 1.2"
        done = walk(
            tmp_path,
            Project(
                command,
                variables={"WIDESWE_REGISTRY_RUBYGEMS": registry.url},
                after='GEM_HOME=/opt/gems ruby -e \'require "near"; exit Near::VERSION == "1.2"\'',
            ),
        )
    assert done.keys == [
        "rubygems gems/far-0.9.gem",
        "rubygems gems/near-1.2.gem",
        "rubygems quick/Marshal.4.8/far-0.9.gemspec.rz",
        "rubygems quick/Marshal.4.8/near-1.2.gemspec.rz",
    ]
    assert done.purls == ["pkg:gem/far@0.9", "pkg:gem/near@1.2"]
    assert done.never(registry.host)
