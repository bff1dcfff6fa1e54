"""What a trust policy asks of one image beside its signatures: listed, not revoked, validated, rebuilt by others.

A statement counts if its signature is by a key of the right role, it is of the right type, and it is about this image;
all three of the same statement (GHSA-vjxv-45g9-9296). What is attached by others is passed over. A statement by the
right key that says no is a no, whatever else is attached. That something is not there proves nothing: revocations stand
in the suite's index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.trust.attestations import REBUILD_PREDICATE, RESULT_PREDICATE, attached
from packager.trust.checks import Answer
from packager.trust.signature_checks import MAX_REFERRERS
from packager.trust.validation import Validated, parse_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.oci.record import ImageRecord
    from packager.store.store import Store
    from packager.trust.dsse import Statement
    from packager.trust.keys import PublicKey
    from packager.trust.policy import SuitePolicy
    from packager.trust.suite import Suite

REPRODUCED = "REPRODUCED"


@dataclass(frozen=True)
class PolicyChecks:
    """One image held against a suite that is trusted and the policy of a lab."""

    record: ImageRecord
    store: Store
    suite: Suite
    policy: SuitePolicy
    builders: tuple[PublicKey, ...] = ()

    def steps(self, task: str) -> Iterator[tuple[str, Callable[[], Answer]]]:
        """Yield what is asked of the image of a task."""
        yield "listed", lambda: self.check_listed(task)
        if self.policy.validated:
            yield "validated", self.check_validated
        if self.policy.reproduced:
            yield "reproduced", self.check_reproduced

    def check_listed(self, task: str) -> Answer:
        """Check that the index names exactly this image for the task, and does not revoke it."""
        contents, digest = self.suite.index.contents, self.record.manifest.digest
        version = f"{contents.suite} version {contents.version}"
        gone = next((image for image in contents.revoked if image.manifest == digest), None)
        if gone is not None:
            return Answer(ok=False, reason=f"revoked since version {gone.since}: {gone.reason[:400]}")
        named = {image.manifest: image for image in contents.images if image.task == task}
        if not named:
            return Answer(ok=False, reason=f"{version} has no image of {task}")
        found = named.get(digest)
        if found is None or found.size != self.record.manifest.size:
            return Answer(ok=False, reason=f"{version} names {', '.join(sorted(named))} for {task}, found {digest}")
        return Answer(ok=True, reason=f"{version} names it, {found.reference}")

    def check_validated(self) -> Answer:
        """Check that enough attestation keys say that base fails and gold passes, and none says otherwise."""
        said = self._statements(RESULT_PREDICATE, self.suite.attest_keys)
        results = [(parse_result(statement.predicate), key) for statement, key in said]
        failed = next((result for result, _ in results if not isinstance(result, Validated)), None)
        if failed is not None:
            return Answer(ok=False, reason=f"an attestation key says that its test-result is {failed}")
        signers = {key.der for _, key in results}
        wanted = max(self.policy.attest, self.suite.root.roles["attest"].threshold)
        if len(signers) < wanted:
            return Answer(ok=False, reason=f"expected a test-result by {wanted} attestation keys, found {len(signers)}")
        least = min(result.runs for result, _ in results if isinstance(result, Validated))
        return Answer(ok=True, reason=f"validated in {least} runs, said by {len(signers)} attestation keys")

    def check_reproduced(self) -> Answer:
        """Check that enough builders say that they rebuilt it, and none says that it came out otherwise."""
        said = self._statements(REBUILD_PREDICATE, self.builders)
        failed = [statement for statement, _ in said if statement.predicate.get("result") != REPRODUCED]
        if failed:
            result = str(failed[0].predicate.get("result"))[:40]
            return Answer(ok=False, reason=f"a builder says that its rebuild is {result}")
        builders = {key.der for _, key in said}
        if len(builders) < self.policy.reproduced:
            reason = f"expected rebuilds by {self.policy.reproduced} builders, found {len(builders)}"
            return Answer(ok=False, reason=reason)
        return Answer(ok=True, reason=f"rebuilt by {len(builders)} builders")

    def _statements(self, predicate_type: str, keys: Sequence[PublicKey]) -> list[tuple[Statement, PublicKey]]:
        found: list[tuple[Statement, PublicKey]] = []
        for number, (_, envelope, said) in enumerate(attached(self.record, self.store)):
            if number >= MAX_REFERRERS:
                break
            signer = next((key for key in keys if key.verifies(envelope.signature, envelope.signed)), None)
            if signer is not None and said.predicate_type == predicate_type:
                found.append((said, signer))
        return found
