"""Checks what can be seen of a seal without its key: one place, one recipient, a padded size."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from packager.base.digests import BLOCK_BYTES
from packager.oci.entries import Kind
from packager.oci.places import SEALED_PATH
from packager.oci.tar_reader import read_tar
from packager.seal.age_format import CHUNK_BYTES, TAG_BYTES, sealed_size
from packager.seal.age_reader import read_header
from packager.seal.bundle import padded_size
from packager.trust.checks import Answer
from packager.trust.layers import open_bounded

if TYPE_CHECKING:
    from packager.oci.descriptor import Descriptor
    from packager.oci.entries import Entry
    from packager.oci.layer import BlobSource

_HEAD_BYTES = 1 << 12
_MODE = 0o644


def verify_seal(store: BlobSource, layer: Descriptor) -> Answer:
    """Check that an image's last layer holds a sealed file in the shape that `seal` gives it."""
    found: list[tuple[Entry, bytes]] = []
    with open_bounded(store, layer) as stream:
        for entry, reader in read_tar(io.BufferedReader(stream, BLOCK_BYTES)):
            if entry.path == SEALED_PATH:
                found.append((entry, reader.read(min(_HEAD_BYTES, reader.left))))
        stream.finish()
    if len(found) != 1:
        return Answer(ok=False, reason=f"expected one {SEALED_PATH.decode()} in the last layer, found {len(found)}")
    return _check_file(*found[0])


def _check_file(entry: Entry, head: bytes) -> Answer:
    if entry.kind is not Kind.FILE or entry.mode != _MODE or (entry.uid, entry.gid) != (0, 0):
        return Answer(ok=False, reason="the sealed file is not a plain file of root with mode 0644")
    header = read_header(io.BytesIO(head), where="sealed file")
    kinds = [stanza.arguments[0].decode() for stanza in header.stanzas]
    if kinds != ["X25519"]:
        return Answer(ok=False, reason=f"expected one X25519 recipient, found {', '.join(kinds)[:200]}")
    payload = entry.size - sealed_size(0, 1) + TAG_BYTES
    plain = payload - TAG_BYTES * max(1, -(-payload // (CHUNK_BYTES + TAG_BYTES)))
    if plain <= 0 or sealed_size(plain, 1) != entry.size or padded_size(plain) != plain:
        return Answer(ok=False, reason=f"its size, {entry.size} bytes, is not that of a padded seal")
    return Answer(ok=True, reason=f"sealed to one recipient, {entry.size} bytes")
