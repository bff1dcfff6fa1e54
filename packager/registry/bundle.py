"""The bundle, a suite in one file: what its index and docker's manifest.json say, and who may believe which of them.

A bundle is an OCI layout in a canonical tar. `index.json` lists every manifest: images under their published names,
signatures under their tags, referrers and grants without a name; each may carry the annotations in ANNOTATIONS and no
other, since those of engines change what runs (CVE-2026-94603). Manifests and blobs are byte for byte those that were
signed. `manifest.json` is what `docker load` reads; it names the same configs, and so the same image ids. Docker before
23 cannot read zstd: `--docker-layers gzip|none` adds copies of the layers for it, which only `manifest.json` names; the
signed layers stay inside, because a signature covers their compressed bytes and no other compressor is sure to give
them again. A bundle that continues another (`--since`) has all manifests and lacks the layers of that one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from packager.base.canonical import LIMIT_BYTES, format_canonical, parse_json
from packager.base.digests import Digest, digest_of, parse_digest
from packager.base.errors import InputError
from packager.oci.descriptor import Descriptor, expect_list, expect_object, expect_text
from packager.oci.layout import (
    CONTAINERD_NAME,
    INDEX_FILE,
    LAYOUT_FILE,
    LAYOUT_VERSION,
    REF_NAME,
    Layout,
    blob_name,
    read_small,
)
from packager.oci.manifest import Index, format_index, parse_index

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

BUNDLE_TYPE = "application/vnd.wideswe.bundle.v1"
SINCE = "dev.wideswe.bundle.since"
KIND = "kind"
IMAGE_KIND = "dev.cosignproject.cosign/image"
SIGNATURES_KIND = "dev.cosignproject.cosign/sigs"
ATTESTATIONS_KIND = "dev.cosignproject.cosign/atts"
ANNOTATIONS = frozenset({REF_NAME, CONTAINERD_NAME, KIND})
MAX_MANIFESTS = 20_000

_TAG = re.compile(r"sha256-([0-9a-f]{64})\.(sig|att)", re.ASCII)
_KINDS = {"sig": SIGNATURES_KIND, "att": ATTESTATIONS_KIND}
_BLOB = re.compile(r"blobs/(sha256)/([0-9a-f]{64})", re.ASCII)
_INFORMATIVE = "org.opencontainers.image."


DockerLayers = Literal["as-is", "gzip", "none"]


@dataclass(frozen=True)
class BundleForm:
    """The bundle that this one continues, and in what form old dockers get their layers."""

    since: Path | None = None
    docker_layers: DockerLayers = "as-is"


@dataclass(frozen=True)
class Contents:
    """What `index.json` says: all manifests, and the digest of the index that this bundle continues."""

    entries: tuple[Descriptor, ...]
    since: Digest | None = None


@dataclass(frozen=True)
class DockerImage:
    """One entry of `manifest.json`: names of files in the layout."""

    config: Digest
    layers: tuple[Digest, ...]
    names: tuple[str, ...] = ()


def image_entry(manifest: Descriptor, name: str) -> Descriptor:
    """Return an image's line in the index."""
    plain = Descriptor(manifest.media_type, manifest.digest, manifest.size)
    return replace(plain, annotations={REF_NAME: name, CONTAINERD_NAME: name, KIND: IMAGE_KIND})


def tagged_entry(manifest: Descriptor, tag: str) -> Descriptor:
    """Return the line of a manifest that is found by its tag."""
    plain = Descriptor(manifest.media_type, manifest.digest, manifest.size)
    match = _TAG.fullmatch(tag)
    if match is None:
        raise InputError(f"expected a tag like sha256-….sig, found {tag[:120]!r}", where="bundle")
    return replace(plain, annotations={REF_NAME: tag, KIND: _KINDS[match[2]]})


def subject_of_tag(entry: Descriptor) -> Digest | None:
    """Return what a manifest is about by its tag, or None if it has no such tag."""
    match = _TAG.fullmatch(entry.annotations.get(REF_NAME, ""))
    return None if match is None else Digest(f"sha256:{match[1]}")


def format_contents(contents: Contents) -> bytes:
    """Return `index.json`."""
    annotations = {SINCE: contents.since} if contents.since else {}
    return format_index(Index(contents.entries, annotations, artifact_type=BUNDLE_TYPE))


def read_contents(layout: Layout) -> tuple[Contents, Digest]:
    """Return what a layout's index says, and the digest by which another bundle names it; other versions are refused.

    Layouts of other tools have no artifact type; their images are taken all the same, if nothing in them is strange.
    """
    version = expect_object(
        parse_json(read_small(layout, LAYOUT_FILE, limit=4096), where=LAYOUT_FILE), where=LAYOUT_FILE
    )
    if version.get("imageLayoutVersion") != LAYOUT_VERSION:
        found = str(version.get("imageLayoutVersion"))[:40]
        raise InputError(f"expected imageLayoutVersion {LAYOUT_VERSION}, found {found}", where=LAYOUT_FILE)
    data = read_small(layout, INDEX_FILE, limit=LIMIT_BYTES)
    index = parse_index(data, where=INDEX_FILE)
    if index.artifact_type not in (None, BUNDLE_TYPE):
        raise InputError(f"expected {BUNDLE_TYPE}, found {index.artifact_type[:120]}", where=INDEX_FILE)
    if len(index.manifests) > MAX_MANIFESTS:
        raise InputError(f"expected at most {MAX_MANIFESTS} manifests, found {len(index.manifests)}", where=INDEX_FILE)
    _refuse_strange(index.annotations, known={SINCE}, where=INDEX_FILE)
    for number, entry in enumerate(index.manifests):
        _refuse_strange(entry.annotations, known=ANNOTATIONS, where=f"{INDEX_FILE}.manifests[{number}]")
    since = index.annotations.get(SINCE)
    known = None if since is None else parse_digest(since, where=f"{INDEX_FILE}.annotations[{SINCE!r}]")
    return Contents(index.manifests, known), digest_of(data)


def refuse_strange_manifest(annotations: Mapping[str, str], *, where: str) -> None:
    """Refuse annotations of an image or its layers that an engine or a decrypting client would act on."""
    acting = {name for name in annotations if not name.startswith(_INFORMATIVE) or ".enc." in name}
    _refuse_strange(annotations, known=annotations.keys() - acting, where=where)


def _refuse_strange(annotations: Mapping[str, str], *, known: frozenset[str] | set[str], where: str) -> None:
    strange = sorted(set(annotations) - known)
    if strange:
        hint = "annotations can change what tools do with an image; nothing was imported"
        raise InputError(f"an annotation that we do not know: {strange[0][:120]!r}", where=where, hint=hint)


def format_docker(images: Sequence[DockerImage]) -> bytes:
    """Return docker's `manifest.json`."""
    return format_canonical(
        [
            {
                "Config": blob_name(image.config),
                "RepoTags": list(image.names),
                "Layers": [blob_name(layer) for layer in image.layers],
            }
            for image in images
        ]
    )


def parse_docker(data: bytes, *, where: str) -> list[DockerImage]:
    """Return the entries of a `manifest.json` whose files are blobs of the layout, or raise InputError."""
    entries = expect_list(parse_json(data, where=where), where=where)
    return [_parse_docker_image(entry, where=f"{where}[{number}]") for number, entry in enumerate(entries)]


def _parse_docker_image(value: object, *, where: str) -> DockerImage:
    fields = expect_object(value, where=where)
    if strange := sorted(fields.keys() - {"Config", "RepoTags", "Layers", "LayerSources"}):
        raise InputError(f"a key that we do not know: {strange[0][:120]!r}", where=where)
    names = expect_list(fields.get("RepoTags") or [], where=f"{where}.RepoTags")
    layers = expect_list(fields.get("Layers"), where=f"{where}.Layers")
    return DockerImage(
        _parse_blob(fields.get("Config"), where=f"{where}.Config"),
        tuple(_parse_blob(layer, where=f"{where}.Layers[{number}]") for number, layer in enumerate(layers)),
        tuple(expect_text(name, where=f"{where}.RepoTags") for name in names),
    )


def _parse_blob(value: Any, *, where: str) -> Digest:  # noqa: ANN401 - JSON has no narrower type
    match = _BLOB.fullmatch(expect_text(value, where=where))
    if match is None:
        raise InputError(f"expected blobs/sha256/…, found {str(value)[:120]!r}", where=where)
    return Digest(f"{match[1]}:{match[2]}")
