"""OCI content descriptors (image-spec, descriptor.md)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packager.base.digests import Digest, digest_of, parse_digest
from packager.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SIZE = (1 << 53) - 1
"""Sizes above this are not exact in every JSON reader."""


@dataclass(frozen=True)
class Descriptor:
    """Where bytes are and what they are: media type, digest, size; `platform` is `os/architecture[/variant]`."""

    media_type: str
    digest: Digest
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    artifact_type: str | None = None
    platform: str | None = None


def parse_descriptor(value: object, *, where: str) -> Descriptor:
    """Return a descriptor from its JSON value; foreign `urls` are refused and inline `data` must match."""
    fields = expect_object(value, where=where)
    digest = parse_digest(expect_text(fields.get("digest"), where=f"{where}.digest"), where=f"{where}.digest")
    size = expect_size(fields.get("size"), where=f"{where}.size")
    if fields.get("urls"):
        raise InputError("expected no urls, found a layer that lies elsewhere", where=f"{where}.urls")
    _check_data(fields.get("data"), digest, size, where=f"{where}.data")
    return Descriptor(
        expect_text(fields.get("mediaType"), where=f"{where}.mediaType"),
        digest,
        size,
        parse_annotations(fields.get("annotations"), where=f"{where}.annotations"),
        optional_text(fields.get("artifactType"), where=f"{where}.artifactType"),
        _parse_platform(fields.get("platform"), where=f"{where}.platform"),
    )


def format_descriptor(descriptor: Descriptor) -> dict[str, object]:
    """Return a descriptor as a JSON value; empty fields are left out."""
    value: dict[str, object] = {
        "mediaType": descriptor.media_type,
        "digest": descriptor.digest,
        "size": descriptor.size,
    }
    if descriptor.annotations:
        value["annotations"] = dict(descriptor.annotations)
    if descriptor.artifact_type is not None:
        value["artifactType"] = descriptor.artifact_type
    if descriptor.platform is not None:
        names = ("os", "architecture", "variant")
        value["platform"] = dict(zip(names, descriptor.platform.split("/"), strict=False))
    return value


def describe(media_type: str, data: bytes) -> Descriptor:
    """Return the descriptor of bytes at hand."""
    return Descriptor(media_type, digest_of(data), len(data))


def expect_object(value: object, *, where: str) -> dict[str, Any]:
    """Return a JSON object, or raise InputError."""
    if not isinstance(value, dict):
        raise InputError(f"expected an object, found {_name(value)}", where=where)
    return value


def expect_list(value: object, *, where: str) -> list[Any]:
    """Return a JSON list, or raise InputError."""
    if not isinstance(value, list):
        raise InputError(f"expected a list, found {_name(value)}", where=where)
    return value


def expect_text(value: object, *, where: str) -> str:
    """Return a non-empty JSON string, or raise InputError."""
    if not isinstance(value, str) or not value:
        raise InputError(f"expected a text, found {_name(value)}", where=where)
    return value


def optional_text(value: object, *, where: str) -> str | None:
    """Return a JSON string or None, or raise InputError."""
    return None if value is None or value == "" else expect_text(value, where=where)


def expect_size(value: object, *, where: str) -> int:
    """Return a size in bytes, or raise InputError."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SIZE:
        raise InputError(f"expected a size in bytes, found {str(value)[:40]}", where=where)
    return value


def parse_annotations(value: object, *, where: str) -> dict[str, str]:
    """Return a map of texts (null: empty), or raise InputError."""
    fields = {} if value is None else expect_object(value, where=where)
    for key, text in fields.items():
        if not isinstance(text, str):
            raise InputError(f"expected a text, found {_name(text)}", where=f"{where}[{key[:80]!r}]")
    return fields


def _parse_platform(value: object, *, where: str) -> str | None:
    if value is None:
        return None
    fields = expect_object(value, where=where)
    parts = [expect_text(fields.get(key), where=f"{where}.{key}") for key in ("os", "architecture")]
    variant = optional_text(fields.get("variant"), where=f"{where}.variant")
    return "/".join(parts if variant is None else [*parts, variant])


def _check_data(value: object, digest: Digest, size: int, *, where: str) -> None:
    if value is None:
        return
    try:
        data = base64.b64decode(expect_text(value, where=where), validate=True)
    except binascii.Error as error:
        raise InputError("expected base64", where=where) from error
    if len(data) != size or digest_of(data) != digest:
        raise InputError("inline data is not what the digest and size say", where=where)


def _name(value: object) -> str:
    return "nothing" if value is None else "an empty text" if value == "" else type(value).__name__
