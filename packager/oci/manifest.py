"""OCI image manifests and indexes (image-spec, manifest.md and image-index.md), and the media types in use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager.base.canonical import LIMIT_BYTES, format_canonical, parse_json
from packager.base.digests import Digest
from packager.base.errors import InputError
from packager.oci.descriptor import (
    Descriptor,
    expect_list,
    expect_object,
    format_descriptor,
    optional_text,
    parse_annotations,
    parse_descriptor,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
MEDIA_INDEX = "application/vnd.oci.image.index.v1+json"
MEDIA_CONFIG = "application/vnd.oci.image.config.v1+json"
MEDIA_LAYER_TAR = "application/vnd.oci.image.layer.v1.tar"
MEDIA_LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
MEDIA_LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
MEDIA_EMPTY = "application/vnd.oci.empty.v1+json"
MEDIA_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
MEDIA_DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
MEDIA_DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
MEDIA_DOCKER_LAYER_GZIP = "application/vnd.docker.image.rootfs.diff.tar.gzip"

MANIFEST_TYPES = (MEDIA_MANIFEST, MEDIA_DOCKER_MANIFEST)
INDEX_TYPES = (MEDIA_INDEX, MEDIA_DOCKER_INDEX)

EMPTY_BYTES = b"{}"
EMPTY_DESCRIPTOR = Descriptor(
    MEDIA_EMPTY, Digest("sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"), len(EMPTY_BYTES)
)

MAX_LAYERS = 1000


@dataclass(frozen=True)
class Manifest:
    """One image, or one artifact when `artifact_type` is set."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    artifact_type: str | None = None
    subject: Descriptor | None = None
    media_type: str = MEDIA_MANIFEST


@dataclass(frozen=True)
class Index:
    """A list of manifests."""

    manifests: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    artifact_type: str | None = None
    subject: Descriptor | None = None
    media_type: str = MEDIA_INDEX


def parse_manifest(data: bytes, *, where: str = "manifest") -> Manifest:
    """Return a manifest; whatever could also be read as an index is refused (CVE-2021-41190)."""
    fields = _document(data, types=MANIFEST_TYPES, strangers=("manifests",), where=where)
    layers = expect_list(fields.get("layers"), where=f"{where}.layers")
    if len(layers) > MAX_LAYERS:
        raise InputError(f"expected at most {MAX_LAYERS} layers, found {len(layers)}", where=f"{where}.layers")
    config = parse_descriptor(fields.get("config"), where=f"{where}.config")
    artifact_type = optional_text(fields.get("artifactType"), where=f"{where}.artifactType")
    if config.media_type == MEDIA_EMPTY and artifact_type is None:
        raise InputError("expected an artifactType beside an empty config", where=f"{where}.artifactType")
    return Manifest(
        config,
        tuple(parse_descriptor(value, where=f"{where}.layers[{n}]") for n, value in enumerate(layers)),
        parse_annotations(fields.get("annotations"), where=f"{where}.annotations"),
        artifact_type,
        _parse_subject(fields, where=where),
        fields.get("mediaType", MEDIA_MANIFEST),
    )


def format_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as canonical JSON."""
    value: dict[str, object] = {
        "config": format_descriptor(manifest.config),
        "layers": [format_descriptor(layer) for layer in manifest.layers],
    }
    return _format(manifest, value)


def parse_index(data: bytes, *, where: str = "index") -> Index:
    """Return an index; whatever could also be read as a manifest is refused (CVE-2021-41190)."""
    fields = _document(data, types=INDEX_TYPES, strangers=("config", "layers"), where=where)
    manifests = expect_list(fields.get("manifests"), where=f"{where}.manifests")
    return Index(
        tuple(parse_descriptor(value, where=f"{where}.manifests[{n}]") for n, value in enumerate(manifests)),
        parse_annotations(fields.get("annotations"), where=f"{where}.annotations"),
        optional_text(fields.get("artifactType"), where=f"{where}.artifactType"),
        _parse_subject(fields, where=where),
        fields.get("mediaType", MEDIA_INDEX),
    )


def format_index(index: Index) -> bytes:
    """Return an index as canonical JSON."""
    return _format(index, {"manifests": [format_descriptor(manifest) for manifest in index.manifests]})


def _format(document: Manifest | Index, value: dict[str, object]) -> bytes:
    value |= {"schemaVersion": 2, "mediaType": document.media_type}
    if document.annotations:
        value["annotations"] = dict(document.annotations)
    if document.artifact_type is not None:
        value["artifactType"] = document.artifact_type
    if document.subject is not None:
        value["subject"] = format_descriptor(document.subject)
    data = format_canonical(value)
    if len(data) > LIMIT_BYTES:
        raise InputError(f"expected at most {LIMIT_BYTES} bytes of JSON, found {len(data)}", where=document.media_type)
    return data


def _document(data: bytes, *, types: tuple[str, ...], strangers: tuple[str, ...], where: str) -> dict[str, Any]:
    fields = expect_object(parse_json(data, where=where), where=where)
    if fields.get("schemaVersion") != 2:  # noqa: PLR2004 - the specification's number
        raise InputError(f"expected schemaVersion 2, found {str(fields.get('schemaVersion'))[:40]}", where=where)
    media_type = fields.get("mediaType", types[0])
    if media_type not in types:
        raise InputError(f"expected {types[0]}, found {str(media_type)[:120]}", where=f"{where}.mediaType")
    found = [name for name in strangers if name in fields]
    if found:
        raise InputError(f"expected a document of one kind, found the field {found[0]} too", where=where)
    return fields


def _parse_subject(fields: dict[str, Any], *, where: str) -> Descriptor | None:
    value = fields.get("subject")
    return None if value is None else parse_descriptor(value, where=f"{where}.subject")
