"""Says where two images of one task begin to differ: the first entry, not two digests."""

from __future__ import annotations

import hashlib
import itertools
from typing import IO, TYPE_CHECKING

from packager.evaluate.judge import read_image
from packager.oci.record import parse_record
from packager.oci.tar_reader import read_tar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.store.store import Store


def describe_tar(stream: IO[bytes]) -> Iterator[str]:
    """Yield one line for each entry: kind, mode, owner, path, link, capability, size and digest of its bytes."""
    for entry, reader in read_tar(stream):
        digest = hashlib.sha256(reader.read()).hexdigest()[:12]
        parts = (
            f"{entry.kind.value} {entry.mode:04o} {entry.uid}:{entry.gid} {entry.path!r} {entry.link!r}",
            "" if entry.capability is None else f" capability {entry.capability.hex()}",
            f" {entry.size} bytes {digest}",
        )
        yield "".join(parts)


def first_difference(one: IO[bytes], other: IO[bytes]) -> str | None:
    """Return the first entries of two tars that differ, or None."""
    for ours, theirs in itertools.zip_longest(describe_tar(one), describe_tar(other), fillvalue="the end"):
        if ours != theirs:
            return f"{ours}\n{theirs}"
    return None


def image_difference(one: Store, other: Store, task: str) -> str:
    """Return the first entry of the first layer that differs between two stores' images of a task; empty if none."""
    images = [read_image(store, parse_record(store.name("images", task) or b"")) for store in (one, other)]
    if images[0].config_bytes != images[1].config_bytes and len(images[0].layers) != len(images[1].layers):
        return f"{len(images[0].layers)} and {len(images[1].layers)} layers"
    pairs = zip(images[0].tars(one), images[1].tars(other), strict=True)
    for number, (ours, theirs) in enumerate(pairs):
        found = first_difference(ours, theirs)
        if found is not None:
            return f"layer {number}:\n{found}"
    if images[0].config_bytes != images[1].config_bytes:
        return f"config:\n{images[0].config_bytes.decode()}\n{images[1].config_bytes.decode()}"
    return ""
