"""From documents that anybody may have handed over to a suite that is trusted: a numbered list of checks.

1. anchor: one of the roots is the one that the trust policy pins
2. root n: one version after the one before, signed by its threshold and by its own (for each root after the anchor)
3. root seen: no root is older than the newest that this machine has seen, nor another one of the same version
4. root expiry: the last root has not expired
5. index signatures: by the threshold of the last root's release keys
6. index name: it is the index of the suite asked for
7. index seen: not older than the newest seen, not another one of the same version, and it descends from the one seen
8. clock: this machine's clock is not before the time at which the suite was last found good
9. index expiry: it has not expired

Nobody can notice offline that there is a newer index than the one at hand; expiry bounds how long that can last.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.trust.checks import Answer, Check, ask_all, is_verified
from packager.trust.roots import RootDocument, parse_root, signed_by_enough
from packager.trust.seen import Seen, format_time
from packager.trust.suite_index import IndexDocument, index_signed_by_enough, parse_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from packager.base.digests import Digest
    from packager.trust.keys import PublicKey

MAX_ROOTS = 1024
CLOCK_TOLERANCE = timedelta(minutes=10)


@dataclass(frozen=True)
class SuiteDocuments:
    """What was handed over: roots in the order of their versions, and one index."""

    roots: tuple[bytes, ...]
    index: bytes


@dataclass(frozen=True)
class Circumstances:
    """When and on what terms documents are judged: the clock, what was seen before, and whether expiry is forgiven."""

    now: datetime
    seen: Seen | None = None
    allow_expired: bool = False


@dataclass(frozen=True)
class Suite:
    """A suite that is trusted: its last root and its index."""

    root: RootDocument
    index: IndexDocument
    expired: bool = False

    @property
    def release_keys(self) -> tuple[PublicKey, ...]:
        """The keys that may sign images."""
        return self.root.roles["release"].keys

    @property
    def attest_keys(self) -> tuple[PublicKey, ...]:
        """The keys that may say something about images."""
        return self.root.roles["attest"].keys

    def seen(self, now: datetime, before: Seen | None) -> Seen:
        """Return what to remember of it; the time never goes back."""
        time = now if before is None else max(now, before.time)
        contents = self.index.contents
        return Seen(self.root.version, self.root.digest, contents.version, self.index.digest, time)


def trust_suite(
    documents: SuiteDocuments, name: str, anchor: Digest, around: Circumstances
) -> tuple[list[Check], Suite | None]:
    """Run the checks in order; the suite comes only with a list that is all yes."""
    walk = _Walk(documents, name, anchor, around)
    checks = ask_all(walk.steps())
    return checks, walk.suite() if is_verified(checks) else None


class _Walk:
    """The steps of one suite, and what earlier ones have found for later ones."""

    def __init__(self, documents: SuiteDocuments, name: str, anchor: Digest, around: Circumstances) -> None:
        self._documents = documents
        self._name = name
        self._anchor = anchor
        self._around = around
        self._roots: list[RootDocument] = []
        self._trusted: RootDocument
        self._index: IndexDocument
        self._expired = False

    def suite(self) -> Suite:
        return Suite(self._trusted, self._index, self._expired)

    def steps(self) -> Iterator[tuple[str, Callable[[], Answer]]]:
        yield "anchor", self._check_anchor
        for number in range(1, len(self._roots)):
            yield f"root {self._roots[number].version}", partial(self._check_root, number)
        yield "root seen", self._check_root_seen
        yield "root expiry", self._check_root_expiry
        yield "index signatures", self._check_signatures
        yield "index name", self._check_name
        yield "index seen", self._check_seen
        yield "clock", self._check_clock
        yield "index expiry", self._check_expiry

    def _check_anchor(self) -> Answer:
        if not 1 <= len(self._documents.roots) <= MAX_ROOTS:
            return Answer(ok=False, reason=f"expected 1 to {MAX_ROOTS} roots, found {len(self._documents.roots)}")
        roots = [parse_root(data, where=f"root {n}") for n, data in enumerate(self._documents.roots, start=1)]
        place = next((n for n, root in enumerate(roots) if root.digest == self._anchor), None)
        if place is None:
            return Answer(ok=False, reason=f"none of {len(roots)} roots is the pinned one, {self._anchor}")
        self._roots = roots[place:]
        self._trusted = self._roots[0]
        ok, reason = signed_by_enough(self._trusted, None)
        return Answer(ok=ok, reason=f"root {self._trusted.version} is the pinned one, {reason}")

    def _check_root(self, number: int) -> Answer:
        before, root = self._roots[number - 1], self._roots[number]
        if root.version != before.version + 1:
            return Answer(ok=False, reason=f"expected version {before.version + 1}, found {root.version}")
        ok, reason = signed_by_enough(root, before)
        if ok:
            self._trusted = root
        return Answer(ok=ok, reason=reason)

    def _check_root_seen(self) -> Answer:
        seen, last = self._around.seen, self._trusted
        if last.suite != self._name:
            return Answer(ok=False, reason=f"expected the suite {self._name}, found {last.suite[:80]}")
        if seen is None:
            return Answer(ok=True, reason=f"root {last.version} is the first that this machine sees")
        if last.version < seen.root_version:
            return Answer(ok=False, reason=f"rollback: root {seen.root_version} was seen before, found {last.version}")
        same = next((root for root in self._roots if root.version == seen.root_version), None)
        if same is not None and same.digest != seen.root:
            reason = f"equivocation: root {same.version} was seen as {seen.root}, now it is {same.digest}"
            return Answer(ok=False, reason=reason)
        return Answer(ok=True, reason=f"root {last.version}, seen before {seen.root_version}")

    def _check_root_expiry(self) -> Answer:
        return self._check_time(self._trusted.metadata.signed.expires, f"root {self._trusted.version}")

    def _check_signatures(self) -> Answer:
        self._index = parse_index(self._documents.index)
        ok, reason = index_signed_by_enough(self._index, self._trusted)
        return Answer(ok=ok, reason=reason)

    def _check_name(self) -> Answer:
        found = self._index.contents.suite
        if found != self._name:
            return Answer(ok=False, reason=f"expected the suite {self._name}, found {found[:80]}")
        return Answer(ok=True, reason=f"{found} version {self._index.contents.version}, {self._index.digest}")

    def _check_seen(self) -> Answer:
        seen, contents = self._around.seen, self._index.contents
        if seen is None or seen.version == 0:
            return Answer(ok=True, reason=f"version {contents.version} is the first that this machine sees")
        if contents.version < seen.version:
            reason = f"rollback: version {seen.version} was seen before, found {contents.version}"
            return Answer(ok=False, reason=reason)
        same = self._index.digest if contents.version == seen.version else contents.chain[seen.version - 1]
        if same != seen.index:
            reason = f"equivocation: version {seen.version} was seen as {seen.index}, now it is {same}"
            return Answer(ok=False, reason=reason)
        return Answer(ok=True, reason=f"version {contents.version}, seen before {seen.version}")

    def _check_clock(self) -> Answer:
        seen, now = self._around.seen, self._around.now
        if seen is not None and now < seen.time - CLOCK_TOLERANCE:
            reason = f"the clock says {format_time(now)}, but the suite was found good at {format_time(seen.time)}"
            return Answer(ok=False, reason=reason)
        return Answer(ok=True, reason=format_time(now))

    def _check_expiry(self) -> Answer:
        return self._check_time(self._index.contents.expires, f"version {self._index.contents.version}")

    def _check_time(self, expires: datetime, what: str) -> Answer:
        if self._around.now < expires:
            return Answer(ok=True, reason=f"{what} expires {format_time(expires)}")
        reason = f"{what} expired {format_time(expires)}"
        if not self._around.allow_expired:
            return Answer(ok=False, reason=f"{reason}; --allow-expired accepts it and says so in results")
        self._expired = True
        return Answer(ok=True, reason=f"{reason}: accepted by --allow-expired")


def parse_documents(roots: tuple[bytes, ...], index: bytes) -> tuple[list[RootDocument], IndexDocument]:
    """Return documents as their authors hold them, unchecked but for their form."""
    if not roots:
        raise InputError("expected at least one root", where="suite")
    return [parse_root(data, where=f"root {n}") for n, data in enumerate(roots, start=1)], parse_index(index)
