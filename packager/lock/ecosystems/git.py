"""Git repositories that dependencies come from: each wanted commit, and each name that led to it, is a row of the lock.

All rows of a repository have the same bytes, our canonical pack. The repository's address is hashed, as for the web.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from packager.base.errors import InputError, WorldError
from packager.lock.clients import without_credentials
from packager.lock.ecosystems.asked import Asked, Held, Mark, Promise, Row, Sort
from packager.lock.git_runner import make_git_directory
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from packager.lock.upstream import Upstream
    from packager.sandbox.fetches import Request

ALIAS = "git"
MEDIA_TYPE = "application/x-git-packed-objects"

_PLAIN = re.compile(r"[^A-Za-z0-9._+-]+", re.ASCII)
_KEY = re.compile(
    r"(?P<place>[0-9a-f]{32}/(?P<name>[^/]+))/(?:want/(?P<depth>\d{1,10})|(?P<head>HEAD/)?(?P<ref>refs/.+))/(?P<commit>[0-9a-f]{40})"
)
_LOCKED = re.compile(r"git\+(?P<url>https?://[^?#]+)(?:\?[^#]*)?#(?P<commit>[0-9a-f]{40})", re.ASCII)
_SETTINGS = {
    "core.logAllRefUpdates": "false",
    "fetch.unpackLimit": "1",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "init.defaultBranch": "main",
    "advice.detachedHead": "false",
}


@dataclass(frozen=True)
class Pinned:
    """What a lock says of one repository; `wants` are commits and how many generations of them (0: all)."""

    wants: frozenset[tuple[int, str]] = frozenset()
    refs: frozenset[tuple[str, str]] = frozenset()
    head: str = ""


class GitDependencies:
    """The alias `git`; lock/git_serving.py answers its requests, since a pack is made of what is asked for."""

    alias = ALIAS
    rows = (
        Row("git", frozenset(Mark) - {Mark.CHECKS}, "no lock file of its own"),
        Row("cargo + git"),
        Row("pip + git", frozenset(Mark) - {Mark.CHECKS}, "requirements name a commit and no hash"),
        Row("npm + git", frozenset(Mark) - {Mark.CHECKS}, "with npm_config_replace_registry_host=npmjs"),
        Row("Go direct", frozenset(Mark) - {Mark.CHECKS}, "cross-checked by go itself against go.sum"),
    )
    always_lists = False

    def __init__(self) -> None:
        self._measured: dict[tuple[str, str], str] = {}

    def environment(self) -> Mapping[str, str]:
        """Keep git from asking a person, and from writing times and counts into repositories."""
        pairs = [(f"KEY_{number}", key) for number, key in enumerate(_SETTINGS)]
        pairs += [(f"VALUE_{number}", value) for number, value in enumerate(_SETTINGS.values())]
        settings = {f"GIT_CONFIG_{name}": value for name, value in pairs}
        return {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(_SETTINGS)), **settings}

    def asked(self, path: str) -> Asked | None:
        """Know no alias host."""
        del path
        return None

    def guess(self, path: str) -> Asked | None:
        """Know no paths."""
        del path
        return None

    def shelf(self, asked: Asked) -> str:
        """Return the repository."""
        return parse_key(asked.key)["place"]

    def purl(self, key: str) -> str:
        """Return pkg:generic/<repository>@<commit>."""
        found = parse_key(key)
        return _purl(found["name"], found["commit"])

    def media_type(self, key: str) -> str:
        """Return the type of packs."""
        del key
        return MEDIA_TYPE

    def canonical(self, key: str) -> Callable[[bytes], bytes] | None:
        """Packs are canonical as they are made."""
        del key
        return None

    def claims(self, url: str, upstream: Upstream) -> Asked | None:
        """Claim no address."""
        del url, upstream
        return None

    def locate(self, key: str, upstream: Upstream) -> Sequence[str]:
        """Only the sources file knows."""
        del key, upstream
        return []

    def index(self, asked: Asked, request: Request, upstream: Upstream) -> Answer:
        """Never asked."""
        return _nothing(asked, request, upstream)

    def render(self, asked: Asked, request: Request, held: Sequence[Held]) -> Answer:
        """Never asked."""
        return _nothing(asked, request, held)

    def promises(self, name: str, data: bytes) -> list[Promise]:
        """Read the git sources of a Cargo.lock, each of which names a commit: cargo fetches branches, and uses that."""
        if name.rpartition("/")[2] != "Cargo.lock":
            return []
        try:
            sources = {str(row.get("source", "")) for row in tomllib.loads(data.decode()).get("package", ())}
        except (ValueError, AttributeError, TypeError) as error:
            raise InputError(f"the lock file cannot be read: {error}", where=name) from error
        matches = [found for found in map(_LOCKED.fullmatch, sorted(sources)) if found]
        return [_promise(f"{name} ({one['commit']})", place_of(one["url"]), one["commit"]) for one in matches]

    def subject(self, key: str) -> str:
        """Return the repository: a lock file's commit must be in its pack, also where a branch was fetched."""
        return parse_key(key)["place"]

    def measure(self, path: Path, algorithm: str) -> str:
        """Return `<commit>:there` or `<commit>:absent`."""
        asked = (path.name, algorithm)
        if asked not in self._measured:
            self._measured[asked] = f"{algorithm}:{'there' if _holds(path, algorithm) else 'absent'}"
        return self._measured[asked]


def _promise(where: str, place: str, commit: str) -> Promise:
    return Promise(where, place, frozenset({f"{commit}:there"}), _purl(place.partition("/")[2], commit))


def _purl(name: str, commit: str) -> str:
    return f"pkg:generic/{quote(name)}@{commit}"


def place_of(url: str) -> str:
    """Return `<start of the address's SHA-256>/<repository>`; with or without `.git`, a repository is the same."""
    plain = without_credentials(url).rstrip("/").removesuffix(".git").rstrip("/")
    name = _PLAIN.sub("-", unquote(urlsplit(plain).path.rpartition("/")[2])).strip(".-")[-80:] or "repository"
    return f"{hashlib.sha256(plain.encode()).hexdigest()[:32]}/{name}"


def keys_of(place: str, pinned: Pinned) -> list[str]:
    """Return the keys that say all of `pinned`."""
    keys = [f"{place}/want/{depth}/{commit}" for depth, commit in pinned.wants]
    keys += [f"{place}/{'HEAD/' * (name == pinned.head)}{name}/{commit}" for name, commit in pinned.refs]
    return sorted(keys)


def pinned_of(keys: Iterable[str]) -> Pinned:
    """Return what the keys of one repository say."""
    found = [parse_key(key) for key in keys]
    return Pinned(
        wants=frozenset((int(one["depth"]), one["commit"]) for one in found if one["depth"]),
        refs=frozenset((one["ref"], one["commit"]) for one in found if one["ref"]),
        head=next((one["ref"] for one in found if one["head"]), ""),
    )


def parse_key(key: str) -> re.Match[str]:
    """Return the parts of a key."""
    found = _KEY.fullmatch(key)
    if found is None:
        raise InputError(f"expected <repository>/<name>/<commit>, found {key[:120]!r}", where=ALIAS)
    return found


def _holds(pack: Path, commit: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        directory = make_git_directory(Path(folder))
        inside = directory.path / "objects" / "pack" / "pack-0.pack"
        inside.symlink_to(pack.absolute())
        done = directory.run("index-pack", str(inside))
        if done.exit_code != 0:
            raise WorldError("the pack cannot be read", where=pack.name)
        return directory.run("cat-file", "-e", f"{commit}^{{commit}}").exit_code == 0


def _nothing(asked: Asked, *_: object) -> Answer:
    return Answer(404, "text/plain", f"{Sort.INDEX.value} {asked.key} does not exist\n".encode())
