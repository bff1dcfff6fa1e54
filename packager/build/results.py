"""What a derivation leaves behind: a layer, kept as canonical JSON under the derivation's key."""

from __future__ import annotations

from dataclasses import asdict

from packager.base.canonical import format_canonical, parse_json
from packager.base.digests import DiffId, parse_digest
from packager.base.errors import InputError
from packager.oci.layer import Layer


def format_layer(layer: Layer | None) -> bytes:
    """Return a derivation's result as canonical JSON; a step that changed nothing is `null`."""
    return format_canonical(None if layer is None else asdict(layer))


def parse_layer(data: bytes) -> Layer | None:
    """Return a derivation's result, or raise InputError."""
    value = parse_json(data, where="derivation result")
    if value is None:
        return None
    try:
        return Layer(
            diff_id=DiffId(parse_digest(value["diff_id"])),
            digest=parse_digest(value["digest"]),
            size=int(value["size"]),
            diff_size=int(value["diff_size"]),
            media_type=str(value["media_type"]),
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"expected a layer, found {value!r}", where="derivation result") from error
