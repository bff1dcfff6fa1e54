"""What the store remembers of one task's image: its manifest and everything that hangs on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.canonical import format_canonical, parse_json
from packager.oci.descriptor import (
    Descriptor,
    expect_list,
    expect_object,
    expect_text,
    format_descriptor,
    parse_descriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class SignatureTag:
    """A signature manifest that is found by its tag (`sha256-….sig`)."""

    tag: str
    manifest: Descriptor


@dataclass(frozen=True)
class ImageRecord:
    """One image and its signatures, referrers and grants (manifests, all of them, in the store)."""

    manifest: Descriptor
    signatures: tuple[SignatureTag, ...] = ()
    referrers: tuple[Descriptor, ...] = ()
    grants: tuple[Descriptor, ...] = ()

    def manifests(self) -> Iterable[Descriptor]:
        """Every manifest of the record, the image's own first."""
        yield self.manifest
        yield from (signature.manifest for signature in self.signatures)
        yield from self.referrers
        yield from self.grants


def format_record(record: ImageRecord) -> bytes:
    """Return a record as canonical JSON."""
    signatures = [
        {"tag": signature.tag, "manifest": format_descriptor(signature.manifest)} for signature in record.signatures
    ]
    return format_canonical(
        {
            "manifest": format_descriptor(record.manifest),
            "signatures": signatures,
            "referrers": [format_descriptor(referrer) for referrer in record.referrers],
            "grants": [format_descriptor(grant) for grant in record.grants],
        }
    )


def parse_record(data: bytes, *, where: str = "image record") -> ImageRecord:
    """Return a record, or raise InputError."""
    fields = expect_object(parse_json(data, where=where), where=where)
    signatures = expect_list(fields.get("signatures", []), where=f"{where}.signatures")
    return ImageRecord(
        parse_descriptor(fields.get("manifest"), where=f"{where}.manifest"),
        tuple(_parse_signature(value, where=f"{where}.signatures[{n}]") for n, value in enumerate(signatures)),
        _parse_list(fields.get("referrers", []), where=f"{where}.referrers"),
        _parse_list(fields.get("grants", []), where=f"{where}.grants"),
    )


def _parse_signature(value: object, *, where: str) -> SignatureTag:
    fields = expect_object(value, where=where)
    tag = expect_text(fields.get("tag"), where=f"{where}.tag")
    return SignatureTag(tag, parse_descriptor(fields.get("manifest"), where=f"{where}.manifest"))


def _parse_list(value: object, *, where: str) -> tuple[Descriptor, ...]:
    values = expect_list(value, where=where)
    return tuple(parse_descriptor(item, where=f"{where}[{n}]") for n, item in enumerate(values))
