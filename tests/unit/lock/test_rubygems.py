from __future__ import annotations

import gzip
import hashlib
from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import InputError
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Sort
from packager.lock.ecosystems.rubygems import RubyGems
from packager.sandbox.fetches import Request
from tests.support.artifacts import make_tar

if TYPE_CHECKING:
    from pathlib import Path

GET = Request("GET", "http", "rubygems.invalid", 80, "/")
SPEC = """\
--- !ruby/object:Gem::Specification
name: near
version: !ruby/object:Gem::Version
  version: '1.2'
platform: ruby
dependencies:
- !ruby/object:Gem::Dependency
  name: far
  requirement: &id001 !ruby/object:Gem::Requirement
    requirements:
    - - "~>"
      - !ruby/object:Gem::Version
        version: '1.0'
    - - ">="
      - !ruby/object:Gem::Version
        version: 1.0.3
  type: :runtime
  version_requirements: *id001
- !ruby/object:Gem::Dependency
  name: any
  requirement: !ruby/object:Gem::Requirement
    requirements:
    - - ">="
      - !ruby/object:Gem::Version
        version: '0'
  type: :runtime
- !ruby/object:Gem::Dependency
  name: rake
  type: :development
required_ruby_version: !ruby/object:Gem::Requirement
  requirements:
  - - ">="
    - !ruby/object:Gem::Version
      version: '2.5'
required_rubygems_version: !ruby/object:Gem::Requirement
  requirements:
  - - ">="
    - !ruby/object:Gem::Version
      version: '0'
"""


def gem(spec: str) -> bytes:
    return make_tar({"metadata.gz": gzip.compress(spec.encode(), mtime=0)})


def held(folder: Path, key: str, data: bytes) -> Held:
    path = folder / digest_of(data).removeprefix("sha256:")
    path.write_bytes(data)
    return Held(key, digest_of(data), len(data), path)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/gems/rack-2.2.0.gem", Asked(Sort.ARTIFACT, "gems/rack-2.2.0.gem")),
        ("/quick/Marshal.4.8/a-1.gemspec.rz", Asked(Sort.ARTIFACT, "quick/Marshal.4.8/a-1.gemspec.rz")),
        ("/info/rack", Asked(Sort.INDEX, "info/rack")),
        ("/versions", Asked(Sort.INDEX, "versions")),
        ("/", Asked(Sort.INDEX, "home")),
        ("/specs.4.8.gz", None),
        ("/info/a/b", None),
    ],
)
def test_paths_of_a_source_have_one_meaning(path: str, asked: Asked | None) -> None:
    assert RubyGems().asked(path) == RubyGems().guess(path) == asked


@pytest.mark.parametrize(
    ("key", "purl"),
    [
        ("gems/rack-2.2.0.gem", "pkg:gem/rack@2.2.0"),
        ("gems/a-2-b-1.0.pre.gem", "pkg:gem/a-2-b@1.0.pre"),
        ("gems/nokogiri-1.16.0-x86_64-linux.gem", "pkg:gem/nokogiri@1.16.0?platform=x86_64-linux"),
        ("gems/ffi-1.0-x86-darwin-9.gem", "pkg:gem/ffi@1.0?platform=x86-darwin-9"),
        ("quick/Marshal.4.8/jruby-openssl-0.9-java.gemspec.rz", "pkg:gem/jruby-openssl@0.9?platform=java"),
    ],
)
def test_gems_have_package_urls(key: str, purl: str) -> None:
    assert RubyGems().purl(key) == purl


def test_pages_are_made_from_what_gems_say_of_themselves(tmp_path: Path) -> None:
    one = held(tmp_path, "gems/near-1.2.gem", gem(SPEC))
    page = RubyGems().render(Asked(Sort.INDEX, "info/near"), GET, [one])
    digest = one.digest.removeprefix("sha256:")
    expected = f"---\n1.2 any:>= 0,far:>= 1.0.3&~> 1.0|checksum:{digest},ruby:>= 2.5\n".encode()
    md5 = hashlib.md5(expected, usedforsecurity=False).hexdigest()
    assert (page.body, page.etag) == (expected, md5)
    summary = RubyGems().render(Asked(Sort.INDEX, "versions"), GET, [one])
    assert summary.body == f"created_at: 1980-01-01T00:00:00Z\n---\nnear 1.2 {md5}\n".encode()
    assert RubyGems().render(Asked(Sort.INDEX, "names"), GET, [one]).body == b"---\nnear\n"
    assert RubyGems().render(Asked(Sort.INDEX, "info/far"), GET, [one]).status == 404
    assert RubyGems().shelf(Asked(Sort.INDEX, "versions")) == WHOLE


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"no tar", "truncated header"),
        (make_tar({"data.tar.gz": b""}), "\"filename 'metadata.gz' not found\""),
        (make_tar({"metadata.gz": b"plain"}), "Not a gzipped file (b'pl')"),
        (gem("- a\n"), "expected a specification"),
        (gem("{"), "while parsing a flow node"),
        (gem("!!python/object/apply:os.system ['false']"), "expected a specification"),
        (gem("--- !ruby/object:Gem::Specification\ndependencies:\n- 3\n"), "'str' object has no attribute 'get'"),
    ],
)
def test_a_gem_that_is_none_is_named(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(InputError) as caught:
        RubyGems().render(Asked(Sort.INDEX, "info/near"), GET, [held(tmp_path, "gems/near-1.2.gem", data)])
    assert str(caught.value).startswith(f"gems/near-1.2.gem: the gem cannot be read: {why}")


def test_the_checksums_of_a_gemfile_lock_are_promises() -> None:
    text = b"GEM\n  specs:\n    a (1.0)\n\nCHECKSUMS\n  a (1.0) sha256=aa\n  b (2.0-java)\n  c (1) sha256=cc\n"
    (one,) = RubyGems().promises("app/Gemfile.lock", text)
    assert (one.where, one.subject, one.expected) == ("app/Gemfile.lock:6", "a-1.0", frozenset({"sha256:aa"}))
    assert RubyGems().subject("gems/a-1.0.gem") == "a-1.0"
    assert RubyGems().promises("Gemfile.lock", b"GEM\n") == []
