"""A suite of signed, sealed images that share their lower layers, as the variants of one task do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import describe
from packager.oci.entries import dir_entry, file_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, Manifest, format_manifest
from packager.oci.places import SEALED_PATH, TASK_LABEL
from packager.oci.record import ImageRecord, format_record
from packager.seal.bundle import seal
from packager.seal.grants import put_grant
from tests.support.images import bytes_of
from tests.support.sealed_images import CONTENTS, KEY, ROOT, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.oci.layer import Layer
    from packager.store.store import Store
    from packager.trust.keys import PrivateKey

HOME = "registry.example/wideswe"


def task_name(number: int) -> str:
    return f"hello-wide-{number:03}"


def make_layers(store: Store, *, size: int = 200_000) -> list[Layer]:
    """A base and a toolchain, which all variants share."""
    base = [dir_entry(b"etc"), file_entry(b"etc/os-release", b"ID=test\n"), file_entry(b"usr/lib/x", bytes_of(size))]
    return [write_layer(entries, store) for entries in (base, [file_entry(b"opt/tool", bytes_of(size // 2, 2))])]


def make_variant(store: Store, number: int, below: Sequence[Layer], *, key: PrivateKey = KEY) -> ImageRecord:
    """One task: the shared layers, files and a seal of its own, both signatures and a grant; kept under its name."""
    task = task_name(number)
    own = write_layer([file_entry(b"workspace/x", f"variant {number}\n".encode())], store)
    sealed = write_layer([file_entry(SEALED_PATH, seal(replace(CONTENTS, task=task), ROOT))], store)
    layers = (*below, own, sealed)
    config = format_config(
        ImageConfig("amd64", tuple(layer.diff_id for layer in layers), cmd=("/bin/sh",), labels={TASK_LABEL: task})
    )
    store.put(config)
    data = format_manifest(Manifest(describe(MEDIA_CONFIG, config), tuple(layer.descriptor() for layer in layers)))
    store.put(data)
    record = signed(store, describe(MEDIA_MANIFEST, data), key, f"{HOME}/{task}:v1")
    record = replace(record, grants=(put_grant(store, record.manifest, f"grant {number}".encode()),))
    store.set_name("images", task, format_record(record))
    return record


def make_suite(store: Store, count: int, *, size: int = 200_000) -> dict[str, ImageRecord]:
    """Return `count` variants by name."""
    below = make_layers(store, size=size)
    return {task_name(number): make_variant(store, number, below) for number in range(1, count + 1)}
