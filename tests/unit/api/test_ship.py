"""Shipping as a lab meets it: which task a pulled image is, how URLs are refused, which keys are made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager import api
from packager.base.errors import InputError, PackError, UsageError
from packager.oci.config import format_config, parse_config
from packager.oci.descriptor import describe
from packager.oci.manifest import MEDIA_CONFIG
from packager.oci.record import format_record
from packager.oci.reference import Reference
from packager.registry.push import push_image
from packager.seal.grants import count_grants
from tests.support.registry import MemoryRegistry
from tests.support.sealed_images import SealedImage, build_image

if TYPE_CHECKING:
    from pathlib import Path


def place_in(folder: Path) -> api.Place:
    return api.Place(folder, folder / "store", folder / "keys")


def labelled(image: SealedImage, labels: dict[str, str]) -> SealedImage:
    config = parse_config(image.store.read(image.manifest.config.digest, 1 << 20))
    data = format_config(replace(config, labels=labels))
    image.store.put(data)
    return image.with_signed(replace(image.manifest, config=describe(MEDIA_CONFIG, data)))


def pull(image: SealedImage, place: api.Place, name: str = "some/where:v1") -> api.Shipped:
    repository, _, tag = name.partition(":")
    with MemoryRegistry() as registry:
        push_image(image.store, image.record, Reference(registry.host, repository, tag))
        try:
            return api.pull(place, f"{registry.host}/{name}")
        except PackError as error:
            error.where = (error.where or "").replace(registry.host, "HOST")
            raise


def test_a_pulled_image_is_the_task_that_its_label_says(tmp_path: Path) -> None:
    image = labelled(build_image(tmp_path / "author"), {"dev.wideswe.task": "hello-wide-001"})
    place = place_in(tmp_path)
    assert pull(image, place).task == "hello-wide-001"
    assert place.store().names("images") == ["hello-wide-001"]
    assert place.store().name("images", "hello-wide-001") == format_record(image.record)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({}, "HOST/some/where:v1: the image has no label dev.wideswe.task: it is not the image of a task"),
        (
            {"dev.wideswe.task": "../x"},
            "HOST/some/where:v1: label dev.wideswe.task: expected lower-case words joined by `.`, `-` or `_`, found '../x'",
        ),
    ],
)
def test_an_image_of_no_task_is_refused(labels: dict[str, str], said: str, tmp_path: Path) -> None:
    place = place_in(tmp_path)
    with pytest.raises(InputError) as caught:
        pull(labelled(build_image(tmp_path / "author"), labels), place)
    assert str(caught.value) == said
    assert place.store().names("images") == []


def test_an_url_is_refused_with_the_rule_that_says_when_http_is_spoken(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        api.pull(place_in(tmp_path), "http://localhost:5000/wideswe/x:v1")
    assert str(caught.value) == (
        "expected REGISTRY/NAMESPACE without http://, found 'http://localhost:5000/wideswe/x:v1'\n"
        "hint: localhost:5000/wideswe/x:v1: https is spoken, and plain http only with localhost or a loopback address"
    )


def test_a_lab_gets_its_evaluator_key_and_the_public_half_to_send(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    made = api.keygen(place, evaluator_only=True)
    assert made.files == (place.keys / "evaluator.key",)
    assert [path.name for path in place.keys.iterdir()] == ["evaluator.key"]
    (recipient,) = made.recipients
    assert f"# public key: {recipient}\n" in made.files[0].read_text()
    assert api.keygen(place, evaluator_only=True) == made


def test_signing_twice_adds_one_grant_and_another_evaluator_one_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIDESWE_PASSWORD", "")
    place = replace(place_in(tmp_path), store_root=tmp_path / "author")
    image = build_image(place.store_root)
    place.store().set_name(
        "images", "hello-wide-001", format_record(replace(image.record, signatures=(), referrers=()))
    )
    api.keygen(place)
    (recipient,) = api.keygen(place_in(tmp_path / "lab"), evaluator_only=True).recipients
    found = []
    for grant_to in ((), (), (recipient,), (), (recipient,)):
        api.sign(place, "hello-wide-001", home="registry.example/suite", grant_to=grant_to)
        found.append(place.record("hello-wide-001"))
    assert [count_grants(place.store(), record.grants) for record in found] == [1, 1, 2, 2, 2]
    assert [len(record.grants) for record in found] == [1] * 5, "all grants of an image are in one artifact"
    assert len({record.signatures for record in found}) == len({record.manifest.digest for record in found}) == 1
