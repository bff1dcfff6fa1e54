"""Real gems, made by `gem build`, and a compact index of them as a registry has it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from packager.base.processes import Surroundings, run_ok

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SPEC = """\
Gem::Specification.new do |s|
  s.name = '{name}'
  s.version = '{version}'
  s.summary = 'Made up'
  s.authors = ['Nobody']
  s.files = ['lib/{name}.rb']
  s.required_ruby_version = '>= 2.5'
{dependencies}end
"""


def build_gem(folder: Path, name: str, version: str, **dependencies: str) -> bytes:
    """Build a gem whose one file says its version; a `dev_` before a name makes it a development dependency."""
    place = folder / f"{name}-{version}"
    (place / "lib").mkdir(parents=True)
    module = name.capitalize()
    (place / "lib" / f"{name}.rb").write_text(f"module {module}\n  VERSION = '{version}'\nend\n")
    lines = [
        f"  s.add_{'development' if other.startswith('dev_') else 'runtime'}_dependency "
        f"'{other.removeprefix('dev_')}', {', '.join(repr(part) for part in wanted.split(' & '))}\n"
        for other, wanted in dependencies.items()
    ]
    (place / "made.gemspec").write_text(SPEC.format(name=name, version=version, dependencies="".join(lines)))
    around = Surroundings(env={"PATH": "/usr/bin:/bin", "HOME": str(place), "LC_ALL": "C.UTF-8"}, cwd=place)
    run_ok(["/usr/bin/gem", "build", "--quiet", "made.gemspec"], around)
    return (place / f"{name}-{version}.gem").read_bytes()


def compact_index(gems: Mapping[str, tuple[bytes, str]]) -> dict[str, bytes]:
    """Return a registry's files for gems by full name: their bytes, and their dependencies as the index writes them."""
    found: dict[str, bytes] = {f"/gems/{name}.gem": data for name, (data, _) in gems.items()}
    lines: dict[str, list[str]] = {}
    for name, (data, dependencies) in gems.items():
        gem, _, version = name.rpartition("-")
        told = f"{version} {dependencies}|checksum:{hashlib.sha256(data).hexdigest()},ruby:>= 2.5"
        lines.setdefault(gem, []).append(told)
    summary = "created_at: 2024-01-01T00:00:00Z\n---\n"
    for gem, rows in sorted(lines.items()):
        page = f"---\n{chr(10).join(rows)}\n".encode()
        found[f"/info/{gem}"] = page
        versions = ",".join(line.partition(" ")[0] for line in rows)
        summary += f"{gem} {versions} {hashlib.md5(page, usedforsecurity=False).hexdigest()}\n"
    return found | {"/versions": summary.encode()}


def quick_spec(folder: Path, full_name: str, gem: bytes) -> dict[str, bytes]:
    """Return the file beside a gem that `gem install` reads, written by Ruby itself."""
    (folder / "one.gem").write_bytes(gem)
    script = (
        "require 'rubygems/package'; require 'zlib'; "
        "print Zlib::Deflate.deflate(Marshal.dump(Gem::Package.new('one.gem').spec))"
    )
    around = Surroundings(env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}, cwd=folder)
    return {f"/quick/Marshal.4.8/{full_name}.gemspec.rz": run_ok(["/usr/bin/ruby", "-e", script], around)}
