"""The verbs of a suite's authors: create, update, revoke, rotate, sign."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from packager.api.place import (
    ATTEST_PUBLIC_KEY,
    RELEASE_KEY,
    RELEASE_PUBLIC_KEY,
    SUITE_ROOT_KEY,
    SUITE_ROOT_PUBLIC_KEY,
    Place,
)
from packager.api.suite_state import SuiteState, current_suite, reference_of, state_of
from packager.api.trusted import (
    SUITES,
    refuse_unverified,
    seen_path,
)
from packager.base.errors import InputError, UsageError
from packager.base.files import full_disk_trouble, is_there

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from packager.oci.record import ImageRecord
    from packager.store.store import Store
    from packager.trust.keys import PrivateKey
    from packager.trust.roots import RoleKeys, RootDocument
    from packager.trust.suite_index import IndexDocument, ListedImage, SuiteContents

EXPIRES_DAYS = 180
ROOT_EXPIRES_DAYS = 730
_OWN = {"root": SUITE_ROOT_PUBLIC_KEY, "release": RELEASE_PUBLIC_KEY, "attest": ATTEST_PUBLIC_KEY}


@dataclass(frozen=True)
class RoleChoice:
    """Who is to have a role and how many of them must sign; nothing: those who have it, or the keys folder's own."""

    public_keys: tuple[Path, ...] = ()
    threshold: int | None = None


@dataclass(frozen=True)
class SuiteRequest:
    """What a suite is to become: roles, tasks to list as they are in the store, days until it expires, who signs."""

    home: str | None = None
    tasks: tuple[str, ...] = ()
    roles: Mapping[str, RoleChoice] = field(default_factory=dict)
    expires_days: int = EXPIRES_DAYS
    root_expires_days: int = ROOT_EXPIRES_DAYS
    signing_keys: tuple[Path, ...] = ()


@full_disk_trouble("suite create")
def create_suite(place: Place, name: str, request: SuiteRequest, *, now: datetime | None = None) -> SuiteState:
    """Make the first root and the first index of a suite, signed by the keys at hand."""
    from packager.seal.identities import parse_name
    from packager.trust.roots import make_root
    from packager.trust.seen import format_time
    from packager.trust.suite_index import SuiteContents

    store, time = place.store(), now or datetime.now(UTC)
    parse_name(name, where="suite")
    if store.name(SUITES, name) is not None or is_there(seen_path(place, name)):
        raise InputError("there is such a suite already", where=name, hint=f"wideswe-pack suite update {name}")
    if request.home is None:
        raise UsageError("a suite needs a home", hint="--home REGISTRY/NAMESPACE")
    from packager.trust.export import check_scope

    root = make_root(name, 1, _after(time, request.root_expires_days), _roles(place, request, {}))
    expires = _after(time, request.expires_days)
    contents = SuiteContents(name, check_scope(request.home), 1, expires, format_time(time))
    contents = replace(contents, images=_listed(place, request.tasks, root))
    return _save(place, [root], contents, request.signing_keys)


@full_disk_trouble("suite update")
def update_suite(place: Place, name: str, request: SuiteRequest, *, now: datetime | None = None) -> SuiteState:
    """Make the next version of a suite's index: the tasks named are listed as they are in the store, others stay."""
    roots, index = current_suite(place, name)
    listed = _listed(place, request.tasks, roots[-1])
    paths = {image.path for image in listed}
    images = (*(image for image in index.contents.images if image.path not in paths), *listed)
    revoked = {image.manifest for image in index.contents.revoked}
    again = next((image for image in listed if image.manifest in revoked), None)
    if again is not None:
        raise InputError(f"{again.manifest} was revoked and cannot be listed again", where=again.task)
    return _save(place, roots, _next(index, request, now, images=images), request.signing_keys)


@full_disk_trouble("suite revoke")
def revoke_image(  # noqa: PLR0913 - the words of one command
    place: Place, name: str, what: str, reason: str, request: SuiteRequest, *, now: datetime | None = None
) -> SuiteState:
    """Make the next version of a suite's index without an image, a task or a digest, and say why."""
    from packager.base.digests import parse_digest
    from packager.trust.suite_index import RevokedImage

    roots, index = current_suite(place, name)
    contents = index.contents
    gone = [image for image in contents.images if what in (image.task, image.manifest)]
    digests = [image.manifest for image in gone] or ([parse_digest(what)] if what.startswith("sha256:") else [])
    if not digests:
        raise InputError(f"the suite lists no task {what[:80]!r}", where=name, hint="name a task or a digest")
    rows = tuple(RevokedImage(digest, contents.version + 1, reason) for digest in digests)
    images = tuple(image for image in contents.images if image not in gone)
    known = tuple(image for image in contents.revoked if image.manifest not in digests)
    following = _next(index, request, now, images=images)
    return _save(place, roots, replace(following, revoked=(*known, *rows)), request.signing_keys)


@full_disk_trouble("suite rotate")
def rotate_root(place: Place, name: str, request: SuiteRequest, *, now: datetime | None = None) -> SuiteState:
    """Make the next root, with other keys or a later expiry, and an index signed under it."""
    from packager.trust.roots import make_root

    roots, index = current_suite(place, name)
    last, time = roots[-1], now or datetime.now(UTC)
    roles = _roles(place, request, last.roles)
    following = make_root(name, last.version + 1, _after(time, request.root_expires_days), roles)
    return _save(place, [*roots, following], _next(index, request, now), request.signing_keys)


@full_disk_trouble("suite sign")
def sign_suite(place: Place, name: str, request: SuiteRequest) -> SuiteState:
    """Add the signatures of more keys to a suite's newest root and index; nothing else changes."""
    roots, index = current_suite(place, name)
    return _sign_and_keep(place, roots, index, request.signing_keys)


def _next(
    index: IndexDocument, request: SuiteRequest, now: datetime | None, images: Iterable[ListedImage] | None = None
) -> SuiteContents:
    from packager.trust.seen import format_time

    time, contents = now or datetime.now(UTC), index.contents
    return replace(
        contents,
        version=contents.version + 1,
        home=request.home or contents.home,
        expires=_after(time, request.expires_days),
        issued=format_time(time),
        chain=(*contents.chain, index.digest),
        images=contents.images if images is None else tuple(images),
    )


def _save(
    place: Place, roots: Sequence[RootDocument], contents: SuiteContents, signing_keys: Sequence[Path]
) -> SuiteState:
    from packager.trust.suite_index import make_index

    return _sign_and_keep(place, roots, make_index(contents), signing_keys)


def _sign_and_keep(
    place: Place, roots: Sequence[RootDocument], index: IndexDocument, signing_keys: Sequence[Path]
) -> SuiteState:
    from packager.oci.record import ImageRecord, format_record
    from packager.trust.roots import add_signature, parse_root
    from packager.trust.suite import SuiteDocuments
    from packager.trust.suite_artifact import put_suite
    from packager.trust.suite_index import parse_index

    keys = _signing_keys(place, signing_keys)
    last = roots[-1]
    before = roots[-2].roles["root"].keys if len(roots) > 1 else ()
    for key in keys:
        if key.public in (*last.roles["root"].keys, *before):
            last = parse_root(add_signature(last.metadata, key))
        if key.public in last.roles["release"].keys:
            index = parse_index(add_signature(index.metadata, key))
    whole = [*roots[:-1], last]
    store = place.store()
    with store.lease():
        artifact = put_suite(SuiteDocuments(tuple(root.data for root in whole), index.data), store)
        record = _sign_artifact(ImageRecord(artifact), index, keys, store)
        store.set_name(SUITES, index.contents.suite, format_record(record))
    return state_of(whole, index)


def _sign_artifact(record: ImageRecord, index: IndexDocument, keys: Sequence[PrivateKey], store: Store) -> ImageRecord:
    """Sign the artifact in cosign's forms, too, so that stock tools can check where it comes from."""
    from packager.trust.signatures import sign_image

    releaser = next((key for key in keys if _is_releaser(index, key)), None)
    if releaser is None:
        return record
    return sign_image(record.manifest, reference_of(index.contents), releaser, store).added_to(record)


def _is_releaser(index: IndexDocument, key: PrivateKey) -> bool:
    from packager.trust.roots import tuf_key

    return tuf_key(key.public).keyid in index.metadata.signatures


def _signing_keys(place: Place, named: Sequence[Path]) -> list[PrivateKey]:
    paths = [place.keys / name for name in (SUITE_ROOT_KEY, RELEASE_KEY)]
    return [place.private_key(path) for path in (*(path for path in paths if is_there(path)), *named)]


def _roles(place: Place, request: SuiteRequest, before: Mapping[str, RoleKeys]) -> dict[str, RoleKeys]:
    from packager.trust.keyfiles import read_public_key
    from packager.trust.roots import ROLES, RoleKeys

    found: dict[str, RoleKeys] = {}
    for role in ROLES:
        choice, known = request.roles.get(role, RoleChoice()), before.get(role)
        if choice.public_keys or known is None:
            paths = choice.public_keys or (place.keys / _OWN[role],)
            keys = tuple(read_public_key(path) for path in paths)
        else:
            keys = known.keys
        threshold = choice.threshold or (known.threshold if known else 1)
        try:
            found[role] = RoleKeys(keys, threshold)
        except InputError as error:
            raise InputError(error.reason, where=f"role {role}") from error
    return found


def _listed(place: Place, tasks: Sequence[str], root: RootDocument) -> tuple[ListedImage, ...]:
    return tuple(_list_image(place, task, root) for task in tasks)


def _list_image(place: Place, task: str, root: RootDocument) -> ListedImage:
    """Return an image as the index lists it; one that a release key has not signed is refused."""
    from packager.base.digests import digest_of
    from packager.evaluate.judge import read_image
    from packager.trust.marks import Memory
    from packager.trust.signature_checks import published_name
    from packager.trust.suite_index import ListedImage
    from packager.trust.verify import Demands, verify_demands

    store, record = place.store(), place.record(task)
    demands = Demands(root.roles["release"].keys, task=task)
    refuse_unverified(verify_demands(record, demands, Memory(store, recall=True)), task)
    image = read_image(store, record)
    return ListedImage(
        task,
        f"{image.config.os}/{image.config.architecture}",
        record.manifest.digest,
        record.manifest.size,
        digest_of(image.config_bytes),
        digest_of(image.sealed(store)),
        published_name(record, root.roles["release"].keys, store),
    )


def _after(time: datetime, days: int) -> datetime:
    return (time + timedelta(days=days)).replace(microsecond=0)
