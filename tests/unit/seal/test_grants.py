"""Grants as artifacts: whichever opens is used, and those that do not are counted and named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import TrustError
from packager.oci.descriptor import Descriptor, describe
from packager.seal.age_writer import write_age
from packager.seal.grants import open_grants, put_grant
from packager.seal.identities import create_evaluator_key, make_grant
from packager.seal.keys import recipient_of
from packager.store.store import Store
from tests.support.sealed_images import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SUBJECT = describe("application/vnd.oci.image.manifest.v1+json", b"{}")
HINT = (
    "\nhint: send your public key (wideswe-pack keygen --evaluator shows it) to the suite's authors, who grant it the "
    "task with wideswe-pack grant and push; then pull again"
)


def sealed_for(identity: str) -> bytes:
    return b"".join(write_age(b"sealed", [recipient_of(identity)], secret=bytes(32), context="a test"))


def test_grants_are_tried_until_one_fits_and_bad_ones_are_passed_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (mine, me), (_, other) = create_evaluator_key(), create_evaluator_key()
    tasks = [create_evaluator_key()[0] for _ in range(3)]
    gone = Descriptor(SUBJECT.media_type, describe("x", b"gone").digest, 4)
    grants = [
        put_grant(store, SUBJECT, b"not age"),
        put_grant(store, SUBJECT, make_grant(tasks[0], [other])),
        put_grant(store, SUBJECT, make_grant(tasks[1], [me])),
        gone,
        put_grant(store, SUBJECT, make_grant(tasks[2], [other, me])),
    ]
    assert [open_grants(store, grants, mine, sealed_for(task)) for task in tasks[1:]] == tasks[1:]
    with pytest.raises(TrustError) as caught:
        open_grants(store, [grants[3], grants[1]], mine, sealed_for(tasks[0]))
    assert str(caught.value) == (
        "none of the 2 grants of this image opens with the evaluator's key; 1 of them are damaged, first: "
        f"{gone.digest}: the blob is not in the store{HINT}"
    )
    with pytest.raises(TrustError) as caught:
        open_grants(store, [], mine, b"")
    assert str(caught.value) == f"the image comes without any grant: nobody was given its key{HINT}"


def test_a_grant_from_the_root_is_the_same_bytes_each_time_and_fits_one_image() -> None:
    task, (_, me) = create_evaluator_key()[0], create_evaluator_key()
    assert make_grant(task, [me], "image: a", root=ROOT) == make_grant(task, [me], "image: a", root=ROOT)
    assert make_grant(task, [me], "image: a", root=ROOT) != make_grant(task, [me], "image: b", root=ROOT)
