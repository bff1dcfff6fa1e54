"""Whom a suite is believed from: thresholds, rotation, revocation, and every way to lead a lab back or aside."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.digests import Digest, digest_of
from packager.base.errors import InputError, PackError, TrustError
from packager.trust.roots import RoleKeys, make_root, parse_root, tuf_key
from packager.trust.seen import Seen, read_seen, write_seen
from packager.trust.suite_index import RevokedImage, SuiteContents, parse_index
from tests.support.trust_suites import (
    ATTESTS,
    HALF_YEAR,
    NAME,
    NOW,
    RELEASES,
    ROLES,
    ROOTS,
    STRANGER,
    YEAR,
    Lab,
    edited,
    first_index,
    first_root,
    listed,
    next_index,
    next_root,
    role,
)

if TYPE_CHECKING:
    from pathlib import Path

ROOT, INDEX = first_root(), first_index()
LAB = Lab(ROOT.digest)


def test_a_suite_that_its_keys_have_signed_is_believed() -> None:
    checks, suite = LAB.look([ROOT], INDEX)
    assert [(check.name, check.ok, check.reason) for check in checks] == [
        ("anchor", True, "root 1 is the pinned one, signed by 2 of 2 keys"),
        ("root seen", True, "root 1 is the first that this machine sees"),
        ("root expiry", True, "root 1 expires 2031-01-01T00:00:00Z"),
        ("index signatures", True, "signed by 1 of 1 release keys of root 1"),
        ("index name", True, f"small version 1, {INDEX.digest}"),
        ("index seen", True, "version 1 is the first that this machine sees"),
        ("clock", True, "2030-01-01T00:00:00Z"),
        ("index expiry", True, "version 1 expires 2030-06-30T00:00:00Z"),
    ]
    assert suite is not None
    assert suite.release_keys == (RELEASES[0].public,)
    assert suite.attest_keys == (ATTESTS[0].public,)
    assert suite.seen(NOW, None) == Seen(1, ROOT.digest, 1, INDEX.digest, NOW)


def test_the_same_keys_and_contents_give_the_same_documents() -> None:
    assert (first_root().data, first_index().data) == (ROOT.data, INDEX.data)
    assert parse_root(ROOT.data).roles == ROLES
    assert parse_index(INDEX.data).contents == INDEX.contents


def test_another_root_than_the_pinned_one_is_refused() -> None:
    other = first_root({**ROLES, "release": role([STRANGER])})
    assert LAB.refusal([other], first_index([STRANGER])) == (
        "anchor",
        f"none of 1 roots is the pinned one, {ROOT.digest}",
    )


@pytest.mark.parametrize("keys", [[], ROOTS[:1], [STRANGER, ROOTS[0]]], ids=["none", "one", "one and a stranger"])
def test_a_root_below_its_threshold_is_refused(keys: list[Any]) -> None:
    found = len([key for key in keys if key is not STRANGER])
    assert LAB.refusal([first_root(keys=keys)], INDEX) == (
        "anchor",
        f"root 1 is the pinned one, signed by {found} of 2 keys",
    )


def test_one_key_that_signs_twice_counts_once() -> None:
    name, reason = LAB.refusal([first_root(keys=[ROOTS[0], ROOTS[0]])], INDEX)
    assert (name, reason) == ("anchor", "root 1 is the pinned one, signed by 1 of 2 keys")


def test_one_key_under_two_names_is_refused_wherever_it_stands() -> None:
    """GHSA-3633-5h82-39pq: a threshold of two was met by one key that had two ids."""
    document = json.loads(ROOT.data)
    keys = document["signed"]["keys"]
    keyid = tuf_key(ROOTS[0].public).keyid
    alias = "ab" * 32
    keys[alias] = keys[keyid]
    document["signed"]["roles"]["root"]["keyids"] = sorted([keyid, alias])
    with pytest.raises(InputError) as caught:
        parse_root(json.dumps(document).encode())
    assert str(caught.value) == (
        f"root.keys.{alias[:16]}: its id is not the one that the key itself gives\n"
        "hint: the same key under another id would count as another key"
    )
    respelled = dict(keys[keyid], keyval={"public": "\n" + keys[keyid]["keyval"]["public"]})
    keys[alias] = respelled
    with pytest.raises(InputError, match="its id is not the one that the key itself gives"):
        parse_root(json.dumps(document).encode())


def test_one_key_named_twice_in_a_role_is_one_key() -> None:
    with pytest.raises(InputError) as caught:
        RoleKeys((ROOTS[0].public, ROOTS[0].public), 2)
    assert str(caught.value) == "role: expected a threshold from 1 to 1, the number of different keys, found 2"


@pytest.mark.parametrize("threshold", [0, -1, 4])
def test_a_threshold_that_disables_verification_is_refused(threshold: int) -> None:
    """go-tuf once took a threshold of 0 for a role that needs nobody."""
    keyids = sorted(tuf_key(key.public).keyid for key in ROOTS)
    entry = {"keyids": keyids, "threshold": threshold}
    for path in (("roles", "root"), ("roles", "targets"), ("x-wideswe", "attest")):
        with pytest.raises(InputError):
            parse_root(edited(ROOT.data, "signed", *path, value=entry))


ROTATED = next_root(ROOT, ROOTS[:2], roles={"release": role([RELEASES[1]])})
ROTATED_INDEX = next_index(INDEX, [RELEASES[1]])


def test_a_rotated_release_key_takes_over_and_the_old_one_counts_no_more() -> None:
    checks, suite = LAB.look([ROOT, ROTATED], ROTATED_INDEX)
    assert suite is not None, checks[-1]
    assert checks[1].name == "root 2"
    assert checks[1].reason == "signed by 2 of 2 keys of root 1, 2 of 2 keys of its own"
    assert suite.release_keys == (RELEASES[1].public,)
    assert LAB.refusal([ROOT, ROTATED], next_index(INDEX)) == (
        "index signatures",
        "signed by 0 of 1 release keys of root 2",
    )


def test_a_lab_may_pin_a_later_root() -> None:
    assert Lab(ROTATED.digest).look([ROOT, ROTATED], ROTATED_INDEX)[1] is not None
    assert Lab(ROTATED.digest).look([ROTATED], ROTATED_INDEX)[1] is not None


def test_a_new_root_needs_the_old_keys_and_the_new_ones() -> None:
    new = {"root": role([STRANGER])}
    for keys, counts in (
        ([STRANGER], "0 of 2 keys of root 1, 1 of 1 keys of its own"),
        (ROOTS[:2], "2 of 2 keys of root 1, 0 of 1 keys of its own"),
    ):
        taken = next_root(ROOT, keys, roles=new)
        assert LAB.refusal([ROOT, taken], INDEX) == ("root 2", f"signed by {counts}")
    assert LAB.look([ROOT, next_root(ROOT, [*ROOTS[:2], STRANGER], roles=new)], INDEX)[1] is not None


def test_roots_that_skip_or_repeat_a_version_are_refused() -> None:
    for version in (1, 3):
        strange = next_root(ROOT, ROOTS[:2], version=version)
        assert LAB.refusal([ROOT, strange], INDEX) == (f"root {version}", f"expected version 2, found {version}")


def test_an_index_by_a_stranger_or_by_too_few_is_refused() -> None:
    assert LAB.refusal([ROOT], first_index([STRANGER])) == (
        "index signatures",
        "signed by 0 of 1 release keys of root 1",
    )
    two = first_root({**ROLES, "release": role(RELEASES, 2)})
    assert Lab(two.digest).refusal([two], INDEX) == ("index signatures", "signed by 1 of 2 release keys of root 1")
    assert Lab(two.digest).look([two], first_index(RELEASES))[1] is not None


def test_a_change_of_any_value_breaks_the_signatures() -> None:
    for path, value in (
        (("version",), 2),
        (("expires",), "2099-01-01T00:00:00Z"),
        (("x-wideswe", "home"), "registry.example/other"),
        (("x-wideswe", "revoked"), [{"digest": digest_of(b"x"), "since_version": 1, "reason": "r"}]),
        (("targets", "hello-wide-001/linux/amd64", "length"), 9),
    ):
        changed = edited(INDEX.data, "signed", *path, value=value)
        if path == ("version",):
            changed = edited(changed, "signed", "x-wideswe", "chain", value=[digest_of(b"before")])
        assert LAB.refusal([ROOT], parse_index(changed))[0] == "index signatures"


def test_an_older_version_is_a_rollback() -> None:
    """CVE-2022-29173 (go-tuf), CVE-2024-23332 (notation): old documents with good signatures are offered again."""
    second = next_index(INDEX, images=(listed(), listed("second")))
    seen = LAB.after([ROOT], second)
    assert seen.refusal([ROOT], INDEX) == ("index seen", "rollback: version 2 was seen before, found 1")
    assert seen.after([ROOT], second).seen == seen.seen


def test_an_older_root_is_a_rollback_to_revoked_keys() -> None:
    seen = LAB.after([ROOT, ROTATED], ROTATED_INDEX)
    assert seen.refusal([ROOT], next_index(ROTATED_INDEX)) == (
        "root seen",
        "rollback: root 2 was seen before, found 1",
    )


def test_another_index_of_a_version_that_was_seen_is_equivocation() -> None:
    seen = LAB.after([ROOT], INDEX)
    other = first_index(images=(listed(manifest=b"another"),))
    assert seen.refusal([ROOT], other) == (
        "index seen",
        f"equivocation: version 1 was seen as {INDEX.digest}, now it is {other.digest}",
    )


def test_a_fork_is_noticed_however_many_versions_later() -> None:
    seen = LAB.after([ROOT], INDEX)
    fork = first_index(images=(listed(manifest=b"another"),))
    for _ in range(3):
        before, fork = fork, next_index(fork)
    assert fork.contents.version == 4
    name, reason = seen.refusal([ROOT], fork)
    assert (name, reason.partition(",")[0]) == ("index seen", f"equivocation: version 1 was seen as {INDEX.digest}")
    assert before.contents.version == 3
    straight = next_index(next_index(next_index(INDEX)))
    assert seen.after([ROOT], straight).seen == Seen(1, ROOT.digest, 4, straight.digest, NOW)


def test_another_root_of_a_version_that_was_seen_is_equivocation() -> None:
    seen = LAB.after([ROOT, ROTATED], ROTATED_INDEX)
    other = next_root(ROOT, ROOTS[:2], roles={"release": role([RELEASES[1]]), "attest": role([STRANGER])})
    assert seen.refusal([ROOT, other], ROTATED_INDEX) == (
        "root seen",
        f"equivocation: root 2 was seen as {ROTATED.digest}, now it is {other.digest}",
    )


def test_more_signatures_on_the_same_version_are_no_other_version() -> None:
    seen = LAB.after([ROOT], INDEX)
    more = first_root(keys=ROOTS)
    assert more.data != ROOT.data
    assert seen.look([more], INDEX)[1] is not None


@pytest.mark.parametrize("late", [timedelta(0), timedelta(days=1), timedelta(days=4000)])
def test_an_expired_suite_is_refused_unless_expiry_is_forgiven_in_words(late: timedelta) -> None:
    """Freeze: somebody keeps handing out the last good version; expiry bounds how long."""
    lab = replace(LAB, now=NOW + HALF_YEAR + late)
    name, reason = lab.refusal([ROOT], INDEX)
    assert name == ("index expiry" if late < YEAR - HALF_YEAR else "root expiry")
    assert reason.endswith("; --allow-expired accepts it and says so in results")
    checks, suite = replace(lab, allow_expired=True).look([ROOT], INDEX)
    assert suite is not None
    assert suite.expired
    assert checks[-1].reason == "version 1 expired 2030-06-30T00:00:00Z: accepted by --allow-expired"


def test_forgiving_expiry_forgives_nothing_else() -> None:
    second = next_index(INDEX)
    lab = replace(LAB.after([ROOT], second), now=NOW + 2 * YEAR, allow_expired=True)
    assert lab.refusal([ROOT], INDEX)[1] == "rollback: version 2 was seen before, found 1"


def test_a_clock_that_was_set_back_revives_nothing() -> None:
    later = replace(LAB, now=NOW + timedelta(days=100)).after([ROOT], INDEX)
    assert replace(later, now=NOW).refusal([ROOT], INDEX) == (
        "clock",
        "the clock says 2030-01-01T00:00:00Z, but the suite was found good at 2030-04-11T00:00:00Z",
    )
    assert replace(later, now=NOW + timedelta(days=100, minutes=-5)).look([ROOT], INDEX)[1] is not None


def test_a_suite_of_another_name_is_refused_though_the_same_people_sign_it() -> None:
    assert replace(LAB, name="other").refusal([ROOT], INDEX)[0] == "root seen"
    assert LAB.refusal([ROOT], first_index(suite="other")) == ("index name", "expected the suite small, found other")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("critical",), ["threshold"], "the suite asks for the field 'threshold'"),
        (("min_client",), 2, "the suite asks for a client that knows version 2"),
        (("min_client",), "new", "the suite asks for a client that knows version new"),
    ],
)
def test_what_a_client_must_understand_and_does_not_is_refused(path: tuple[str], value: Any, said: str) -> None:
    with pytest.raises(TrustError) as caught:
        parse_index(edited(INDEX.data, "signed", "x-wideswe", *path, value=value))
    assert str(caught.value) == f"suite index.x-wideswe: {said}\nhint: install a newer wideswe-pack"


def test_unknown_fields_that_are_not_critical_are_covered_and_left_alone() -> None:
    changed = edited(INDEX.data, "signed", "x-wideswe", "note", value="hello")
    assert LAB.refusal([ROOT], parse_index(changed))[0] == "index signatures"


BAD_INDEXES: dict[str, tuple[tuple[str, ...], Any, str]] = {
    "no extension": (("x-wideswe",), None, "suite index.x-wideswe: expected an object, found nothing"),
    "delegations": (
        ("delegations",),
        {"keys": {}, "roles": []},
        "suite index: expected no delegations: they are not followed",
    ),
    "another name": (
        ("targets",),
        {"x": {"length": 1, "hashes": {"sha256": "ab" * 32}, "custom": None}},
        "suite index.targets['x'].custom: expected an object, found nothing",
    ),
    "no sha256": (
        ("targets", "hello-wide-001/linux/amd64", "hashes"),
        {"md5": "ab"},
        "suite index.targets['hello-wide-001/linux/amd64'].hashes.sha256: expected a text, found nothing",
    ),
    "a chain that is too long": (
        ("x-wideswe", "chain"),
        [digest_of(b"x")],
        "suite index: expected the digests of 0 versions before, found 1",
    ),
    "a digest that is a path": (
        ("targets", "hello-wide-001/linux/amd64", "custom", "config"),
        "sha256:../../etc",
        (
            "suite index.targets['hello-wide-001/linux/amd64'].custom.config: expected sha256: and 64 hexadecimal digits, "
            "found 'sha256:../../etc'"
        ),
    ),
    "an image under another's name": (
        ("targets", "hello-wide-001/linux/amd64", "custom", "task"),
        "other",
        "suite index.targets['hello-wide-001/linux/amd64']: expected the name other/linux/amd64",
    ),
}


@pytest.mark.parametrize("kind", BAD_INDEXES)
def test_a_strange_index_is_refused_with_its_own_reason(kind: str) -> None:
    path, value, said = BAD_INDEXES[kind]
    with pytest.raises(PackError) as caught:
        parse_index(edited(INDEX.data, "signed", *path, value=value))
    assert str(caught.value) == said


def test_one_document_in_the_place_of_the_other_is_refused() -> None:
    with pytest.raises(InputError, match="suite index: expected targets metadata, found root"):
        parse_index(ROOT.data)
    with pytest.raises(InputError, match="root: expected root metadata, found targets"):
        parse_root(INDEX.data)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"version":1', b'"version":1,"version":2', "duplicate key 'version'"),
        (b'"version":1', b'"version":1e0', "expected a whole number|not TUF metadata"),
        (b'"version":1', b'"version":NaN', "NaN is not JSON"),
        (b'"version":1', b'"version":true', "expected a whole number"),
        (b'"version":1', b'"version":0', "not TUF metadata"),
        (b'"signatures":', b'"signatures":[{}],"signatures":', "duplicate key 'signatures'"),
        (b'"2031', b'"20310', "not TUF metadata"),
        (b"ecdsa-sha2-nistp256", b"ed25519", "not TUF metadata|expected the scheme ecdsa-sha2-nistp256"),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(old: bytes, new: bytes, said: str) -> None:
    """Report 34: duplicate keys, NaN, numbers of other kinds."""
    changed = ROOT.data.replace(old, new, 1)
    assert changed != ROOT.data
    with pytest.raises(InputError, match=said):
        parse_root(changed)


def test_a_root_with_a_key_of_another_kind_is_refused() -> None:
    keyid = next(iter(json.loads(ROOT.data)["signed"]["keys"]))
    entry = {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": "ab" * 32}}
    with pytest.raises(InputError) as caught:
        parse_root(edited(ROOT.data, "signed", "keys", keyid, value=entry))
    assert str(caught.value) == (f"root.keys.{keyid[:16]}: expected the scheme ecdsa-sha2-nistp256, found ed25519")


def test_revocations_and_images_are_sorted_and_each_once() -> None:
    rows = tuple(RevokedImage(digest_of(name), 1, "r") for name in (b"b", b"a"))
    index = first_index(images=(listed("z"), listed("a")), revoked=rows)
    assert [image.task for image in parse_index(index.data).contents.images] == ["a", "z"]
    assert [image.manifest for image in index.contents.revoked] == sorted(row.manifest for row in rows)
    with pytest.raises(InputError, match="expected each task and platform once"):
        SuiteContents(NAME, "h", 1, NOW, "t", (listed(), listed(manifest=b"other")))


def test_what_was_seen_survives_on_disk_and_damage_is_no_blank_memory(tmp_path: Path) -> None:
    path = tmp_path / "seen" / "small.json"
    assert read_seen(path) is None
    seen = Seen(3, ROOT.digest, 7, Digest(INDEX.digest), NOW)
    write_seen(path, seen)
    assert read_seen(path) == seen
    for damaged in (b"", b"{}", path.read_bytes()[:-9], path.read_bytes().replace(b"seen/1", b"seen/2")):
        path.write_bytes(damaged)
        with pytest.raises(InputError):
            read_seen(path)


def test_nobody_can_be_left_without_a_key() -> None:
    with pytest.raises(InputError):
        make_root(NAME, 1, NOW, {**ROLES, "attest": RoleKeys(())})
