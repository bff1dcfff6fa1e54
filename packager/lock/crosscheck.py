"""Holds what was recorded against what the project's own lock files promise; a disagreement is an error naming both."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.lock.ecosystems.known import make_ecosystems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.lock.ecosystems.asked import Ecosystem, Promise
    from packager.lock.model import LockedFetch
    from packager.store.store import Store


def cross_check(fetches: Iterable[LockedFetch], files: Mapping[str, bytes], store: Store) -> tuple[LockedFetch, ...]:
    """Return the fetches with origin `lock` where a lock file vouches for them; raise on any disagreement.

    `files` maps paths (for messages, and their names say which format they have) to the bytes of lock files.
    """
    checker = _Checker(files, store)
    checked = tuple(checker.check(fetch) for fetch in fetches)
    if checker.faults:
        raise InputError(
            "what was fetched is not what the project's lock files promise\n" + "\n".join(sorted(checker.faults)),
            where="lock",
            hint="the registry serves other bytes than the project was locked with: find out which of them is right",
        )
    return checked


class _Checker:
    def __init__(self, files: Mapping[str, bytes], store: Store) -> None:
        self._store = store
        self._ecosystems = make_ecosystems()
        self._promises: dict[str, dict[str, list[Promise]]] = {
            alias: _by_subject(ecosystem, files) for alias, ecosystem in self._ecosystems.items()
        }
        self.faults: set[str] = set()

    def check(self, fetch: LockedFetch) -> LockedFetch:
        """Compare one artifact with every promise about it; a plain download may be in anybody's lock file."""
        own = self._ecosystems.get(fetch.blob.alias)
        subject = fetch.blob.key if own is None else own.subject(fetch.blob.key)
        asked = self._ecosystems.values() if own is None else (own,)
        found = [(one, promise) for one in asked for promise in self._promises[one.alias].get(subject, [])]
        for ecosystem, promise in found:
            self._compare(promise, fetch, ecosystem)
        named = [promise.purl for _, promise in found if promise.purl]
        purl = fetch.purl if fetch.purl in named or not named else named[0]
        vouched = any(promise.expected for _, promise in found)
        return replace(fetch, purl=purl, origin="lock" if vouched else fetch.origin)

    def _compare(self, promise: Promise, fetch: LockedFetch, ecosystem: Ecosystem) -> None:
        path = self._store.path(fetch.blob.digest)
        algorithms = sorted({algorithm_of(value) for value in promise.expected})
        found = {ecosystem.measure(path, algorithm) for algorithm in algorithms}
        if promise.expected and not found & promise.expected:
            expected = " or ".join(sorted(promise.expected)[:3])
            measured = ", ".join(sorted(found))
            name = f"{fetch.blob.alias} {fetch.blob.key}"
            self.faults.add(f"{promise.where}: expected {expected}, found {measured} in {name}")


def algorithm_of(value: str) -> str:
    """Return the algorithm of `sha256:…`, `sha512-…` or `h1:…`."""
    return re.split("[:-]", value, maxsplit=1)[0]


def _by_subject(ecosystem: Ecosystem, files: Mapping[str, bytes]) -> dict[str, list[Promise]]:
    found: defaultdict[str, list[Promise]] = defaultdict(list)
    for name, data in sorted(files.items()):
        for promise in ecosystem.promises(name, data):
            found[promise.subject].append(promise)
    return dict(found)
