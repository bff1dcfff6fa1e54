"""Suites as authors make them and labs meet them: create, push, pull, update, revoke, rotate, and what is remembered."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from packager import api
from packager.base.errors import InputError, TrustError, UsageError
from packager.oci.record import format_record
from packager.trust.keyfiles import Password, write_key_pair
from packager.trust.seen import read_seen
from tests.support.registry import MemoryRegistry
from tests.support.sealed_images import SealedImage, build_image, fixed_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASK = "hello-wide-001"
HOME = "registry.example/small"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
NOTHING = Password("")


@dataclass(frozen=True)
class Parties:
    author: api.Place
    lab: api.Place
    image: SealedImage
    registry: MemoryRegistry

    def made(self, when: datetime | None = None, **asked: Any) -> api.SuiteState:
        return api.create_suite(self.author, "small", api.SuiteRequest(HOME, (TASK,), **asked), now=when)

    def published(self, trust: api.Trust | None = None) -> None:
        """Push suite and image, let the lab pin the root and pull both."""
        namespace = f"{self.registry.host}/small"
        api.push_suite(self.author, "small", namespace=namespace)
        api.push(self.author, TASK, namespace=namespace)
        policy = api.export_trust(self.author, api.ExportRequest("trust.yaml"), api.Trust(suite="small"))
        self.lab.keys.mkdir(parents=True, exist_ok=True)
        (self.lab.keys / "trust.yaml").write_text(policy.replace("validated: true", "validated: false"))
        self.pulled(trust)

    def pulled(self, trust: api.Trust | None = None) -> api.SuiteState:
        return api.pull_suite(self.lab, f"{self.registry.host}/small/small-suite:latest", trust or api.Trust())


@pytest.fixture(scope="module")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys that never change, made once: encrypting a key file is slow on purpose."""
    folder = tmp_path_factory.mktemp("keys")
    for number, name in enumerate(("release", "attest", "suite-root"), start=51):
        write_key_pair(folder / f"{name}.key", folder / f"{name}.pub", fixed_key(number), NOTHING)
    return folder


@pytest.fixture
def parties(tmp_path: Path, key_files: Path) -> Iterator[Parties]:
    image = build_image(tmp_path / "author" / "store")
    author, lab = (
        api.Place(tmp_path / name, tmp_path / name / "store", tmp_path / name / "keys", password=NOTHING)
        for name in ("author", "lab")
    )
    shutil.copytree(key_files, author.keys)
    api.keygen(author)
    author.store().set_name("images", TASK, format_record(replace(image.record, signatures=(), referrers=())))
    api.sign(author, TASK, home=HOME)
    with MemoryRegistry() as registry:
        yield Parties(author, lab, image, registry)


def verify(place: api.Place, **trust: Any) -> tuple[str, bool, str]:
    """Return the last line of a verification."""
    last = api.verify(place, TASK, trust=api.Trust(**trust))[-1]
    return last.name, last.ok, last.reason


def with_image(parties: Parties) -> api.Place:
    """Give the lab the author's image: with its store, so that only suites travel here."""
    return replace(parties.lab, store_root=parties.author.store_root)


def test_a_lab_believes_an_image_because_the_suite_that_it_pinned_names_it(parties: Parties) -> None:
    state = parties.made()
    assert (state.version, state.root_version, state.images, state.revoked, state.signed) == (1, 1, 1, 0, True)
    assert state.reference == f"{HOME}/small-suite:v1"
    parties.published()
    assert [check.ok for check in api.verify_suite(parties.lab, None, api.Trust())] == [True] * 8
    checks = api.verify(with_image(parties), TASK)
    assert [check.name for check in checks[3:7]] == ["legacy signature", "bundle signature", "suite", "listed"]
    assert checks[-1].ok
    assert checks[5].reason.startswith(f"small version 1, {state.digest}, good until ")


def test_the_name_that_was_signed_must_be_that_of_the_task_asked_for(parties: Parties) -> None:
    record = parties.author.record(TASK)
    parties.author.store().set_name("images", "other-wide-001", format_record(record))
    last = api.verify(parties.author, "other-wide-001")[-1]
    assert (last.name, last.ok, last.reason) == (
        "legacy signature",
        False,
        f"it is for another task: expected other-wide-001, found {HOME}/{TASK}:v1",
    )


def test_an_image_that_lacks_a_signature_in_either_form_is_not_pushed(parties: Parties) -> None:
    record = parties.author.record(TASK)
    namespace = f"{parties.registry.host}/small"
    for lacking in (replace(record, signatures=()), replace(record, referrers=())):
        parties.author.store().set_name("images", TASK, format_record(lacking))
        with pytest.raises(TrustError) as caught:
            api.push(parties.author, TASK, namespace=namespace)
        assert str(caught.value) == (
            f"{TASK}: the image is not signed in both of cosign's forms\n"
            f"hint: wideswe-pack sign --task {TASK} --home REGISTRY/NAMESPACE"
        )
    assert parties.registry.seen == []


def test_an_unsigned_image_is_not_listed(parties: Parties) -> None:
    record = replace(parties.author.record(TASK), signatures=())
    parties.author.store().set_name("images", TASK, format_record(record))
    with pytest.raises(TrustError, match="check 4, legacy signature"):
        parties.made()


def test_a_suite_is_made_once(parties: Parties) -> None:
    parties.made()
    with pytest.raises(InputError) as caught:
        parties.made()
    assert str(caught.value) == "small: there is such a suite already\nhint: wideswe-pack suite update small"
    with pytest.raises(UsageError, match="a suite needs a home"):
        api.create_suite(parties.author, "third", api.SuiteRequest())


def test_a_revoked_image_is_refused_by_every_lab_that_hears_of_it(parties: Parties) -> None:
    parties.made()
    parties.published()
    assert verify(with_image(parties))[1]
    state = api.revoke_image(parties.author, "small", TASK, "a test was flaky", api.SuiteRequest())
    assert (state.version, state.images, state.revoked) == (2, 0, 1)
    api.push_suite(parties.author, "small", namespace=f"{parties.registry.host}/small")
    parties.pulled()
    assert verify(with_image(parties)) == ("listed", False, "revoked since version 2: a test was flaky")
    with pytest.raises(InputError, match="was revoked and cannot be listed again"):
        api.update_suite(parties.author, "small", api.SuiteRequest(tasks=(TASK,)))
    with pytest.raises(InputError, match="the suite lists no task"):
        api.revoke_image(parties.author, "small", "nothing", "r", api.SuiteRequest())


def test_an_older_suite_from_the_registry_does_not_replace_a_newer_one(parties: Parties) -> None:
    parties.made()
    parties.published()
    api.update_suite(parties.author, "small", api.SuiteRequest())
    api.push_suite(parties.author, "small", namespace=f"{parties.registry.host}/small")
    assert parties.pulled().version == 2
    assert api.verify_suite(parties.lab, "small", api.Trust())[-1].ok
    old = f"{parties.registry.host}/small/small-suite:v1"
    with pytest.raises(TrustError) as caught:
        api.pull_suite(parties.lab, old, api.Trust())
    assert str(caught.value) == "suite small: check 6, index seen: rollback: version 2 was seen before, found 1"
    assert api.show_suite(parties.lab, "small").version == 2


def test_emptying_the_store_does_not_make_a_lab_forget(parties: Parties) -> None:
    parties.made()
    parties.published()
    api.update_suite(parties.author, "small", api.SuiteRequest())
    api.push_suite(parties.author, "small", namespace=f"{parties.registry.host}/small")
    parties.pulled()
    assert api.verify_suite(parties.lab, "small", api.Trust())[-1].ok
    emptied = replace(parties.lab, store_root=parties.lab.root / "another store")
    with pytest.raises(TrustError, match="rollback"):
        api.pull_suite(emptied, f"{parties.registry.host}/small/small-suite:v1", api.Trust())
    seen = read_seen(parties.lab.keys / "suites" / "small.seen.json")
    assert seen is not None
    assert seen.version == 2


def test_authors_do_not_fork_a_suite_from_an_old_copy(parties: Parties) -> None:
    parties.made()
    parties.published()
    old = parties.author.store().name("suites", "small")
    api.update_suite(parties.author, "small", api.SuiteRequest())
    policy = parties.lab.keys / "trust.yaml"
    assert api.verify_suite(parties.author, "small", api.Trust(policy=policy))[-1].ok
    assert old is not None
    parties.author.store().set_name("suites", "small", old)
    with pytest.raises(TrustError) as caught:
        api.update_suite(parties.author, "small", api.SuiteRequest())
    assert str(caught.value) == (
        "small: the store has version 1, but version 2 was seen\n"
        "hint: wideswe-pack suite pull, then again: two versions would fork the suite"
    )


def test_an_expired_suite_is_accepted_only_in_words_and_the_result_says_so(parties: Parties) -> None:
    parties.made(datetime.now(UTC) - timedelta(days=200))
    with pytest.raises(TrustError, match="check 8, index expiry: version 1 expired"):
        parties.published()
    parties.published(api.Trust(allow_expired=True))
    lab = with_image(parties)
    name, ok, reason = verify(lab)
    assert (name, ok) == ("suite", False)
    assert reason.startswith("index expiry: version 1 expired ")
    checks = api.verify(lab, TASK, trust=api.Trust(allow_expired=True))
    assert checks[-1].ok
    assert checks[5].reason.endswith(", expired, accepted by --allow-expired")


def test_a_threshold_of_two_is_met_by_two_people_one_after_the_other(parties: Parties, tmp_path: Path) -> None:
    second = tmp_path / "second.key"
    write_key_pair(second, tmp_path / "second.pub", fixed_key(61), NOTHING)
    keys = parties.author.keys
    roles = {
        "root": api.RoleChoice((keys / "suite-root.pub", tmp_path / "second.pub"), 2),
        "release": api.RoleChoice((keys / "release.pub", tmp_path / "second.pub"), 2),
    }
    state = parties.made(roles=roles)
    assert not state.signed
    assert state.signatures == (
        "root 1 signed by 1 of 2 keys",
        "version 1 signed by 1 of 2 release keys of root 1",
    )
    with pytest.raises(TrustError) as caught:
        api.push_suite(parties.author, "small", namespace=f"{parties.registry.host}/small")
    assert str(caught.value).startswith("small: not signed by enough keys: root 1 signed by 1 of 2 keys; ")
    signed = api.sign_suite(parties.author, "small", api.SuiteRequest(signing_keys=(second,)))
    assert signed.signed
    assert (signed.version, signed.digest, signed.root) == (state.version, state.digest, state.root)
    parties.published()
    assert verify(with_image(parties))[1]


def test_a_release_key_that_leaked_is_rotated_out(parties: Parties, tmp_path: Path) -> None:
    parties.made()
    parties.published()
    keys = parties.author.keys
    write_key_pair(tmp_path / "new.key", tmp_path / "new.pub", fixed_key(62), NOTHING)
    request = api.SuiteRequest(
        roles={"release": api.RoleChoice((tmp_path / "new.pub",))}, signing_keys=(tmp_path / "new.key",)
    )
    state = api.rotate_root(parties.author, "small", request)
    assert (state.root_version, state.version, state.signed) == (2, 2, True)
    api.push_suite(parties.author, "small", namespace=f"{parties.registry.host}/small")
    parties.pulled()
    lab = with_image(parties)
    assert verify(lab)[:2] == ("legacy signature", False), "signed by the old key only"
    for name in ("release.key", "release.pub"):
        (keys / name).rename(keys / f"old-{name}")
    (tmp_path / "new.key").rename(keys / "release.key")
    (tmp_path / "new.pub").rename(keys / "release.pub")
    api.sign(parties.author, TASK, home=HOME)
    assert verify(lab)[1]


def test_a_policy_asks_for_more_than_the_suite_does(parties: Parties, tmp_path: Path) -> None:
    parties.made()
    parties.published()
    lab, policy = with_image(parties), parties.lab.keys / "trust.yaml"
    text = policy.read_text()
    policy.write_text(text.replace("validated: false", "validated: true"))
    assert verify(lab) == ("validated", False, "expected a test-result by 1 attestation keys, found 0")
    statement = {
        "result": "PASSED",
        "configuration": [],
        "validation": {
            "baseFails": True,
            "goldPasses": True,
            "runs": 3,
            "targets": {"x": {"failToPass": 1, "passToPass": 0}},
        },
    }
    (tmp_path / "result.json").write_text(json.dumps(statement))
    kind = "https://in-toto.io/attestation/test-result/v0.1"
    made = api.attest_file(parties.author, TASK, tmp_path / "result.json", predicate_type=kind)
    assert made.predicates == (kind,)
    assert verify(lab)[1]
    write_key_pair(tmp_path / "lab.key", policy.parent / "builder.pub", fixed_key(63), NOTHING)
    policy.write_text(text.replace("reproduced: 0", "reproduced: 1") + "    builders: [builder.pub]\n")
    assert verify(lab) == ("reproduced", False, "expected rebuilds by 1 builders, found 0")
    (tmp_path / "rebuild.json").write_text('{"result": "REPRODUCED"}')
    rebuild = "https://wideswe.dev/rebuild/v1"
    key = tmp_path / "lab.key"
    api.attest_file(parties.author, TASK, tmp_path / "rebuild.json", predicate_type=rebuild, signing_key=key)
    assert verify(lab)[1]
    policy.write_text(text.replace("release: 1", "release: 2"))
    assert verify(lab) == ("legacy signature", False, "expected signatures by 2 different keys, found 1")


def test_a_key_and_a_policy_are_two_answers_to_one_question(parties: Parties) -> None:
    with pytest.raises(UsageError) as caught:
        verify(parties.author, public_keys=("x",), policy=parties.author.keys / "trust.yaml")
    assert str(caught.value) == "--key and --policy exclude each other: the policy says which keys count"


def test_what_a_suite_needs_is_not_garbage(parties: Parties) -> None:
    parties.made()
    parties.published()
    api.collect_garbage(parties.lab)
    assert api.verify_suite(parties.lab, "small", api.Trust())[-1].ok


def test_an_image_is_no_suite(parties: Parties) -> None:
    parties.made()
    parties.published()
    with pytest.raises(InputError) as caught:
        api.pull_suite(parties.lab, f"{parties.registry.host}/small/{TASK}:v1", api.Trust())
    assert "expected application/vnd.wideswe.suite.v1+json, found application/vnd.oci.image.config" in str(caught.value)


def test_stock_tools_get_the_current_release_keys(parties: Parties) -> None:
    pem = (parties.author.keys / "release.pub").read_text()
    assert api.export_trust(parties.author, api.ExportRequest("cosign.pub"), api.Trust()) == pem
    parties.made()
    parties.published()
    assert api.export_trust(parties.lab, api.ExportRequest("cosign.pub"), api.Trust()) == pem
    policy = json.loads(api.export_trust(parties.lab, api.ExportRequest("policy.json", HOME), api.Trust()))
    assert list(policy["transports"]["docker"]) == [HOME]
    with pytest.raises(UsageError, match="which images"):
        api.export_trust(parties.lab, api.ExportRequest("policy.json"), api.Trust())
