"""Images whose signatures hold and whose contents attack: the right key signed them, and a registry offers them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import zstandard

from packager import api
from packager.base.digests import DiffId, digest_of
from packager.evaluate.expected import ExpectedCases
from packager.evaluate.profile import Profile, TargetProfile, format_profile
from packager.oci.config import ImageConfig, format_config
from packager.oci.descriptor import Descriptor, describe
from packager.oci.entries import file_entry
from packager.oci.layer import write_layer
from packager.oci.manifest import (
    MEDIA_CONFIG,
    MEDIA_LAYER_GZIP,
    MEDIA_LAYER_TAR,
    MEDIA_LAYER_ZSTD,
    MEDIA_MANIFEST,
    Manifest,
    format_manifest,
)
from packager.oci.places import SEALED_PATH, TASK_LABEL
from packager.oci.record import ImageRecord
from packager.sandbox.engine import Limits
from packager.seal.bundle import SealContents, seal
from packager.seal.grants import add_grants
from packager.seal.identities import create_evaluator_key, make_grants, task_identity, write_identity
from packager.trust.keyfiles import Password
from packager.trust.signatures import sign_image
from tests.support.sealed_images import KEY, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.store.store import Store

TASK = "hello-wide-001"
TARGET = "greeter"
HOME = "registry.example/wideswe"

_PROFILE = Profile(
    TASK,
    (TargetProfile(TARGET, "", "echo ok 1 - greets; echo 1..1", ".", "tap", "stdout", 60.0, (), ()),),
    Limits(1, 1 << 30, 64),
)
CONTENTS = SealContents(
    "wideswe",
    TASK,
    "v1",
    gold={TARGET: b""},
    hidden={TARGET: {"t.txt": (0o644, b"hidden\n")}},
    expected={TARGET: ExpectedCases(("greets",)).plain()},
    profile=format_profile(_PROFILE),
)


@dataclass(frozen=True)
class HostileLayer:
    """One layer as an attacker may write it: a tar, or bytes that are none, under any media type."""

    tar: bytes = b""
    media_type: str = MEDIA_LAYER_ZSTD
    packed: bytes | None = None

    def blob(self) -> bytes:
        if self.packed is not None:
            return self.packed
        if self.media_type == MEDIA_LAYER_GZIP:
            return gzip.compress(self.tar, 1, mtime=0)
        return self.tar if self.media_type == MEDIA_LAYER_TAR else zstandard.ZstdCompressor().compress(self.tar)


def signed_image(store: Store, recipients: list[str], *layers: HostileLayer) -> ImageRecord:
    """Put an image of these layers and a sound seal into a store: signed by the right key, granted to evaluators."""
    last = write_layer([file_entry(SEALED_PATH, seal(CONTENTS, ROOT))], store)
    parts = [_put(store, layer.media_type, layer.blob()) for layer in layers]
    diff_ids = (*(DiffId(digest_of(layer.tar)) for layer in layers), last.diff_id)
    config = ImageConfig("amd64", diff_ids, labels={TASK_LABEL: TASK})
    described = _put(store, MEDIA_CONFIG, format_config(config))
    manifest = _put(store, MEDIA_MANIFEST, format_manifest(Manifest(described, (*parts, last.descriptor()))))
    identity, _ = task_identity(ROOT, "wideswe", TASK)
    grants = add_grants(store, manifest, (), make_grants(identity, recipients, root=ROOT))
    signed = sign_image(manifest, f"{HOME}/{TASK}:v1", KEY, store).added_to(ImageRecord(manifest))
    return replace(signed, grants=tuple(grants))


def _put(store: Store, media_type: str, data: bytes) -> Descriptor:
    store.put(data)
    return describe(media_type, data)


def make_lab(folder: Path) -> tuple[api.Place, str]:
    """A lab that trusts the right key and can evaluate; returned with the public half of its evaluator key."""
    keys = folder / "keys"
    keys.mkdir(parents=True)
    (keys / "release.pub").write_bytes(KEY.public.pem)
    identity, recipient = create_evaluator_key()
    write_identity(keys / "evaluator.key", identity)
    return api.Place(folder, folder / "store", keys, password=Password("")), recipient


def everything_below(root: Path, *, but: Path) -> Iterator[tuple[str, object]]:
    """What lies below a folder, except for one place in it: names, kinds, modes and contents."""
    for path in sorted(root.rglob("*")):
        if path == but or but in path.parents:
            continue
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        yield str(path), (status.st_mode, status.st_uid, content)
