"""The legacy signed document of cosign ("simple signing"): which manifest digest was published under which name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.canonical import parse_json
from packager.base.digests import Digest, parse_digest
from packager.base.errors import InputError
from packager.oci.descriptor import expect_text
from packager.oci.reference import parse_reference
from packager.trust.strict import expect_fields

if TYPE_CHECKING:
    from packager.oci.reference import Reference

LIMIT_BYTES = 1 << 16

_TYPE = "cosign container image signature"
_OPTIONAL_LIMIT = 64


@dataclass(frozen=True)
class Payload:
    """What a legacy signature says: the name that the image was published under, and its manifest's digest."""

    docker_reference: str
    manifest_digest: Digest


def parse_published_name(text: str, *, where: str = "reference") -> Reference:
    """Return a reference of the form home/repository:tag; a tag keeps a signature from being moved to another tag."""
    reference = parse_reference(text, where=where)
    if reference.tag is None or reference.digest is not None:
        raise InputError(f"expected home/repository:tag without a digest, found {text[:200]!r}", where=where)
    return reference


def format_payload(payload: Payload) -> bytes:
    """Return the document byte for byte as Go's encoder writes it (sigstore, pkg/signature/payload)."""
    parse_published_name(payload.docker_reference)
    parse_digest(payload.manifest_digest)
    return (
        f'{{"critical":{{"identity":{{"docker-reference":"{payload.docker_reference}"}},'
        f'"image":{{"docker-manifest-digest":"{payload.manifest_digest}"}},'
        f'"type":"{_TYPE}"}},"optional":null}}'
    ).encode()


def parse_payload(data: bytes, *, where: str = "payload") -> Payload:
    """Return what a document says; the exact set of fields is required, as containers/image does."""
    fields = expect_fields(parse_json(data, where=where, limit=LIMIT_BYTES), {"critical", "optional"}, where=where)
    if fields["optional"] is not None:
        _check_optional(fields["optional"], where=f"{where}.optional")
    critical = expect_fields(fields["critical"], {"identity", "image", "type"}, where=f"{where}.critical")
    if critical["type"] != _TYPE:
        raise InputError(f"expected {_TYPE}, found {str(critical['type'])[:80]}", where=f"{where}.critical.type")
    place = f"{where}.critical.identity"
    identity = expect_fields(critical["identity"], {"docker-reference"}, where=place)
    name = expect_text(identity["docker-reference"], where=f"{place}.docker-reference")
    place = f"{where}.critical.image"
    image = expect_fields(critical["image"], {"docker-manifest-digest"}, where=place)
    digest = expect_text(image["docker-manifest-digest"], where=f"{place}.docker-manifest-digest")
    return Payload(name, parse_digest(digest, where=f"{place}.docker-manifest-digest"))


def _check_optional(value: object, *, where: str) -> None:
    if not isinstance(value, dict) or len(value) > _OPTIONAL_LIMIT:
        raise InputError(f"expected null or an object of at most {_OPTIONAL_LIMIT} fields", where=where)
