"""Answers git clients: from repositories while recording, from locked packs later; both halves of record and replay."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.lock.ecosystems.git import ALIAS, Pinned, keys_of, parse_key, pinned_of, place_of
from packager.lock.ecosystems.git_http import (
    ADVERTISEMENT,
    RESULT,
    Cut,
    Refs,
    format_answer,
    format_refs,
    kept_refs,
    parse_wish,
    repository_of,
    wants_all_of,
)
from packager.lock.git_dependencies import MadePack, ends_of_history, make_pack, read_refs
from packager.lock.model import LockedBlob
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.base.digests import Digest
    from packager.lock.ecosystems.git_http import Wish
    from packager.lock.git import GitSources
    from packager.lock.model import LockedFetch
    from packager.sandbox.fetches import Request
    from packager.store.store import Store


@dataclass
class _Seen:
    """What clients asked of one repository."""

    url: str
    refs: Refs
    wants: set[tuple[int, str]] = field(default_factory=set)
    packs: dict[frozenset[tuple[int, str]], MadePack] = field(default_factory=dict)


class GitRecorder:
    """Serves repositories as they are today, and remembers which commits were wanted."""

    def __init__(self, store: Store, sources: GitSources | None) -> None:
        self._store = store
        self._sources = sources
        self._seen: dict[str, _Seen] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def answer(self, request: Request, url: str) -> Answer | None:
        """Answer a request of git's protocol; any other is None."""
        asked = repository_of(request.method, url)
        if asked is None:
            return None
        if self._sources is None:
            raise InputError("git repositories cannot be fetched here", where=asked[0])
        place = place_of(asked[0])
        with self._lock:
            lock = self._locks[place]
        with lock:
            seen = self._seen.get(place) or self._look(place, asked[0], self._sources)
            if not asked[1]:
                return Answer(200, ADVERTISEMENT, format_refs(seen.refs))
            wish = parse_wish(request.body, encoding=request.headers.get("content-encoding", ""))
            return self._pack(seen, wish, self._sources)

    def blobs(self) -> list[tuple[LockedBlob, str]]:
        """Return the rows of a lock and the repository's address of each: one pack for all that was wanted of it."""
        with self._lock:
            seen = sorted(self._seen.items())
        return [row for place, one in seen if one.wants for row in self._rows(place, one)]

    def _look(self, place: str, url: str, sources: GitSources) -> _Seen:
        found = _Seen(url, read_refs(sources, url))
        with self._lock:
            self._seen[place] = found
        return found

    def _pack(self, seen: _Seen, wish: Wish, sources: GitSources) -> Answer:
        depth = 0 if wants_all_of(wish.depth) else wish.depth
        wanted = frozenset((depth, commit) for commit in wish.wants)
        pack = self._made(seen, wanted, sources)
        seen.wants |= wanted
        return _answer(self._store, pack.digest, wish)

    def _made(self, seen: _Seen, wanted: frozenset[tuple[int, str]], sources: GitSources) -> MadePack:
        if wanted not in seen.packs:
            seen.packs[wanted] = make_pack(sources, self._store, seen.url, wanted)
        return seen.packs[wanted]

    def _rows(self, place: str, seen: _Seen) -> list[tuple[LockedBlob, str]]:
        if self._sources is None:
            return []
        pack = self._made(seen, frozenset(seen.wants), self._sources)
        refs = kept_refs(seen.refs, pack.commits)
        pinned = Pinned(frozenset(seen.wants), frozenset(refs.commits.items()), refs.head)
        return [(LockedBlob(ALIAS, key, pack.digest, pack.size), seen.url) for key in keys_of(place, pinned)]


class GitReplay:
    """Serves the repositories of a lock; the caller verifies what is served."""

    def __init__(self, store: Store, fetches: Iterable[LockedFetch]) -> None:
        self._store = store
        self._rows: defaultdict[str, list[LockedFetch]] = defaultdict(list)
        for fetch in fetches:
            if fetch.blob.alias == ALIAS:
                self._rows[parse_key(fetch.blob.key)["place"]].append(fetch)

    def locked(self, request: Request, url: str) -> LockedFetch | None:
        """Return the row whose bytes answer a request, or None if the lock does not know the repository."""
        asked = repository_of(request.method, url)
        rows = None if asked is None else self._rows.get(place_of(asked[0]))
        return rows[0] if rows else None

    def answer(self, request: Request, url: str) -> Answer | None:
        """Answer a request of git's protocol; None for what the lock does not have."""
        asked = repository_of(request.method, url)
        rows = [] if asked is None else self._rows.get(place_of(asked[0]), [])
        if asked is None or not rows:
            return None
        pinned = pinned_of(row.blob.key for row in rows)
        if not asked[1]:
            return Answer(200, ADVERTISEMENT, format_refs(_offered(pinned)))
        wish = parse_wish(request.body, encoding=request.headers.get("content-encoding", ""))
        known = {commit for _, commit in (*pinned.wants, *pinned.refs)}
        return _answer(self._store, rows[0].blob.digest, wish) if known.issuperset(wish.wants) else None


def _offered(pinned: Pinned) -> Refs:
    """Return the refs of a lock, and a name for each commit that no ref leads to: clients ask nothing of no refs."""
    named = dict(pinned.refs)
    bare = {f"refs/wanted/{commit}": commit for _, commit in pinned.wants if commit not in named.values()}
    return Refs(named | bare, pinned.head)


def _answer(store: Store, pack: Digest, wish: Wish) -> Answer:
    """Tell where history ends, to clients that asked for a part of it, and send all that there is."""
    cut = [] if wants_all_of(wish.depth) else ends_of_history(store, pack, wish.wants, wish.depth)
    before = format_answer(wish, Cut(tuple(cut), tuple(sorted(set(wish.shallow) - set(cut)))))
    return Answer(200, RESULT, store.path(pack), before=before) if wish.done else Answer(200, RESULT, before)
