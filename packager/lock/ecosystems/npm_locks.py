"""Lock files of Node's package managers: npm, pnpm, yarn 1 and berry, and bun, each read as promises."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

import yaml

from packager.base.errors import InputError
from packager.lock.ecosystems.asked import Promise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_NAME = r"(?:@[^/@]+/)?[^/@]+"
_VERSION = r"\d[^@()/]*"
_TARBALL = re.compile(rf"(?:^|/)(?P<name>{_NAME})/-/(?P<file>[^/]+)\.tgz$")
_PNPM_KEYS = (
    re.compile(rf"/?(?P<name>{_NAME})@(?P<version>{_VERSION})(?:\(.*)?"),
    re.compile(rf"/(?P<name>{_NAME})/(?P<version>\d[^/_]*)(?:_.*)?"),  # before pnpm 8
)
_BERRY = re.compile(rf"(?P<name>{_NAME})@npm:(?P<version>{_VERSION})")
_BUN = re.compile(rf"(?P<name>{_NAME})@(?P<version>{_VERSION})")
_YARN_FIELD = re.compile(r'  (?P<name>version|resolved|integrity) "?(?P<value>[^"\n]+?)"?')
_BUN_TUPLE = 4
_JSON_WITH_COMMENTS = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)
YARN_ZIP = "10c0"
"""The cache key of berry's checksums over uncompressed zips; those over compressed ones depend on a version of zlib."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_npm(where: str, data: bytes) -> list[Promise]:
    """Read package-lock.json and npm-shrinkwrap.json of any version."""

    def promises() -> Iterator[Promise]:
        document = json.loads(data)
        for place, row in document.get("packages", {}).items():
            package = row.get("name") or place.rpartition("node_modules/")[2]
            if row.get("integrity") and row.get("version") and not row.get("link"):
                yield _promise(f"{where} ({place})", package, row["version"], row["integrity"])
        yield from _nested(where, document)

    return _read(where, promises)


def _nested(where: str, document: Mapping[str, Any]) -> Iterator[Promise]:
    """Read lockfileVersion 1, whose rows nest; files of version 2 say the same in both forms."""
    for package, row in (document.get("dependencies") or {}).items():
        if row.get("integrity") and not str(row.get("version", "")).startswith(("npm:", "file:", "git")):
            yield _promise(f"{where} ({package})", package, row["version"], row["integrity"])
        yield from _nested(where, row)


def read_pnpm(where: str, data: bytes) -> list[Promise]:
    """Read pnpm-lock.yaml of versions 5 to 9, and of pnpm 11, which may put a document about itself before it."""

    def promises() -> Iterator[Promise]:
        for document in _documents(data):
            for key, row in ((document or {}).get("packages") or {}).items():
                found = next((match for match in (form.fullmatch(key) for form in _PNPM_KEYS) if match), None)
                hashes = (row.get("resolution") or {}).get("integrity")
                if found and hashes:
                    name, version = row.get("name", found["name"]), row.get("version", found["version"])
                    yield _promise(f"{where} ({key})", name, version, hashes)

    return _read(where, promises)


def read_yarn(where: str, data: bytes) -> list[Promise]:
    """Read yarn.lock: berry's is YAML and has metadata, that of yarn 1 has a format of its own."""
    if re.search(rb"^__metadata:", data, re.MULTILINE):
        return _read(where, lambda: _berry(where, data))
    return _read(where, lambda: _yarn_1(where, data.decode()))


def _berry(where: str, data: bytes) -> Iterator[Promise]:
    """Read berry's checksums, which are of the zips that it makes of packages."""
    (document,) = _documents(data)
    usual = _text(document["__metadata"].get("cacheKey", ""))
    for key, row in document.items():
        found = _BERRY.fullmatch(_text(row.get("resolution", "")))
        cache_key, _, checksum = _text(row.get("checksum") or "").rpartition("/")
        if found and checksum and (cache_key or usual) == YARN_ZIP:
            yield _promise(f"{where} ({key})", found["name"], found["version"], f"{YARN_ZIP}-{checksum}")


def _yarn_1(where: str, text: str) -> Iterator[Promise]:
    """Read blocks such as `"a@^1", a@~1.2:` with indented fields; a package's name is that of its tarball."""
    for block in re.split(r"\n(?=\S)", text):
        heading, _, rest = block.partition("\n")
        if not heading.endswith(":"):
            continue
        matches = (_YARN_FIELD.fullmatch(line) for line in rest.splitlines())
        fields = {match["name"]: match["value"] for match in matches if match}
        address, _, fragment = fields.get("resolved", "").partition("#")
        found = _TARBALL.search(unquote(urlsplit(address).path))
        hashes = fields.get("integrity") or _sha1(fragment)
        if found and hashes and fields.get("version"):
            yield _promise(f"{where} ({heading[:-1]})", found["name"], fields["version"], hashes)


def read_bun(where: str, data: bytes) -> list[Promise]:
    """Read bun.lock: JSON with comments and commas to spare; a package is `[name@version, registry, facts, hash]`."""

    def promises() -> Iterator[Promise]:
        text = _JSON_WITH_COMMENTS.sub(lambda match: match[0] if match[0][0] == '"' else "", data.decode())
        for key, row in json.loads(text).get("packages", {}).items():
            found = _BUN.fullmatch(_text(row[0]))
            if found and len(row) == _BUN_TUPLE and "-" in _text(row[3]):
                yield _promise(f"{where} ({key})", found["name"], found["version"], row[3])

    return _read(where, promises)


READERS = {
    "package-lock.json": read_npm,
    "npm-shrinkwrap.json": read_npm,
    "pnpm-lock.yaml": read_pnpm,
    "yarn.lock": read_yarn,
    "bun.lock": read_bun,
}
"""By file name."""


def _read(where: str, promises: Callable[[], Iterator[Promise]]) -> list[Promise]:
    try:
        return list(promises())
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"the lock file cannot be read: {why}", where=where) from error


def _promise(where: str, package: str, version: object, hashes: object) -> Promise:
    subject = f"pkg:npm/{quote(package, safe='/')}@{quote(_text(version))}"
    return Promise(where, subject, frozenset(_text(hashes).split()))


def _documents(data: bytes) -> list[Any]:
    """Return YAML's documents; aliases stay shared as long as nobody merges or writes them out."""
    if re.search(rb"<<['\"]?\s*:", data):
        raise ValueError("expected no merge keys (<<), which no package manager writes")
    return list(yaml.load_all(data, Loader=_Loader))


def _text(value: object) -> str:
    if not isinstance(value, (str, int, float)):
        raise TypeError(f"expected text, found a {type(value).__name__}")
    return str(value)


def _sha1(fragment: str) -> str:
    """Return a Subresource Integrity hash of the `#<sha1>` behind older addresses, or nothing."""
    try:
        return f"sha1-{base64.b64encode(binascii.unhexlify(fragment)).decode()}" if fragment else ""
    except ValueError:
        return ""
