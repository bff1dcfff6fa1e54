"""Gems: the compact index and the files behind it, as Bundler and gem use them."""

from __future__ import annotations

import hashlib
import re
import threading
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from packager.base.errors import InputError
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Mark, Promise, Row, Sort, below
from packager.lock.ecosystems.gem_spec import read_gem_spec
from packager.lock.ecosystems.hashing import hex_hash
from packager.lock.upstream import ABSENT
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

_PLATFORM = r"(?:java|jruby|ruby|x86|x64|i[3-6]86|arm|aarch64|universal|mswin|mingw|powerpc|ppc|s390|riscv|wasm)[\w-]*"
_FULL_NAME = rf"(?P<name>[\w.-]+?)-(?P<version>\d+(?:\.[0-9A-Za-z]+)*)(?:-(?P<platform>{_PLATFORM}))?"
_GEM = re.compile(rf"gems/(?P<full>{_FULL_NAME})\.gem", re.ASCII)
_SPEC = re.compile(rf"quick/Marshal\.4\.8/(?P<full>{_FULL_NAME})\.gemspec\.rz", re.ASCII)
_HOME = "home"
_PAGE = re.compile(rf"{_HOME}|versions|names|info/(?P<name>[\w.-]+)", re.ASCII)
_CHECKSUM = re.compile(r"  (?P<name>\S+) \((?P<version>[^)]+)\) (?P<hashes>\S+=.*)")


class RubyGems:
    """The registry `rubygems`; remembers what gems said of themselves."""

    alias = "rubygems"
    rows = (Row("Bundler"), Row("gem", frozenset(Mark) - {Mark.CHECKS}))
    always_lists = False

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._lock = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Let the alias host stand for every source of a Gemfile, whose lock keeps their names."""
        return {
            "BUNDLE_MIRROR__ALL": "http://rubygems.invalid/",
            "BUNDLE_USER_CACHE": "/tmp/bundle-cache",  # noqa: S108 - inside the sandbox, dropped from layers
            "BUNDLE_DISABLE_VERSION_CHECK": "1",
            "BUNDLE_SILENCE_ROOT_WARNING": "1",
            "BUNDLE_IGNORE_FUNDING_REQUESTS": "1",
            "BUNDLE_RETRY": "0",
            "BUNDLE_TIMEOUT": "600",
            "GEM_SPEC_CACHE": "/tmp/gem-specs",  # noqa: S108
        }

    def asked(self, path: str) -> Asked | None:
        """Tell gems and their specifications from the three kinds of pages; older indexes are not offered."""
        key = unquote(path.partition("?")[0]).lstrip("/") or _HOME  # `gem` looks whether a host is there at all
        if _GEM.fullmatch(key) or _SPEC.fullmatch(key):
            return Asked(Sort.ARTIFACT, key)
        return Asked(Sort.INDEX, key) if _PAGE.fullmatch(key) else None

    def guess(self, path: str) -> Asked | None:
        """Take any source's address for what it is: all have the same paths."""
        return self.asked(path)

    def shelf(self, asked: Asked) -> str:
        """Return the gem's name; two pages are about all gems."""
        if asked.sort is Sort.INDEX:
            return asked.key.removeprefix("info/") if "/" in asked.key else WHOLE
        return _match(asked.key)["name"]

    def purl(self, key: str) -> str:
        """Return pkg:gem/<name>@<version>."""
        found = _match(key)
        platform = f"?platform={quote(found['platform'])}" if found["platform"] else ""
        return f"pkg:gem/{quote(found['name'])}@{quote(found['version'])}{platform}"

    def media_type(self, key: str) -> str:
        """Return what registries serve."""
        del key
        return "application/octet-stream"

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Keep gems as they are."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim what lies below the configured source."""
        path = below(url, upstream.clients.base_url(self.alias))
        return None if path is None else self.asked(path)

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Every source has the same layout."""
        return [f"{upstream.clients.base_url(self.alias)}/{quote(key)}"]

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Pass a page through; clients check it against its ETag."""
        del request
        if asked.key == _HOME:
            return _page(b"")
        found = upstream.document(self.locate(asked.key, upstream)[0])
        return _ABSENT if found.status in ABSENT else _page(found.body)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Write a page about the locked gems from what they say of themselves."""
        del request
        if asked.key == _HOME:
            return _page(b"")
        names: dict[str, list[Held]] = {}
        for one in held:
            if _GEM.fullmatch(one.key):
                names.setdefault(_match(one.key)["name"], []).append(one)
        if asked.key == "names":
            return _page(_text(names))
        if asked.key == "versions":
            return _page(_text((self._summary(name, gems) for name, gems in sorted(names.items())), head=_CREATED))
        wanted = names.get(self.shelf(asked))
        return _page(self._info(wanted)) if wanted else _ABSENT

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read the checksums of Gemfile.lock (Bundler 2.5 and newer)."""
        if name.rpartition("/")[2] not in {"Gemfile.lock", "gems.locked"}:
            return []
        lines = data.decode(errors="replace").splitlines()
        start = lines.index("CHECKSUMS") + 1 if "CHECKSUMS" in lines else len(lines)
        found = []
        for number, line in enumerate(lines[start:], start + 1):
            match = _CHECKSUM.fullmatch(line)
            if match is None:
                break
            expected = frozenset(value.strip().replace("=", ":", 1) for value in match["hashes"].split(","))
            found.append(Promise(f"{name}:{number}", f"{match['name']}-{match['version']}", expected))
        return found

    def subject(self, key: str) -> str:
        """Return a gem's full name; a specification beside it is promised by nobody."""
        return _match(key)["full"] if _GEM.fullmatch(key) else key

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `sha256:<hex>`."""
        return hex_hash(path, algorithm)

    def _summary(self, name: str, gems: Sequence[Held]) -> str:
        versions = ",".join(_match(one.key)["full"].removeprefix(f"{name}-") for one in gems)
        return f"{name} {versions} {_md5(self._info(gems))}"

    def _info(self, gems: Sequence[Held]) -> bytes:
        return _text(self._line(one) for one in gems)

    def _line(self, one: Held) -> str:
        with self._lock:
            known = self._lines.get(one.key)
        if known is None:
            spec, found = read_gem_spec(one), _match(one.key)
            version = found["full"].removeprefix(f"{found['name']}-")
            needs = [f"checksum:{hex_hash(one.path, 'sha256').partition(':')[2]}"]
            needs += [
                f"{word}:{wanted}" for word, wanted in (("ruby", spec.ruby), ("rubygems", spec.rubygems)) if wanted
            ]
            known = f"{version} {','.join(f'{name}:{wanted}' for name, wanted in spec.dependencies)}|{','.join(needs)}"
            with self._lock:
                self._lines[one.key] = known
        return known


_CREATED = "created_at: 1980-01-01T00:00:00Z\n"
_ABSENT = Answer(404, "text/plain", b"not found\n")


def _match(key: str) -> re.Match[str]:
    found = _GEM.fullmatch(key) or _SPEC.fullmatch(key)
    if found is None:
        raise InputError(f"expected gems/<name>-<version>.gem, found {key[:120]!r}", where="rubygems")
    return found


def _text(lines: Iterable[str], *, head: str = "") -> bytes:
    return "".join((head, "---\n", *(f"{line}\n" for line in lines))).encode()


def _page(body: bytes) -> Answer:
    return Answer(200, "text/plain; charset=utf-8", body, etag=_md5(body))


def _md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()  # the protocol's; bytes are held by the lock
