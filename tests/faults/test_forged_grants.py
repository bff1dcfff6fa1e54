"""Grants are signed by nobody: what somebody who may push attaches or withholds does no harm, or is refused by name.

A grant only hands over keys to try; what they open is the seal of an image that is signed. So a forged one can lead an
evaluator to nothing else, and one that opens nothing must not stand in the way of one that does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.errors import InputError, TrustError
from packager.oci.manifest import EMPTY_BYTES, EMPTY_DESCRIPTOR, MEDIA_MANIFEST, Manifest, format_manifest
from packager.oci.reference import parse_reference
from packager.registry.push import push_image
from packager.seal.grants import GRANT_LAYER_TYPE, GRANT_TYPE, MAX_TRIED, put_grant
from packager.seal.identities import create_evaluator_key, make_grant, task_identity
from packager.store.store import Store
from tests.support.hostile_images import TARGET, TASK, make_lab, signed_image
from tests.support.images import put_blob
from tests.support.registry import MemoryRegistry
from tests.support.sealed_images import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.oci.descriptor import Descriptor
    from packager.oci.record import ImageRecord

HINT = (
    "\nhint: send your public key (wideswe-pack keygen --evaluator shows it) to the suite's authors, who grant it the "
    "task with wideswe-pack grant and push; then pull again"
)
FLOOD = "hint: somebody attached them; have the image from another registry, or a bundle"


@dataclass
class Stage:
    """An image with the one good grant, a registry, and the lab that the grant is for."""

    registry: MemoryRegistry
    store: Store
    record: ImageRecord
    lab: api.Place
    recipient: str
    count: int = 0

    def forge(self, *grants: bytes) -> Descriptor:
        """Attach an artifact with one layer for each grant."""
        layers = tuple(put_blob(self.store, GRANT_LAYER_TYPE, grant) for grant in grants)
        self.store.put(EMPTY_BYTES)
        manifest = Manifest(EMPTY_DESCRIPTOR, layers, artifact_type=GRANT_TYPE, subject=self.record.manifest)
        return put_blob(self.store, MEDIA_MANIFEST, format_manifest(manifest))

    def opened(self, *grants: Descriptor) -> tuple[str, ...]:
        """Publish the image with exactly these grants, pull it into an empty store, and open its seal."""
        self.count += 1
        reference = f"{self.registry.host}/try{self.count}/hello:v1"
        push_image(self.store, replace(self.record, grants=grants), parse_reference(reference))
        lab = replace(self.lab, store_root=self.lab.root / f"store{self.count}")
        api.pull(lab, reference)
        return api.open_task(lab, TASK, self.lab.root / f"answer{self.count}").files

    def refusal(self, *grants: Descriptor) -> str:
        with pytest.raises(TrustError) as caught:
            self.opened(*grants)
        return str(caught.value)


ANSWER = ("evaluation.json", "expected.json", f"gold/{TARGET}.patch", f"hidden/{TARGET}/t.txt")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    lab, recipient = make_lab(tmp_path / "lab")
    store = Store(tmp_path / "author")
    with MemoryRegistry() as registry:
        yield Stage(registry, store, signed_image(store, [recipient]), lab, recipient)


def test_forged_grants_beside_a_good_one_change_nothing(stage: Stage) -> None:
    (good,) = stage.record.grants
    strange, _ = create_evaluator_key()
    other, _ = task_identity(ROOT, "wideswe", "other-001")
    many = "\n".join([strange] * 1024)
    forged = [
        make_grant(strange, [stage.recipient]),
        make_grant(other, [stage.recipient]),
        make_grant(many, [stage.recipient]),
        make_grant(strange, [create_evaluator_key()[1]]),
        b"",
        b"age-encryption.org/v1\n",
        b"age-encryption.org/v1\n-> scrypt " + b"A" * 22 + b" 30\n" + b"A" * 43 + b"\n--- " + b"A" * 43 + b"\n",
        bytes(3 << 20),
    ]
    assert stage.opened(*(stage.forge(one) for one in forged), good) == ANSWER
    assert stage.opened(stage.forge(*forged), good) == ANSWER
    empty = stage.forge()
    assert stage.opened(empty, good) == ANSWER


def test_forged_grants_alone_open_nothing(stage: Stage) -> None:
    strange, _ = create_evaluator_key()
    other, _ = task_identity(ROOT, "wideswe", "other-001")
    mine = [stage.forge(make_grant(key, [stage.recipient])) for key in (strange, other)]
    assert stage.refusal(*mine) == (
        f"2 grants open with the evaluator's key, but hold no key of this image's seal{HINT}"
    )
    foreign = stage.forge(make_grant(strange, [create_evaluator_key()[1]]))
    assert stage.refusal(foreign) == f"none of the 1 grants of this image opens with the evaluator's key{HINT}"


def test_a_withheld_grant_is_said_to_be_missing(stage: Stage) -> None:
    assert stage.refusal() == f"the image comes without any grant: nobody was given its key{HINT}"


def test_a_flood_of_keys_ends_soon_is_called_that_and_comes_after_a_good_grant(stage: Stage) -> None:
    (good,) = stage.record.grants
    keys = "\n".join(create_evaluator_key()[0] for _ in range(1024))
    flood = stage.forge(*[make_grant(keys, [stage.recipient])] * (MAX_TRIED // 1024 + 1))
    assert stage.refusal(flood) == f"expected at most {MAX_TRIED} keys in the grants of an image, found more\n{FLOOD}"
    assert stage.opened(flood, good) == ANSWER


def test_a_grant_of_another_image_cannot_be_attached_to_this_one(stage: Stage) -> None:
    """A record that a registry made up: the subject is checked before anything of it is used."""
    other = put_grant(stage.store, replace(stage.record.manifest, digest=stage.record.referrers[0].digest), b"x")
    with pytest.raises(InputError, match="expected it to refer to"):
        stage.opened(other)
