"""Whom a command believes: public keys that are named, or a trust policy and the suite that it pins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.api.place import RELEASE_PUBLIC_KEY, Place
from packager.base.canonical import LIMIT_BYTES
from packager.base.errors import InputError, IntegrityError, TrustError, UsageError
from packager.base.files import is_there
from packager.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from packager.oci.record import ImageRecord
    from packager.store.store import Store
    from packager.trust.checks import Check
    from packager.trust.keys import PublicKey
    from packager.trust.marks import Memory
    from packager.trust.policy import SuitePolicy
    from packager.trust.suite import Suite, SuiteDocuments
    from packager.trust.verify import Demands

POLICY = "trust.yaml"
SUITES = "suites"
"""Kind of the records of suites in the store, and the folder beside the keys that remembers what was seen of them."""


_TRUST_CHECKS = ("legacy signature", "bundle signature", "suite", "listed", "validated", "reproduced")


@dataclass(frozen=True)
class Trust:
    """What the command line says of trust; nothing: the policy in the keys folder, else the release key there."""

    public_keys: tuple[str, ...] = ()
    policy: Path | None = None
    suite: str | None = None
    allow_expired: bool = False
    identity: str | None = None

    def policy_path(self, place: Place) -> Path | None:
        """Return the policy to go by, if any."""
        if self.public_keys and self.policy is not None:
            raise UsageError("--key and --policy exclude each other: the policy says which keys count")
        if self.public_keys or self.policy is not None:
            return self.policy
        return place.keys / POLICY if is_there(place.keys / POLICY) else None


@dataclass(frozen=True)
class Verified:
    """The checks of one image, and the suite by which it was judged, if any."""

    checks: tuple[Check, ...]
    suite: Suite | None = None

    def binding(self) -> dict[str, Any] | None:
        """Return what a result says of the suite, so that two labs can compare."""
        if self.suite is None:
            return None
        contents = self.suite.index.contents
        return {
            "name": contents.suite,
            "version": contents.version,
            "digest": self.suite.index.digest,
            "expired": self.suite.expired,
        }


@dataclass(frozen=True)
class ImageQuestion:
    """Whether a record's image is the task's, by the trust that the command line gives."""

    place: Place
    record: ImageRecord
    task: str
    trust: Trust

    def ask(self, *, recall: bool = False, progress: Progress = silent) -> Verified:
        """Run the checks; with `recall`, layers whose files are unchanged are not read again."""
        from packager.trust.marks import Memory
        from packager.trust.verify import Demands

        memory = Memory(self.place.store(), recall=recall, progress=progress)
        path = self.trust.policy_path(self.place)
        if path is not None:
            return self._ask_policy(path, memory)
        keys = tuple(trusted_keys(self.place, self.trust.public_keys))
        return self._verified(Demands(keys, self.trust.identity, self.task), memory)

    def _ask_policy(self, path: Path, memory: Memory) -> Verified:
        from packager.trust.checks import Check
        from packager.trust.policy import read_policy

        policy = read_policy(path).of(self.trust.suite, where=str(path))
        checks, suite = check_suite(self.place, policy, allow_expired=self.trust.allow_expired)
        if suite is None:
            last = checks[-1]
            return Verified((Check(1, "suite", ok=False, reason=f"{last.name}: {last.reason}"),))
        return self._verified(self._demands(memory.store, policy, suite), memory, suite)

    def _verified(self, demands: Demands, memory: Memory, suite: Suite | None = None) -> Verified:
        from packager.trust.verify import verify_demands

        return Verified(tuple(verify_demands(self.record, demands, memory)), suite)

    def _demands(self, store: Store, policy: SuitePolicy, suite: Suite) -> Demands:
        from packager.trust.checks import Answer
        from packager.trust.image_policy import PolicyChecks
        from packager.trust.keyfiles import read_public_key
        from packager.trust.verify import Demands

        contents = suite.index.contents
        state = "expired, accepted by --allow-expired" if suite.expired else f"good until {contents.expires:%Y-%m-%d}"
        said = f"{contents.suite} version {contents.version}, {suite.index.digest}, {state}"
        builders = tuple(read_public_key(builder) for builder in policy.builders)
        held = PolicyChecks(self.record, store, suite, policy, builders)
        steps = (("suite", lambda: Answer(ok=True, reason=said)), *held.steps(self.task))
        return Demands(suite.release_keys, self.trust.identity, self.task, policy.release, steps)


def refuse_unverified(checks: Sequence[Check], task: str) -> None:
    """Raise the error of the first check that is a no: TrustError for signatures, IntegrityError for bytes."""
    failed = next((check for check in checks if not check.ok), None)
    if failed is None and checks:
        return
    if failed is None:
        raise TrustError("nothing was verified", where=task)
    kind = TrustError if failed.name in _TRUST_CHECKS else IntegrityError
    hint = "wideswe-pack verify shows every check; pull (or build and sign) the image again"
    raise kind(f"check {failed.number}, {failed.name}: {failed.reason}", where=task, hint=hint)


def check_suite(
    place: Place, policy: SuitePolicy, *, allow_expired: bool = False, now: datetime | None = None
) -> tuple[list[Check], Suite | None]:
    """Check the suite in the store against its policy and what was seen of it, and remember what is good."""
    from datetime import UTC, datetime

    from packager.trust.seen import read_seen, write_seen
    from packager.trust.suite import Circumstances, trust_suite

    store, time = place.store(), now or datetime.now(UTC)
    path = seen_path(place, policy.name)
    documents = read_suite(store, suite_record(store, policy.name))
    with store.lock(f"suite:{policy.name}"):
        before = read_seen(path)
        around = Circumstances(time, before, allow_expired)
        checks, suite = trust_suite(documents, policy.name, policy.root, around)
        if suite is not None:
            write_seen(path, suite.seen(time, before))
    return checks, suite


def seen_path(place: Place, name: str) -> Path:
    """Return the file that remembers what was seen of a suite."""
    return place.keys / SUITES / f"{name}.seen.json"


def suite_record(store: Store, name: str) -> ImageRecord:
    """Return what the store knows of a suite."""
    from packager.oci.record import parse_record

    data = store.name(SUITES, name)
    if data is None:
        hint = "wideswe-pack suite pull REGISTRY/NAMESPACE/NAME-suite:latest (authors: wideswe-pack suite create)"
        raise InputError("there is no such suite in the store", where=name, hint=hint)
    return parse_record(data, where=f"suite {name}")


def read_suite(store: Store, record: ImageRecord) -> SuiteDocuments:
    """Return the documents of a suite's artifact, unchecked."""
    from packager.trust.roots import LIMIT_BYTES as DOCUMENT_LIMIT_BYTES
    from packager.trust.suite import SuiteDocuments
    from packager.trust.suite_artifact import split_layers

    manifest = store.read(record.manifest.digest, LIMIT_BYTES)
    roots, index = split_layers(manifest, where=f"suite {record.manifest.digest}")
    read = [store.read(layer.digest, DOCUMENT_LIMIT_BYTES) for layer in (*roots, index)]
    return SuiteDocuments(tuple(read[:-1]), read[-1])


def trusted_keys(place: Place, public_keys: Sequence[str]) -> list[PublicKey]:
    """Return the named public keys, or the release key in the keys folder; none at all is an InputError."""
    from packager.trust.keyfiles import read_public_key

    paths = [Path(path) for path in public_keys] or [place.keys / RELEASE_PUBLIC_KEY]
    missing = [path for path in paths if not is_there(path)]
    if missing:
        raise InputError("there is no public key to verify with", where=str(missing[0]), hint="--key FILE")
    return [read_public_key(path) for path in paths]
