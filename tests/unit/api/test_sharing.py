"""`inspect --suite`: layers of several images are counted as they are stored, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.api import Place, inspect_suite
from packager.api.sharing import SuiteSharing, TaskSharing
from packager.base.errors import InputError
from packager.build.assemble import assemble_image
from packager.build.execute import Stage
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.record import ImageRecord, format_record
from tests.support.command_line import call

if TYPE_CHECKING:
    from pathlib import Path

    from packager.oci.layer import Layer
    from packager.store.store import Store

LETTERS = b"abcd"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, tmp_path / "store", tmp_path / "keys")


def layer(store: Store, letter: int) -> Layer:
    return write_layer([file_entry(bytes([letter]), bytes([letter]) * letter)], store)


def image(store: Store, task: str, letters: bytes) -> None:
    stage = Stage(tuple(layer(store, letter) for letter in letters))
    found = assemble_image(stage, store, task=task, platform="linux/amd64")
    store.set_name("images", task, format_record(ImageRecord(found.manifest)))


def test_what_two_images_have_is_stored_once(place: Place) -> None:
    store = place.store()
    a, b, c, d = (layer(store, letter).size for letter in LETTERS)
    image(store, "one-001", b"abc")
    image(store, "two-001", b"abd")
    assert inspect_suite(place) == SuiteSharing(
        (TaskSharing("one-001", 3, a + b + c, c), TaskSharing("two-001", 3, a + b + d, d)),
        images_bytes=2 * a + 2 * b + c + d,
        stored_bytes=a + b + c + d,
        stored_layers=4,
        shared_bytes=a + b,
    )
    assert inspect_suite(place, ["two-001"]).shared_percent == 0


def test_a_store_without_images_shares_nothing(place: Place) -> None:
    assert inspect_suite(place) == SuiteSharing((), 0, 0, 0, 0)
    assert inspect_suite(place).shared_percent == 0


def test_a_task_without_an_image_is_named(place: Place) -> None:
    with pytest.raises(InputError, match=r"^no-001: there is no image of this task in the store"):
        inspect_suite(place, ["no-001"])


def test_a_person_sees_a_line_for_each_task(place: Place, tmp_path: Path) -> None:
    store = place.store()
    image(store, "one-001", b"a")
    image(store, "two-001", b"a")
    size = layer(store, ord("a")).size
    done = call(tmp_path, "--store", "store", "inspect", "--suite")
    assert (done.exit_code, done.stdout.decode()) == (
        0,
        (
            f"one image per task  {2 * size} bytes\n"
            f"stored              {size} bytes in 1 layers\n"
            f"shared              {size} bytes, 50.0 %\n"
            "TASK     LAYERS  BYTES  OF THESE IN NO OTHER IMAGE\n"
            f"one-001  1       {size}     0\n"
            f"two-001  1       {size}     0\n"
        ),
    )
