from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.digests import digest_of
from packager.base.errors import TrustError, WorldError
from packager.oci.descriptor import Descriptor
from packager.oci.manifest import MEDIA_MANIFEST, parse_manifest
from packager.seal.age_writer import write_age
from packager.seal.grants import GRANT_LAYER_TYPE, GRANT_TYPE, open_grants, put_grant
from packager.seal.identities import RootSecret, create_evaluator_key, make_grant, task_identity
from packager.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

TASK_KEY, TASK_RECIPIENT = task_identity(RootSecret(bytes(range(32))), "suite", "task")
SEALED = b"".join(write_age(b"sealed", [TASK_RECIPIENT], secret=bytes(32), context="a test"))
OURS, OUR_RECIPIENT = create_evaluator_key()
THEIRS, THEIR_RECIPIENT = create_evaluator_key()
HINT = (
    "\nhint: send your public key (wideswe-pack keygen --evaluator shows it) to the suite's authors, who grant it the task "
    "with wideswe-pack grant and push; then pull again"
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def subject(store: Store) -> Descriptor:
    return Descriptor(MEDIA_MANIFEST, store.put(b"an image"), 8)


def test_a_grant_is_an_artifact_that_refers_to_the_image(store: Store, subject: Descriptor) -> None:
    grant = make_grant(TASK_KEY, [OUR_RECIPIENT])
    manifest = parse_manifest(store.read(put_grant(store, subject, grant).digest, 1 << 20))
    assert (manifest.artifact_type, manifest.subject) == (GRANT_TYPE, subject)
    (layer,) = manifest.layers
    assert (layer.media_type, store.read(layer.digest, 1 << 20)) == (GRANT_LAYER_TYPE, grant)
    assert store.has(manifest.config.digest)


def refusal(store: Store, grants: list[Descriptor]) -> str:
    with pytest.raises(TrustError) as caught:
        open_grants(store, grants, OURS, SEALED)
    return str(caught.value)


def test_the_grant_that_fits_the_seal_gives_its_key_whatever_else_hangs_on_the_image(
    store: Store, subject: Descriptor
) -> None:
    other, _ = task_identity(RootSecret(bytes(range(32))), "suite", "other")
    foreign = put_grant(store, subject, make_grant(TASK_KEY, [THEIR_RECIPIENT]))
    damaged = put_grant(store, subject, b"no age file")
    gone = Descriptor(MEDIA_MANIFEST, digest_of(b"gone"), 4)
    ours = [put_grant(store, subject, make_grant(key, [OUR_RECIPIENT])) for key in (other, TASK_KEY)]
    assert open_grants(store, [foreign, damaged, gone, *ours], OURS, SEALED) == TASK_KEY
    assert refusal(store, [foreign, ours[0]]) == (
        "1 grants open with the evaluator's key, but hold no key of this image's seal" + HINT
    )


def test_an_image_without_grants_says_so(store: Store) -> None:
    assert refusal(store, []) == "the image comes without any grant: nobody was given its key" + HINT


def test_grants_for_others_are_counted_and_damaged_ones_are_named(store: Store, subject: Descriptor) -> None:
    foreign = put_grant(store, subject, make_grant(TASK_KEY, [THEIR_RECIPIENT]))
    assert refusal(store, [foreign]) == ("none of the 1 grants of this image opens with the evaluator's key" + HINT)
    gone = Descriptor(MEDIA_MANIFEST, digest_of(b"gone"), 4)
    with pytest.raises(WorldError) as lost:
        store.read(gone.digest, 4)
    assert refusal(store, [foreign, gone]) == (
        "none of the 2 grants of this image opens with the evaluator's key; "
        f"1 of them are damaged, first: {lost.value.complaint}" + HINT
    )
