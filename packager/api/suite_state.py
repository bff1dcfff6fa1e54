"""The verbs that read and carry suites: show, verify, push, pull."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packager.api.trusted import SUITES, Trust, check_suite, read_suite, seen_path, suite_record
from packager.base.errors import InputError, TrustError
from packager.base.files import full_disk_trouble
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.api.place import Place
    from packager.oci.record import ImageRecord
    from packager.trust.checks import Check
    from packager.trust.roots import RootDocument
    from packager.trust.suite_index import IndexDocument, SuiteContents

_SIGN_HINT = "the holders of the other keys run wideswe-pack suite sign NAME --signing-key FILE"


@dataclass(frozen=True)
class SuiteState:
    """A suite in the store: versions, digests, and whether enough keys have signed."""

    suite: str
    version: int
    digest: str
    root_version: int
    root: str
    images: int
    revoked: int
    expires: str
    reference: str
    signed: bool
    signatures: tuple[str, ...]


def verify_suite(place: Place, name: str | None, trust: Trust, *, now: datetime | None = None) -> list[Check]:
    """Check the suite in the store by the trust policy; a list that ends in yes or at the first no."""
    from packager.trust.policy import read_policy

    path = trust.policy_path(place)
    if path is None:
        hint = "wideswe-pack trust export --format trust.yaml writes one; compare the root's digest with the authors"
        raise InputError("there is no trust policy to verify a suite with", where=str(place.keys), hint=hint)
    policy = read_policy(path).of(name or trust.suite, where=str(path))
    return check_suite(place, policy, allow_expired=trust.allow_expired, now=now)[0]


def suite_tasks(place: Place, name: str) -> tuple[str, ...]:
    """Return the tasks that a suite in the store lists."""
    _, index = current_suite(place, name, careful=False)
    return tuple(sorted({image.task for image in index.contents.images}))


def show_suite(place: Place, name: str) -> SuiteState:
    """Return what the store has of a suite, unchecked."""
    roots, index = current_suite(place, name, careful=False)
    return state_of(roots, index)


@full_disk_trouble("suite push")
def push_suite(place: Place, name: str, *, namespace: str, progress: Progress = silent) -> str:
    """Push a suite under its version and under `latest`; one that too few have signed stays here."""
    from packager.api.ship import bare_home
    from packager.oci.reference import parse_reference
    from packager.registry.push import Manner, push_image

    store = place.store()
    record, state = suite_record(store, name), show_suite(place, name)
    if not state.signed:
        raise TrustError(f"not signed by enough keys: {'; '.join(state.signatures)}", where=name, hint=_SIGN_HINT)
    repository = f"{bare_home(namespace)}/{name}-suite"
    for tag in (f"v{state.version}", "latest"):
        reference = parse_reference(f"{repository}:{tag}")
        push_image(store, record, reference, progress=progress, manner=Manner(insecure=place.plain(reference.registry)))
    return f"{repository}:v{state.version}"


@full_disk_trouble("suite pull")
def pull_suite(place: Place, reference: str, trust: Trust, *, progress: Progress = silent) -> SuiteState:
    """Pull a suite; by a trust policy, one that is not to be believed or is older does not replace what is here."""
    from packager.api.ship import bare_home
    from packager.oci.reference import parse_reference
    from packager.registry.pull import pull_image

    store = place.store()
    parsed = parse_reference(bare_home(reference))
    with store.lease():
        record = pull_image(parsed, store, progress=progress, insecure=place.plain(parsed.registry))
        return accept_suite(place, record, trust)


def accept_suite(place: Place, record: ImageRecord, trust: Trust) -> SuiteState:
    """Make a suite's artifact, which is in the store, the suite there; what the trust policy disbelieves is refused."""
    from packager.oci.record import format_record
    from packager.trust.suite import parse_documents

    store = place.store()
    documents = read_suite(store, record)
    roots, index = parse_documents(documents.roots, documents.index)
    name = index.contents.suite
    _refuse_disbelieved(place, record, name, trust)
    store.set_name(SUITES, name, format_record(record))
    return state_of(roots, index)


def _refuse_disbelieved(place: Place, record: ImageRecord, name: str, trust: Trust) -> None:
    from packager.trust.policy import read_policy
    from packager.trust.seen import read_seen
    from packager.trust.suite import Circumstances, trust_suite

    path = trust.policy_path(place)
    policy = None if path is None else read_policy(path).suites.get(name)
    if policy is None:
        return
    around = Circumstances(datetime.now(UTC), read_seen(seen_path(place, name)), trust.allow_expired)
    checks, suite = trust_suite(read_suite(place.store(), record), name, policy.root, around)
    if suite is None:
        raise TrustError(f"check {checks[-1].number}, {checks[-1].name}: {checks[-1].reason}", where=f"suite {name}")


def current_suite(place: Place, name: str, *, careful: bool = True) -> tuple[list[RootDocument], IndexDocument]:
    """Return a suite's documents; with `careful`, one older than what this machine has seen is not built upon."""
    from packager.trust.seen import read_seen
    from packager.trust.suite import parse_documents

    store = place.store()
    documents = read_suite(store, suite_record(store, name))
    roots, index = parse_documents(documents.roots, documents.index)
    seen = read_seen(seen_path(place, name)) if careful else None
    if seen is not None and index.contents.version < seen.version:
        reason = f"the store has version {index.contents.version}, but version {seen.version} was seen"
        raise TrustError(
            reason, where=name, hint="wideswe-pack suite pull, then again: two versions would fork the suite"
        )
    return roots, index


def reference_of(contents: SuiteContents) -> str:
    """Return the published name of a version of a suite."""
    return f"{contents.home}/{contents.suite}-suite:v{contents.version}"


def state_of(roots: Sequence[RootDocument], index: IndexDocument) -> SuiteState:
    """Return what documents say, and whether enough keys have signed them."""
    from packager.trust.roots import signed_by_enough
    from packager.trust.seen import format_time
    from packager.trust.suite_index import index_signed_by_enough

    contents, last = index.contents, roots[-1]
    answers = [signed_by_enough(root, roots[place - 1] if place else None) for place, root in enumerate(roots)]
    signatures = [(f"root {root.version}", *answer) for root, answer in zip(roots, answers, strict=True)]
    signatures.append((f"version {contents.version}", *index_signed_by_enough(index, last)))
    return SuiteState(
        suite=contents.suite,
        version=contents.version,
        digest=index.digest,
        root_version=last.version,
        root=roots[0].digest,
        images=len(contents.images),
        revoked=len(contents.revoked),
        expires=format_time(contents.expires),
        reference=reference_of(contents),
        signed=all(ok for _, ok, _ in signatures),
        signatures=tuple(f"{what} {reason}" for what, _, reason in signatures),
    )
