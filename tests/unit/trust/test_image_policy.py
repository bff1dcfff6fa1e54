"""What a policy asks of one image: each statement counts only if key, type and subject are right, all in one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.digests import Digest, digest_of
from packager.base.errors import InputError, UsageError
from packager.oci.descriptor import Descriptor, describe
from packager.oci.manifest import EMPTY_DESCRIPTOR, MEDIA_MANIFEST, Manifest, format_manifest, parse_manifest
from packager.trust import dsse
from packager.trust.attestations import (
    REBUILD_PREDICATE,
    RESULT_PREDICATE,
    SBOM_PREDICATE,
    attach_statement,
    attached,
    format_statement,
)
from packager.trust.image_policy import PolicyChecks
from packager.trust.policy import SuitePolicy
from packager.trust.signatures import sign_image, sign_statement, signature_tag
from packager.trust.suite import Suite
from packager.trust.suite_index import ListedImage, RevokedImage
from packager.trust.validation import TargetCounts, Validated, make_result, parse_result
from tests.support.sealed_images import KEY, REFERENCE, SealedImage, build_image, fixed_key
from tests.support.trust_suites import ATTESTS, ROLES, STRANGER, first_index, first_root, role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.oci.record import ImageRecord
    from packager.trust.checks import Answer
    from packager.trust.keys import PrivateKey

TASK = "hello-wide-001"
SEALED = digest_of(b"sealed")
PASSED = make_result(Validated(3, {"greeter": TargetCounts(2, 5)}), sealed=SEALED)
BUILDERS = (fixed_key(41), fixed_key(42))


@dataclass(frozen=True)
class Case:
    image: SealedImage
    record: ImageRecord

    @property
    def digest(self) -> Digest:
        return self.record.manifest.digest

    def said(self, predicate: dict[str, Any], key: PrivateKey, kind: str = RESULT_PREDICATE) -> Case:
        statement = format_statement(TASK, self.digest, kind, predicate)
        return replace(self, record=attach_statement(self.record, statement, key, self.image.store))

    def pushed(self, statement: bytes, key: PrivateKey, kind: str = RESULT_PREDICATE) -> Case:
        """Attach a statement as anybody who may push can: nothing of it is looked at."""
        bundle = sign_statement(self.record.manifest, statement, kind, key=key, store=self.image.store)
        return replace(self, record=replace(self.record, referrers=(*self.record.referrers, bundle)))

    def policy(self, *, attests: Sequence[PrivateKey] = ATTESTS[:1], threshold: int = 1, **asked: Any) -> PolicyChecks:
        root = first_root({**ROLES, "attest": role(attests, threshold)})
        manifest = self.record.manifest
        image = ListedImage(TASK, "linux/amd64", manifest.digest, manifest.size, SEALED, SEALED, REFERENCE)
        suite = Suite(root, first_index(images=asked.pop("images", (image,)), revoked=asked.pop("revoked", ())))
        builders = tuple(key.public for key in BUILDERS)
        return PolicyChecks(self.record, self.image.store, suite, SuitePolicy("small", root.digest, **asked), builders)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Case:
    image = build_image(tmp_path_factory.mktemp("policy"))
    return Case(image, image.record)


def test_an_image_that_the_index_names_is_listed(made: Case) -> None:
    answer = made.policy().check_listed(TASK)
    assert (answer.ok, answer.reason) == (True, f"small version 1 names it, {REFERENCE}")


def test_an_image_of_another_version_is_mix_and_match(made: Case) -> None:
    """CVE-2024-23332 (notation): an old artifact with a good signature in the place of the current one."""
    other = ListedImage(TASK, "linux/amd64", SEALED, 8, SEALED, SEALED, REFERENCE)
    answer = made.policy(images=(other,)).check_listed(TASK)
    assert (answer.ok, answer.reason) == (False, f"small version 1 names {SEALED} for {TASK}, found {made.digest}")


def test_an_image_under_another_task_of_the_same_suite_is_refused(made: Case) -> None:
    """GHSA-xhg5-42rf-296r (notation): the right signature, the wrong artifact."""
    manifest = made.record.manifest
    image = ListedImage("other", "linux/amd64", manifest.digest, manifest.size, SEALED, SEALED, REFERENCE)
    answer = made.policy(images=(image,)).check_listed(TASK)
    assert (answer.ok, answer.reason) == (False, f"small version 1 has no image of {TASK}")


def test_a_size_that_is_not_the_listed_one_is_refused(made: Case) -> None:
    manifest = made.record.manifest
    image = ListedImage(TASK, "linux/amd64", manifest.digest, manifest.size + 1, SEALED, SEALED, REFERENCE)
    assert not made.policy(images=(image,)).check_listed(TASK).ok


def test_a_revoked_image_says_why_even_if_it_is_still_listed(made: Case) -> None:
    answer = made.policy(revoked=(RevokedImage(made.digest, 7, "a test was flaky"),)).check_listed(TASK)
    assert (answer.ok, answer.reason) == (False, "revoked since version 7: a test was flaky")


def validated(case: Case, **asked: Any) -> tuple[bool, str]:
    answer: Answer = case.policy(**asked).check_validated()
    return answer.ok, answer.reason


NONE = (False, "expected a test-result by 1 attestation keys, found 0")


def test_a_test_result_by_the_attestation_key_counts(made: Case) -> None:
    assert validated(made.said(PASSED, ATTESTS[0])) == (True, "validated in 3 runs, said by 1 attestation keys")


def test_nothing_attached_is_no_validation(made: Case) -> None:
    assert validated(made) == NONE


def test_a_failed_test_result_by_the_right_key_is_a_no(made: Case) -> None:
    """Report 7: stock `cosign verify --key` is content with any statement by the key, whatever it says."""
    failed = made.said({**PASSED, "result": "FAILED"}, ATTESTS[0])
    assert validated(failed) == (False, "an attestation key says that its test-result is FAILED")


def test_a_pass_does_not_outweigh_a_fail_by_another_key(made: Case) -> None:
    both = made.said(PASSED, ATTESTS[0]).said({**PASSED, "result": "FAILED"}, ATTESTS[1])
    assert validated(both, attests=ATTESTS) == (False, "an attestation key says that its test-result is FAILED")


@pytest.mark.parametrize("result", ["WARNED", "passed", "", None, 1, ["PASSED"]])
def test_any_other_result_is_no_pass(made: Case, result: object) -> None:
    assert not validated(made.said({**PASSED, "result": result}, ATTESTS[0]))[0]


@pytest.mark.parametrize("key", [KEY, STRANGER, BUILDERS[0]], ids=["release key", "stranger", "builder"])
def test_a_test_result_by_a_key_of_another_role_is_passed_over(made: Case, key: PrivateKey) -> None:
    assert validated(made.said(PASSED, key)) == NONE


def test_a_statement_of_another_type_by_the_right_key_is_no_test_result(made: Case) -> None:
    """GHSA-vjxv-45g9-9296 (cosign): any valid attestation satisfied a question for a type."""
    both = made.said({"spdxVersion": "SPDX-2.3"}, ATTESTS[0], SBOM_PREDICATE).said(PASSED, STRANGER)
    assert validated(both) == NONE


def test_the_type_inside_counts_and_not_the_one_outside(made: Case) -> None:
    """GHSA-w6c6-c85g-mmv6 (cosign): annotation and statement disagree."""
    sbom = format_statement(TASK, made.digest, SBOM_PREDICATE, PASSED)
    assert validated(made.pushed(sbom, ATTESTS[0], RESULT_PREDICATE)) == NONE
    result = format_statement(TASK, made.digest, RESULT_PREDICATE, PASSED)
    assert validated(made.pushed(result, ATTESTS[0], SBOM_PREDICATE))[0]


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"null", b'"PASSED"', b"\xff", b'{"_type":1}'])
def test_a_malformed_payload_with_a_good_signature_is_nothing(made: Case, payload: bytes) -> None:
    """GHSA-w6c6-c85g-mmv6 (cosign): a payload that could not be read was reported as verified."""
    assert validated(made.pushed(payload, ATTESTS[0])) == NONE


def test_a_statement_about_another_image_is_nothing_here(made: Case) -> None:
    """GHSA-whqx-f9j3-ch6m (cosign): a valid entry that belongs to something else."""
    other = format_statement(TASK, digest_of(b"another image"), RESULT_PREDICATE, PASSED)
    assert validated(made.pushed(other, ATTESTS[0])) == NONE


def test_a_signature_that_belongs_to_another_payload_is_nothing(made: Case) -> None:
    """GHSA-8gw7-4j42-w388 (cosign): the signature was checked against something else than what was read."""
    good = made.said(PASSED, ATTESTS[0])
    *_, bundle = good.record.referrers
    manifest = parse_manifest(made.image.store.read(bundle.digest, 1 << 20))
    data = made.image.store.read(manifest.layers[0].digest, 1 << 20)
    envelope = dsse.parse_bundle(data)
    changed = envelope.payload.replace(b'"runs":3', b'"runs":9')
    assert changed != envelope.payload
    forged = dsse.format_bundle(replace(envelope, payload=changed), ATTESTS[0].public)
    layer = made.image.put(manifest.layers[0].media_type, forged)
    stored = made.image.put(MEDIA_MANIFEST, format_manifest(replace(manifest, layers=(layer,))))
    record = replace(good.record, referrers=(*good.record.referrers[:-1], stored))
    assert validated(replace(good, record=record)) == NONE


def test_two_statements_by_one_key_are_one_voice(made: Case) -> None:
    first = format_statement(TASK, made.digest, RESULT_PREDICATE, PASSED)
    more = make_result(Validated(5, {"greeter": TargetCounts(2, 5)}), sealed=SEALED)
    twice = made.pushed(first, ATTESTS[0]).pushed(
        format_statement(TASK, made.digest, RESULT_PREDICATE, more), ATTESTS[0]
    )
    wanted = (False, "expected a test-result by 2 attestation keys, found 1")
    assert validated(twice, attests=ATTESTS, attest=2) == wanted
    assert validated(twice, attests=ATTESTS, threshold=2) == wanted
    both = twice.said(PASSED, ATTESTS[1])
    assert validated(both, attests=ATTESTS, threshold=2) == (True, "validated in 3 runs, said by 2 attestation keys")


@pytest.mark.parametrize(
    "damage",
    [
        {"validation": {}},
        {"validation": {**PASSED["validation"], "goldPasses": False}},
        {"validation": {**PASSED["validation"], "runs": 0}},
        {"validation": {**PASSED["validation"], "runs": True}},
        {"validation": {**PASSED["validation"], "targets": {}}},
        {"validation": {**PASSED["validation"], "targets": {"x": {"failToPass": 0, "passToPass": 1}}}},
        {"validation": {**PASSED["validation"], "targets": {"x": {"failToPass": 1}}}},
        {"validation": {**PASSED["validation"], "targets": {"x": {"failToPass": -1, "passToPass": 1}}}},
    ],
)
def test_a_pass_without_its_evidence_is_no_pass(damage: dict[str, Any]) -> None:
    try:
        assert not isinstance(parse_result({**PASSED, **damage}), Validated)
    except InputError as error:
        assert str(error).startswith("test-result")


def test_rebuilds_count_builders_and_one_that_differs_is_a_no(made: Case) -> None:
    def answer(case: Case, count: int) -> tuple[bool, str]:
        found = case.policy(reproduced=count).check_reproduced()
        return found.ok, found.reason

    one = made.said({"result": "REPRODUCED"}, BUILDERS[0], REBUILD_PREDICATE)
    assert answer(one, 1) == (True, "rebuilt by 1 builders")
    assert answer(one, 2) == (False, "expected rebuilds by 2 builders, found 1")
    again = one.pushed(format_statement("x", made.digest, REBUILD_PREDICATE, {"result": "REPRODUCED"}), BUILDERS[0])
    assert answer(again, 2) == (False, "expected rebuilds by 2 builders, found 1")
    authors = one.said({"result": "REPRODUCED"}, ATTESTS[0], REBUILD_PREDICATE)
    assert answer(authors, 2) == (False, "expected rebuilds by 2 builders, found 1")
    differs = one.said({"result": "DIFFERS"}, BUILDERS[1], REBUILD_PREDICATE)
    assert answer(differs, 1) == (False, "a builder says that its rebuild is DIFFERS")
    both = one.said({"result": "REPRODUCED"}, BUILDERS[1], REBUILD_PREDICATE)
    assert answer(both, 2) == (True, "rebuilt by 2 builders")


def test_what_else_hangs_on_an_image_disturbs_nothing(made: Case) -> None:
    store = made.image.store
    gone = Descriptor(MEDIA_MANIFEST, digest_of(b"gone"), 4)
    junk = made.image.put(MEDIA_MANIFEST, b"no manifest")
    two = Manifest(EMPTY_DESCRIPTOR, (describe("a/b", b"x"),) * 2, artifact_type="a/b")
    strange = made.image.put(MEDIA_MANIFEST, format_manifest(two))
    full = made.said(PASSED, ATTESTS[0])
    record = replace(full.record, referrers=(gone, junk, strange, *full.record.referrers))
    assert validated(replace(full, record=record))[0]
    assert [said.predicate_type for _, _, said in attached(record, store)] == [RESULT_PREDICATE]


def test_saying_it_again_replaces_what_the_same_key_said_of_that_type(made: Case) -> None:
    first = made.said({**PASSED, "result": "FAILED"}, ATTESTS[0]).said({"a": "b"}, ATTESTS[0], SBOM_PREDICATE)
    other = first.said(PASSED, ATTESTS[1])
    again = other.said(PASSED, ATTESTS[0])
    found = [
        (said.predicate_type, said.predicate.get("result")) for _, _, said in attached(again.record, again.image.store)
    ]
    assert found == [(SBOM_PREDICATE, None), (RESULT_PREDICATE, "PASSED"), (RESULT_PREDICATE, "PASSED")]
    assert again.said(PASSED, ATTESTS[0]).record == again.record


def test_the_legacy_tag_says_what_the_bundles_say(made: Case) -> None:
    full = made.said(PASSED, ATTESTS[0]).said({"a": "b"}, ATTESTS[0], SBOM_PREDICATE)
    tag = signature_tag(made.digest, ".att")
    (signature,) = [one for one in full.record.signatures if one.tag == tag]
    layers = parse_manifest(made.image.store.read(signature.manifest.digest, 1 << 20)).layers
    assert [layer.annotations["predicateType"] for layer in layers] == [RESULT_PREDICATE, SBOM_PREDICATE]
    assert {layer.media_type for layer in layers} == {"application/vnd.dsse.envelope.v1+json"}
    assert full.record.signatures[0] == made.record.signatures[0]
    signed_again = sign_image(made.record.manifest, REFERENCE, KEY, made.image.store).added_to(full.record)
    assert sorted(signed_again.signatures, key=lambda one: one.tag) == sorted(
        full.record.signatures, key=lambda one: one.tag
    )
    assert set(signed_again.referrers) == set(full.record.referrers)


def test_the_key_that_attests_never_signs_images(made: Case) -> None:
    with pytest.raises(UsageError) as caught:
        made.said({}, ATTESTS[0], dsse.SIGN_PREDICATE)
    assert str(caught.value) == "an attestation cannot be an image signature\nhint: wideswe-pack sign"
    other = format_statement(TASK, SEALED, SBOM_PREDICATE, {})
    with pytest.raises(InputError) as refused:
        attach_statement(made.record, other, ATTESTS[0], made.image.store)
    assert str(refused.value) == f"it is about another image: {SEALED}, expected {made.digest}"
