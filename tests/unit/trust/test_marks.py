"""A layer is read once: afterwards its mark speaks for it, as long as nothing at all has happened to its file."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from packager.base.canonical import format_canonical
from packager.base.digests import hex_of
from packager.base.errors import IntegrityError
from packager.trust.checks import Check, is_verified
from packager.trust.layers import Measured, measure_layer
from packager.trust.marks import MIN_AGE_NS, SCHEMA, Memory
from packager.trust.verify import verify_again, verify_image
from tests.support.sealed_images import KEY, SealedImage, build_image

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.progress import Event
    from packager.oci.descriptor import Descriptor

KEYS = (KEY.public,)


def later() -> int:
    return time.time_ns() + 2 * MIN_AGE_NS


def remember(image: SealedImage) -> None:
    """Read every layer at a time when its file is old enough for a mark."""
    for layer in image.manifest.layers:
        assert Memory(image.store, recall=False, clock_ns=later).measure(layer)[1] is False


@pytest.fixture
def image(tmp_path: Path) -> SealedImage:
    found = build_image(tmp_path / "store")
    remember(found)
    return found


def again(image: SealedImage) -> list[Check]:
    return verify_again(image.record, image.store, public_keys=KEYS)


def file_of(image: SealedImage, layer: Descriptor) -> Path:
    return image.store.root / "blobs" / "sha256" / hex_of(layer.digest)


def marks_of(image: SealedImage) -> list[Path]:
    return sorted((image.store.root / "results").iterdir())


def test_a_layer_that_is_unchanged_is_not_read_again(image: SealedImage) -> None:
    events: list[Event] = []
    checks = verify_again(image.record, image.store, public_keys=KEYS, progress=events.append)
    assert is_verified(checks)
    assert events == []
    first = image.manifest.layers[0]
    size = measure_layer(image.store, first).diff_size
    assert checks[5].reason == f"{first.digest}, {size} bytes unchanged since it was read"


def test_verify_reads_every_byte_whatever_is_remembered(image: SealedImage) -> None:
    events: list[Event] = []
    checks = verify_image(image.record, image.store, public_keys=KEYS, progress=events.append)
    assert is_verified(checks)
    assert [event.done for event in events] == [layer.size for layer in image.manifest.layers]


def test_a_file_that_changed_in_place_is_read_even_if_its_times_were_put_back(image: SealedImage) -> None:
    layer = image.manifest.layers[0]
    place = file_of(image, layer)
    before = place.stat()
    place.chmod(0o644)
    with place.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last[0] ^ 1]))
    place.chmod(0o444)
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = place.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    checks = again(image)
    assert not is_verified(checks)
    assert checks[-1].name == "layer 1 of 2"
    assert checks[-1].reason.startswith(f"{place}: expected the digest {layer.digest}, found sha256:")


def test_a_file_that_was_exchanged_is_read(image: SealedImage) -> None:
    layer = image.manifest.layers[1]
    image.flipped(layer.digest)
    assert again(image)[-1].name == "layer 2 of 2"


def test_a_missing_file_is_a_no_although_it_is_remembered(image: SealedImage) -> None:
    layer = image.manifest.layers[0]
    file_of(image, layer).unlink()
    assert (again(image)[-1].name, again(image)[-1].reason) == ("layer 1 of 2", f"the blob {layer.digest} is missing")


def test_a_file_so_young_that_a_later_write_might_not_show_gets_no_mark(tmp_path: Path) -> None:
    found = build_image(tmp_path / "store")
    layer = found.manifest.layers[0]
    born = file_of(found, layer).stat().st_ctime_ns
    young = Memory(found.store, recall=True, clock_ns=lambda: born + MIN_AGE_NS)
    old = replace(young, clock_ns=lambda: born + MIN_AGE_NS + 1)
    assert [young.measure(layer)[1], young.measure(layer)[1]] == [False, False]
    assert [old.measure(layer)[1], young.measure(layer)[1]] == [False, True]


def test_a_mark_of_another_size_or_kind_of_layer_says_nothing(image: SealedImage) -> None:
    layer = image.manifest.layers[0]
    wrong = replace(layer, size=layer.size + 1)
    with pytest.raises(IntegrityError) as caught:
        Memory(image.store, recall=True).measure(wrong)
    assert str(caught.value) == f"{layer.digest}: expected {layer.size + 1} bytes, found {layer.size}"
    gzipped = replace(layer, media_type="application/vnd.oci.image.layer.v1.tar+gzip")
    with pytest.raises(IntegrityError, match="does not decompress"):
        Memory(image.store, recall=True).measure(gzipped)


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"schema":"wideswe-mark/1"}'])
def test_a_mark_that_cannot_be_read_is_none(image: SealedImage, damage: bytes) -> None:
    layer = image.manifest.layers[0]
    for mark in marks_of(image):
        mark.write_bytes(damage)
    found, remembered = Memory(image.store, recall=True).measure(layer)
    assert (found, remembered) == (measure_layer(image.store, layer), False)


def test_a_forged_mark_deceives_only_those_who_ask_for_it(image: SealedImage) -> None:
    status = file_of(image, image.manifest.layers[0]).stat()
    file = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    wrong = f"sha256:{'0' * 64}"
    forged = {"schema": SCHEMA, "diff_id": wrong, "diff_size": 1, "file": file}
    for mark in marks_of(image):
        mark.write_bytes(format_canonical(forged))
    layer = image.manifest.layers[0]
    assert Memory(image.store, recall=True).measure(layer) == (Measured(wrong, 1), True)  # type: ignore[arg-type]
    assert again(image)[-1].name == "diff ids"
    assert is_verified(verify_image(image.record, image.store, public_keys=KEYS))
