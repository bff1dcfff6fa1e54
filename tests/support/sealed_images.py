"""A small sealed image in a real store, signed with a key that never changes, and ways to break it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import ec

from packager.base.digests import hex_of
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import Descriptor, describe
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import MEDIA_CONFIG, MEDIA_MANIFEST, Manifest, format_manifest
from packager.oci.places import SEALED_PATH
from packager.oci.record import ImageRecord
from packager.seal.bundle import SealContents, seal
from packager.seal.identities import RootSecret
from packager.store.store import Store
from packager.trust.keys import PrivateKey
from packager.trust.signatures import sign_image

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.base.digests import Digest
    from packager.oci.entries import Entry
    from packager.oci.layer import Compression, Layer

REFERENCE = "registry.example/suite/hello-wide-001:v1"
ROOT = RootSecret(bytes(range(32)))
CONTENTS = SealContents(
    "suite",
    "hello-wide-001",
    "1",
    gold={"greeter": b"diff --git a/x b/x\n"},
    hidden={"greeter": {"t.py": (0o644, b"")}},
)


@cache
def fixed_key(number: int) -> PrivateKey:
    return PrivateKey(ec.derive_private_key(number, ec.SECP256R1()))


KEY = fixed_key(1)
OTHER_KEY = fixed_key(2)


@dataclass(frozen=True)
class SealedImage:
    store: Store
    record: ImageRecord
    manifest: Manifest

    def replaced(self, digest: Digest, data: bytes) -> None:
        """Put other bytes where a blob lies, behind the store's back."""
        place = self.store.root / "blobs" / "sha256" / hex_of(digest)
        place.unlink()
        place.write_bytes(data)

    def flipped(self, digest: Digest, place: int = -1) -> None:
        """Flip one bit of one byte of a blob, behind the store's back."""
        data = bytearray(self.store.read(digest, 1 << 26))
        data[place] ^= 1
        self.replaced(digest, bytes(data))

    def put(self, media_type: str, data: bytes) -> Descriptor:
        self.store.put(data)
        return describe(media_type, data)

    def with_signed(self, manifest: Manifest, key: PrivateKey = KEY) -> SealedImage:
        """The image with another manifest, signed anew."""
        described = self.put(MEDIA_MANIFEST, format_manifest(manifest))
        return replace(self, record=signed(self.store, described, key), manifest=manifest)


def signed(store: Store, manifest: Descriptor, key: PrivateKey = KEY, reference: str = REFERENCE) -> ImageRecord:
    return sign_image(manifest, reference, key, store).added_to(ImageRecord(manifest))


def sealed_entries(data: bytes | None = None) -> list[Entry]:
    return [file_entry(SEALED_PATH, seal(CONTENTS, ROOT) if data is None else data)]


def build_image(folder: Path, *, last: Sequence[Entry] | None = None, compression: Compression = "zstd") -> SealedImage:
    """Two layers, files and seal, with a config and both signatures."""
    store = Store(folder)
    files = [file_entry(b"workspace/greeter/x", b"hello\n" * 1000), file_entry(b"opt/wideswe/task.json", b"{}")]
    parts = (files, sealed_entries() if last is None else last)
    layers = [write_layer(entries, store, compression=compression) for entries in parts]
    return image_of(store, layers)


def image_of(store: Store, layers: Sequence[Layer]) -> SealedImage:
    config = format_config(ImageConfig("amd64", tuple(layer.diff_id for layer in layers), env=("LANG=C.UTF-8",)))
    store.put(config)
    manifest = Manifest(describe(MEDIA_CONFIG, config), tuple(layer.descriptor() for layer in layers))
    data = format_manifest(manifest)
    store.put(data)
    return SealedImage(store, signed(store, describe(MEDIA_MANIFEST, data)), manifest)
