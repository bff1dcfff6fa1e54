"""Answers package clients from their registries and keeps what they took: the first half of record and replay."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import InputError, PackError
from packager.lock.clients import without_credentials
from packager.lock.ecosystems import git, web
from packager.lock.ecosystems.asked import WHOLE, Asked, Sort
from packager.lock.ecosystems.known import ALIAS_SUFFIX, alias_of_client, client_environment, make_ecosystems
from packager.lock.fetch import take
from packager.lock.git_serving import GitRecorder
from packager.lock.model import AbsentFetch, LockedBlob, LockedFetch, check_key
from packager.lock.sources import Source
from packager.lock.upstream import Expected, Upstream
from packager.sandbox.fetches import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.lock.clients import Clients
    from packager.lock.ecosystems.asked import Ecosystem
    from packager.sandbox.fetches import Request
    from packager.store.store import Store

RECORDER_ID = "r1"
"""Part of a lock's ids; changes whenever the same fetches would be kept under other keys or with other bytes."""

_OK = 200


@dataclass(frozen=True)
class _Row:
    blob: LockedBlob
    media_type: str
    purl: str
    url: str


class Recorder:
    """A FetchSource that fetches upstream; what it kept is read when the command has ended.

    Redirects are followed here, so the first address gets the bytes. Failures are answered with status 502 and listed.
    """

    def __init__(self, store: Store, clients: Clients, *, upstream: Upstream | None = None) -> None:
        self._store = store
        self._upstream = upstream or Upstream(clients)
        self._ecosystems = make_ecosystems()
        self._git = GitRecorder(store, clients.git)
        self._lock = threading.Lock()
        self._key_locks: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)
        self._rows: dict[tuple[str, str], _Row] = {}
        self._absent: set[tuple[str, str]] = set()
        self._pages: dict[tuple[str, str], str] = {}
        self._failures: list[str] = []

    def environment(self) -> Mapping[str, str]:
        """Return the variables that point package clients at the alias hosts."""
        return client_environment(self._ecosystems.values())

    def answer(self, request: Request) -> Answer:
        """Answer one request; only GET and HEAD are for fetching."""
        url = web.url_of(request.scheme, request.host, request.port, request.path)
        try:
            found = self._git.answer(request, url)
        except PackError as error:
            return self._failed(request, url, error)
        if found is not None:
            return found
        if request.method not in {"GET", "HEAD"}:
            with self._lock:
                self._failures.append(f"{request.method} {url}: only GET and HEAD can be recorded")
            return Answer(405, "text/plain", f"only GET and HEAD can be recorded: {request.method} {url}\n".encode())
        try:
            return self._answer(request, url)
        except PackError as error:
            return self._failed(request, url, error)

    def fetches(self, step: str) -> tuple[LockedFetch, ...]:
        """Return a lock row for each artifact that was taken."""
        with self._lock:
            rows = list(self._rows.values())
        rows += self._git_rows()
        ordered = sorted(rows, key=lambda row: row.blob)
        return tuple(LockedFetch(step, row.blob, row.media_type, row.purl, "recorded") for row in ordered)

    def absent(self, step: str) -> tuple[AbsentFetch, ...]:
        """Return a lock row for what registries lack, and for index pages of which nothing was taken."""
        with self._lock:
            shelves = {(alias, self._shelf(alias, key)) for alias, key in self._rows}
            shelves |= {(alias, WHOLE) for alias, _ in self._rows}
            unused = {page for page, shelf in self._pages.items() if (page[0], shelf) not in shelves}
            return tuple(AbsentFetch(step, alias, key) for alias, key in sorted(self._absent | unused))

    def sources(self) -> tuple[Source, ...]:
        """Return where everything was had, for the sources file."""
        with self._lock:
            rows = list(self._rows.values())
        rows += self._git_rows()
        return tuple(sorted(Source(row.blob.alias, row.blob.key, row.url) for row in rows))

    def failures(self) -> tuple[str, ...]:
        """Return what could not be answered; a command that succeeded all the same did not need it."""
        with self._lock:
            return tuple(self._failures)

    def _failed(self, request: Request, url: str, error: PackError) -> Answer:
        with self._lock:
            self._failures.append(f"{request.method} {url}: {error}")
        return Answer(502, "text/plain", f"wideswe-pack: {error}\n".encode())

    def _git_rows(self) -> list[_Row]:
        known = self._ecosystems[git.ALIAS]
        return [
            _Row(blob, known.media_type(blob.key), known.purl(blob.key), without_credentials(url))
            for blob, url in self._git.blobs()
        ]

    def _answer(self, request: Request, url: str) -> Answer:
        ecosystem, asked = self._understand(request, url)
        if ecosystem is None:
            return self._artifact(web.ALIAS, web.key_of(url), None, [url])
        if asked is None:
            return Answer(404, "text/plain", b"not found\n")
        check_key(ecosystem.alias, asked.key)
        if asked.sort is Sort.INDEX:
            return self._index(ecosystem, asked, request)
        if not request.host.endswith(ALIAS_SUFFIX) and self._row(ecosystem.alias, asked.key, ecosystem) is None:
            return self._artifact(web.ALIAS, web.key_of(url), None, [url])
        return self._artifact(ecosystem.alias, asked.key, ecosystem)

    def _understand(self, request: Request, url: str) -> tuple[Ecosystem | None, Asked | None]:
        alias = request.host.removesuffix(ALIAS_SUFFIX)
        if request.host.endswith(ALIAS_SUFFIX) and alias in self._ecosystems:
            return self._ecosystems[alias], self._ecosystems[alias].asked(request.path)
        for ecosystem in self._ecosystems.values():
            asked = self._claim(ecosystem, url)
            if asked is not None:
                return ecosystem, asked
        return self._told_by_client(request)

    def _told_by_client(self, request: Request) -> tuple[Ecosystem | None, Asked | None]:
        ecosystem = self._ecosystems.get(alias_of_client(request) or "")
        asked = None if ecosystem is None else ecosystem.guess(request.path)
        return (None, None) if asked is None else (ecosystem, asked)

    def _claim(self, ecosystem: Ecosystem, url: str) -> Asked | None:
        """Ask an ecosystem whether an address is its own; one whose registry this machine does not know says no."""
        try:
            return ecosystem.claims(url, self._upstream)
        except InputError:
            return None

    def _index(self, ecosystem: Ecosystem, asked: Asked, request: Request) -> Answer:
        answer = ecosystem.index(asked, request, self._upstream)
        if ecosystem.always_lists:
            return answer
        with self._lock:
            if answer.status == _OK or asked.detail:  # a version that is not there says nothing of the others
                self._pages[ecosystem.alias, asked.key] = ecosystem.shelf(asked)
            else:
                self._absent.add((ecosystem.alias, asked.key))
        return answer

    def _artifact(self, alias: str, key: str, ecosystem: Ecosystem | None, urls: Iterable[str] = ()) -> Answer:
        row = self._row(alias, key, ecosystem, urls)
        if row is None:
            with self._lock:
                self._absent.add((alias, key))
            return Answer(404, "text/plain", b"not found\n")
        return Answer(_OK, row.media_type, self._store.path(row.blob.digest))

    def _row(self, alias: str, key: str, ecosystem: Ecosystem | None, urls: Iterable[str] = ()) -> _Row | None:
        with self._lock:
            key_lock = self._key_locks[alias, key]
        with key_lock:
            with self._lock:
                row = self._rows.get((alias, key))
            if row is None:
                candidates = urls if ecosystem is None else ecosystem.locate(key, self._upstream)
                row = self._fetch(alias, key, ecosystem, candidates)
            if row is not None:
                with self._lock:
                    self._rows[alias, key] = row
        return row

    def _fetch(self, alias: str, key: str, ecosystem: Ecosystem | None, urls: Iterable[str]) -> _Row | None:
        canonical = None if ecosystem is None else ecosystem.canonical(key)
        for url in urls:
            artifact = take(url, Expected(f"{alias} {key}"), self._store, self._upstream, canonical=canonical)
            if artifact.digest is None:
                continue
            blob = LockedBlob(alias, key, artifact.digest, artifact.size)
            media_type = artifact.media_type if ecosystem is None else ecosystem.media_type(key)
            purl = web.purl_of(key) if ecosystem is None else ecosystem.purl(key)
            return _Row(blob, media_type, purl, without_credentials(url))
        return None

    def _shelf(self, alias: str, key: str) -> str:
        ecosystem = self._ecosystems.get(alias)
        return key if ecosystem is None else ecosystem.shelf(Asked(Sort.ARTIFACT, key))


def compare_recordings(first: Iterable[LockedFetch], second: Iterable[LockedFetch], *, where: str = "record") -> None:
    """Refuse two recordings of one step that differ: other bytes under a key, or a key that only one of them took."""
    ones, others = ({(row.blob.alias, row.blob.key): row.blob for row in rows} for rows in (first, second))
    faults = []
    for name in sorted(ones.keys() | others.keys()):
        one, other = ones.get(name), others.get(name)
        if one is None or other is None:
            faults.append(f"{' '.join(name)}: fetched in only one of two recordings")
        elif one != other:
            faults.append(f"{' '.join(name)}: mutable: first {one.digest}, then {other.digest}")
    if faults:
        raise InputError(
            "two recordings of one command differ\n" + "\n".join(faults),
            where=where,
            hint="checklist I: pin what the command fetches (a version, a lock file, a commit): the same each time",
        )
