"""Answers package clients from a lock alone: the second half of record and replay. It never asks the network."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from packager.base.digests import BLOCK_BYTES
from packager.base.errors import PackError
from packager.lock.ecosystems import web
from packager.lock.ecosystems.asked import WHOLE, Asked, Held, Sort
from packager.lock.ecosystems.known import ALIAS_SUFFIX, client_environment, make_ecosystems, may_guess
from packager.lock.git_serving import GitReplay
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.lock.ecosystems.asked import Ecosystem
    from packager.lock.model import AbsentFetch, LockedFetch
    from packager.sandbox.fetches import Request
    from packager.store.store import Store

UNKNOWN = 599
"""The status of a request that the lock does not know: no registry answers with it, no client takes it for success."""


class Replay:
    """A FetchSource over the fetches of one step; what it was asked for in vain is kept for the error message.

    What other steps fetched (`beside`) is not served but listed: a client finds it where an earlier step left it.
    """

    def __init__(
        self,
        store: Store,
        fetches: Iterable[LockedFetch],
        absent: Iterable[AbsentFetch],
        *,
        beside: Iterable[LockedFetch] = (),
    ) -> None:
        self._store = store
        self._ecosystems = make_ecosystems()
        self._fetches = {(fetch.blob.alias, fetch.blob.key): fetch for fetch in fetches}
        self._listed = {(fetch.blob.alias, fetch.blob.key): fetch for fetch in beside} | self._fetches
        self._git = GitReplay(store, self._fetches.values())
        self._absent = {(row.alias, row.key) for row in absent}
        self._verified: set[str] = set()
        self._unknown: list[str] = []
        self._lock = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Return the variables that point package clients at the alias hosts."""
        return client_environment(self._ecosystems.values())

    def answer(self, request: Request) -> Answer:
        """Answer one request from the lock; what it does not know gets status 599 and a text that names it."""
        url = web.url_of(request.scheme, request.host, request.port, request.path)
        try:
            answer = self._from_repository(request, url)
            if answer is None and request.method in {"GET", "HEAD"}:
                answer = self._answer(request, url)
        except PackError as error:
            return Answer(500, "text/plain", f"wideswe-pack: {error}\n".encode())
        if answer is not None:
            return answer
        with self._lock:
            self._unknown.append(f"{request.method} {url}")
        return Answer(UNKNOWN, "text/plain", f"wideswe-pack: not in the lock: {request.method} {url}\n".encode())

    def unknown(self) -> tuple[str, ...]:
        """Return the requests that the lock does not know, in the order in which they came."""
        with self._lock:
            return tuple(self._unknown)

    def _from_repository(self, request: Request, url: str) -> Answer | None:
        pack = self._git.locked(request, url)
        if pack is None:
            return None
        self._verify(pack)
        return self._git.answer(request, url)

    def _answer(self, request: Request, url: str) -> Answer | None:
        alias = request.host.removesuffix(ALIAS_SUFFIX)
        if request.host.endswith(ALIAS_SUFFIX) and alias in self._ecosystems:
            asked = self._ecosystems[alias].asked(request.path)
            return _ABSENT if asked is None else self._from_lock(self._ecosystems[alias], asked, request)
        found = self._locked(web.ALIAS, web.key_of(url))
        if found is not None:
            return found
        for ecosystem in self._ecosystems.values():
            if not may_guess(ecosystem.alias, request):
                continue
            guessed = ecosystem.guess(request.path)
            found = None if guessed is None else self._from_lock(ecosystem, guessed, request)
            if found is not None:
                return found
        return None

    def _from_lock(self, ecosystem: Ecosystem, asked: Asked, request: Request) -> Answer | None:
        if asked.sort is Sort.ARTIFACT:
            return self._locked(ecosystem.alias, asked.key)
        held = self._held(ecosystem, ecosystem.shelf(asked))
        is_absent = (ecosystem.alias, asked.key) in self._absent
        if is_absent and not any((ecosystem.alias, one.key) not in self._fetches for one in held):
            return _ABSENT
        alias_host = request.host == f"{ecosystem.alias}{ALIAS_SUFFIX}"
        if not held and not (ecosystem.always_lists and alias_host):
            return None
        for one in held:
            self._verify(self._listed[ecosystem.alias, one.key])
        return ecosystem.render(asked, request, held)

    def _held(self, ecosystem: Ecosystem, shelf: str) -> list[Held]:
        return [
            Held(key, fetch.blob.digest, fetch.blob.size, self._store.path(fetch.blob.digest))
            for (alias, key), fetch in sorted(self._listed.items())
            if alias == ecosystem.alias and shelf in {WHOLE, ecosystem.shelf(Asked(Sort.ARTIFACT, key))}
        ]

    def _locked(self, alias: str, key: str) -> Answer | None:
        fetch = self._fetches.get((alias, key))
        if fetch is None:
            return _ABSENT if (alias, key) in self._absent else None
        self._verify(fetch)
        return Answer(200, fetch.media_type, self._store.path(fetch.blob.digest))

    def _verify(self, fetch: LockedFetch) -> None:
        """Hash a blob once before it is served; a broken one is set aside by the store and never served."""
        digest = fetch.blob.digest
        with self._lock:
            if digest in self._verified:
                return
        with self._store.open(digest) as stream:
            while stream.read(BLOCK_BYTES):
                pass
        with self._lock:
            self._verified.add(digest)


_ABSENT = Answer(404, "text/plain", b"not found\n")
