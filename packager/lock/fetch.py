"""Brings the artifacts of a lock into the store: what is there already is not asked for again."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from packager.base.digests import hex_of
from packager.base.errors import IntegrityError, WorldError
from packager.base.progress import Event, silent
from packager.lock.ecosystems import git
from packager.lock.ecosystems.known import make_ecosystems
from packager.lock.git_dependencies import make_pack
from packager.lock.upstream import Artifact, Expected, Upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from packager.base.digests import Digest
    from packager.base.progress import Progress
    from packager.lock.clients import Clients
    from packager.lock.model import LockedBlob
    from packager.lock.sources import Source
    from packager.store.store import Store

PARALLEL = 4
_TASK = "fetch"
_OK = 200


def fetch_blobs(
    locked: Iterable[LockedBlob],
    store: Store,
    clients: Clients,
    progress: Progress = silent,
    *,
    sources: Sequence[Source] = (),
) -> int:
    """Fetch every artifact that the store lacks and return how many bytes that were.

    The registries of this machine are asked first, then the addresses of `sources`. Nothing gets into the store that
    has another size or digest than the lock says. When several fail, the first by name is raised.
    """
    lacking = sorted((blob for blob in locked if not store.has(blob.digest, blob.size)), reverse=True)
    missing = sorted({blob.digest: blob for blob in lacking}.values())
    total = sum(blob.size for blob in missing)
    fetcher = _Fetcher(store, Upstream(clients), sources, lacking)
    done = 0
    with ThreadPoolExecutor(PARALLEL) as pool:
        running = [pool.submit(fetcher.fetch, blob) for blob in missing]
        try:
            for blob, future in zip(missing, running, strict=True):
                future.result()
                done += blob.size
                progress(Event(_TASK, done, total, "bytes", blob.key.rpartition("/")[2]))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    progress(Event(_TASK, done, total, "bytes", finished=True))
    return done


def take(
    url: str,
    expected: Expected,
    store: Store,
    upstream: Upstream,
    *,
    canonical: Callable[[bytes], bytes] | None = None,
) -> Artifact:
    """Bring one artifact into the store, as it is or in its ecosystem's canonical form."""
    if canonical is None:
        return upstream.artifact(url, store, expected)
    document = upstream.document(url)
    if document.status != _OK:
        return Artifact(document.status)
    body = canonical(document.body)
    with store.writer(expected.digest, expected.size) as writer:
        try:
            writer.write(body)
            digest, size = writer.commit()
        except IntegrityError as error:
            raise IntegrityError(error.reason, where=expected.where, hint=error.hint) from error
    return Artifact(_OK, document.media_type, digest, size)


class _Fetcher:
    def __init__(
        self, store: Store, upstream: Upstream, sources: Iterable[Source], lacking: Iterable[LockedBlob]
    ) -> None:
        self._store = store
        self._keys: defaultdict[Digest, list[str]] = defaultdict(list)
        for blob in lacking:
            self._keys[blob.digest].append(blob.key)
        self._upstream = upstream
        self._ecosystems = make_ecosystems()
        self._sources: dict[tuple[str, str], list[str]] = {}
        for source in sources:
            self._sources.setdefault((source.alias, source.key), []).append(source.url)

    def fetch(self, blob: LockedBlob) -> None:
        """Fetch one artifact, unless another process is at it: then wait and take what it got."""
        with self._store.lock(f"fetch-{hex_of(blob.digest)}"):
            if not self._store.has(blob.digest, blob.size):
                self._fetch(blob)

    def _fetch(self, blob: LockedBlob) -> None:
        """Try each address; the last refusal that is not mere absence is what a person must see."""
        ecosystem = self._ecosystems.get(blob.alias)
        canonical = None if ecosystem is None else ecosystem.canonical(blob.key)
        expected = Expected(f"{blob.alias} {blob.key}", blob.digest, blob.size)
        refusal: IntegrityError | WorldError | None = None
        for url in self._addresses(blob):
            try:
                if blob.alias == git.ALIAS:
                    self._pack(url, blob)
                    return
                if take(url, expected, self._store, self._upstream, canonical=canonical).digest is not None:
                    return
            except (IntegrityError, WorldError) as error:
                refusal = error
        raise refusal or WorldError(
            f"no address has it any more: {blob.digest}, {blob.size} bytes",
            where=expected.where,
            hint="take it from a store that has it, name an address in the sources file beside the lock, or lock again",
        )

    def _pack(self, url: str, blob: LockedBlob) -> None:
        """Make a pack again from its repository; the rows of its digest say of which commits."""
        sources = self._upstream.clients.git
        if sources is None:
            raise WorldError("git repositories cannot be fetched here", where=url)
        pack = make_pack(sources, self._store, url, git.pinned_of(self._keys[blob.digest]).wants)
        if pack.digest != blob.digest:
            raise IntegrityError(f"expected the pack {blob.digest}, found {pack.digest}", where=url)

    def _addresses(self, blob: LockedBlob) -> list[str]:
        ecosystem = self._ecosystems.get(blob.alias)
        known = [] if ecosystem is None else list(ecosystem.locate(blob.key, self._upstream))
        return [*known, *(url for url in self._sources.get((blob.alias, blob.key), ()) if url not in known)]
