"""A base image in the store as the first stage of a build: its layers, and what its config says of running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.canonical import LIMIT_BYTES, format_canonical, parse_json
from packager.base.digests import DiffId, Digest, digest_of
from packager.base.errors import InputError, IntegrityError
from packager.build.execute import Stage
from packager.oci.config import parse_config
from packager.oci.decompression import measure_tar
from packager.oci.layer import Layer
from packager.oci.manifest import MEDIA_DOCKER_LAYER_GZIP, MEDIA_LAYER_GZIP, parse_manifest

if TYPE_CHECKING:
    from packager.oci.config import ImageConfig
    from packager.oci.descriptor import Descriptor
    from packager.store.store import Store

_ROOT = {"", "root", "0", "0:0", "root:root"}


def image_blobs(store: Store, manifest: Digest) -> tuple[Descriptor, ...]:
    """Return what an image in the store consists of beside its manifest: the config, then the layers."""
    parsed = parse_manifest(store.read(manifest, LIMIT_BYTES), where=f"base image {manifest}")
    return (parsed.config, *parsed.layers)


def image_stage(store: Store, manifest: Digest) -> Stage:
    """Return the stage that FROM a base image begins with; each layer is held against the config's diff ids."""
    where = f"base image {manifest}"
    config_row, *rows = image_blobs(store, manifest)
    config = parse_config(store.read(config_row.digest, LIMIT_BYTES), where=where)
    _refuse_user(config, where)
    if len(rows) != len(config.diff_ids):
        raise InputError(f"expected {len(config.diff_ids)} layers as in its config, found {len(rows)}", where=where)
    return Stage(
        layers=tuple(_layer(store, row, diff_id) for row, diff_id in zip(rows, config.diff_ids, strict=True)),
        env=tuple(sorted((name, value) for name, _, value in (text.partition("=") for text in config.env))),
        labels=tuple(sorted(config.labels.items())),
        workdir=config.workdir,
        command=config.cmd,
    )


def _refuse_user(config: ImageConfig, where: str) -> None:
    if config.user not in _ROOT:
        raise InputError(
            f"expected an image that runs as root, found user {config.user[:80]!r}",
            where=where,
            hint="commands of a task run as root; choose an image without USER",
        )


def _layer(store: Store, row: Descriptor, diff_id: DiffId) -> Layer:
    """Return a layer; its uncompressed size stands nowhere, so it is counted once and kept."""
    key = digest_of(format_canonical({"kind": "diff-size", "blob": row.digest, "diff_id": diff_id}))
    kept = store.result(key)
    if kept is None:
        kept = format_canonical(_count(store, row, diff_id))
        store.put_result(key, kept)
    media_type = MEDIA_LAYER_GZIP if row.media_type == MEDIA_DOCKER_LAYER_GZIP else row.media_type
    return Layer(diff_id, row.digest, row.size, int(parse_json(kept, where="diff size")), media_type)


def _count(store: Store, row: Descriptor, diff_id: DiffId) -> int:
    with store.open(row.digest) as blob:
        found, size = measure_tar(blob, row.media_type, row.digest)
    if found != diff_id:
        raise IntegrityError(f"expected diff id {diff_id}, found {found}", where=row.digest)
    return size
