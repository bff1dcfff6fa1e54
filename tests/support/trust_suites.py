"""Suites of fixed keys and times, and every way to make the next document of one."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from packager.base.digests import Digest, digest_of
from packager.trust.roots import RoleKeys, RootDocument, add_signature, make_root, parse_root
from packager.trust.suite import Circumstances, Suite, SuiteDocuments, trust_suite
from packager.trust.suite_index import IndexDocument, ListedImage, SuiteContents, make_index, parse_index
from tests.support.sealed_images import fixed_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.trust.checks import Check
    from packager.trust.keys import PrivateKey
    from packager.trust.seen import Seen

NAME = "small"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
YEAR, HALF_YEAR = timedelta(days=365), timedelta(days=180)
ROOTS = tuple(fixed_key(number) for number in (11, 12, 13))
RELEASES = tuple(fixed_key(number) for number in (21, 22))
ATTESTS = tuple(fixed_key(number) for number in (31, 32))
STRANGER = fixed_key(99)


def role(keys: Sequence[PrivateKey], threshold: int = 1) -> RoleKeys:
    return RoleKeys(tuple(key.public for key in keys), threshold)


ROLES = {"root": role(ROOTS, 2), "release": role(RELEASES[:1]), "attest": role(ATTESTS[:1])}


def listed(task: str = "hello-wide-001", manifest: bytes = b"manifest", size: int = 8) -> ListedImage:
    reference = f"registry.example/small/{task}:v1"
    config, sealed = digest_of(b"config"), digest_of(b"sealed")
    return ListedImage(task, "linux/amd64", digest_of(manifest), size, config, sealed, reference)


def signed_root(root: RootDocument, keys: Sequence[PrivateKey]) -> RootDocument:
    for key in keys:
        root = parse_root(add_signature(root.metadata, key))
    return root


def signed_index(index: IndexDocument, keys: Sequence[PrivateKey]) -> IndexDocument:
    for key in keys:
        index = parse_index(add_signature(index.metadata, key))
    return index


def first_root(roles: dict[str, RoleKeys] | None = None, keys: Sequence[PrivateKey] = ROOTS[:2]) -> RootDocument:
    return signed_root(make_root(NAME, 1, NOW + YEAR, roles or ROLES), keys)


def next_root(before: RootDocument, keys: Sequence[PrivateKey], **changes: Any) -> RootDocument:
    roles = {**before.roles, **changes.get("roles", {})}
    version = changes.get("version", before.version + 1)
    return signed_root(make_root(NAME, version, changes.get("expires", NOW + YEAR), roles), keys)


def first_index(keys: Sequence[PrivateKey] = RELEASES[:1], **changes: Any) -> IndexDocument:
    contents = SuiteContents(NAME, "registry.example/small", 1, NOW + HALF_YEAR, "2030-01-01T00:00:00Z", (listed(),))
    return signed_index(make_index(replace(contents, **changes)), keys)


def next_index(before: IndexDocument, keys: Sequence[PrivateKey] = RELEASES[:1], **changes: Any) -> IndexDocument:
    contents = before.contents
    following = {"version": contents.version + 1, "chain": (*contents.chain, before.digest), **changes}
    return signed_index(make_index(replace(contents, **following)), keys)


@dataclass(frozen=True)
class Lab:
    """Somebody who has pinned a root and remembers what was seen."""

    anchor: Digest
    seen: Seen | None = None
    now: datetime = NOW
    allow_expired: bool = False
    name: str = NAME
    found: tuple[Check, ...] = field(default=(), compare=False)

    def look(self, roots: Sequence[RootDocument], index: IndexDocument) -> tuple[list[Check], Suite | None]:
        documents = SuiteDocuments(tuple(root.data for root in roots), index.data)
        around = Circumstances(self.now, self.seen, self.allow_expired)
        return trust_suite(documents, self.name, self.anchor, around)

    def after(self, roots: Sequence[RootDocument], index: IndexDocument) -> Lab:
        """Return the lab once it has seen a suite, which must be good."""
        checks, suite = self.look(roots, index)
        assert suite is not None, checks[-1]
        return replace(self, seen=suite.seen(self.now, self.seen))

    def refusal(self, roots: Sequence[RootDocument], index: IndexDocument) -> tuple[str, str]:
        """Return the name and reason of the no that a suite must end with."""
        checks, suite = self.look(roots, index)
        assert suite is None
        assert [check.ok for check in checks] == [True] * (len(checks) - 1) + [False]
        return checks[-1].name, checks[-1].reason


def edited(data: bytes, *path: str, value: Any) -> bytes:
    """Return JSON with one value changed, its signatures kept."""
    document = json.loads(data)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
