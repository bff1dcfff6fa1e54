"""The index of a suite: TUF targets metadata that names every image by digest, versioned, expiring and chained.

One document is TUF's snapshot and targets at once: all digests are in it, so that no two versions can be mixed. Of its
extension `x-wideswe`, `chain` holds the digest of every version before, so that a client which has seen any of them
notices a fork. Fields that a client must understand are named in `critical`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from securesystemslib.exceptions import Error as SecureSystemsError
from tuf.api.metadata import Metadata, TargetFile, Targets

from packager.base.digests import Digest, digest_of, hex_of, parse_digest
from packager.base.errors import InputError, TrustError
from packager.oci.descriptor import expect_list, expect_object, expect_size, expect_text
from packager.trust.roots import EXTENSION, format_metadata, parse_metadata, signed_bytes
from packager.trust.strict import expect_fields

if TYPE_CHECKING:
    from datetime import datetime

    from packager.trust.roots import RootDocument

MAX_IMAGES = 4096
MAX_VERSIONS = 1 << 16
CLIENT = 1
"""What this client understands; a suite may ask for more."""

_KNOWN = ("suite", "home", "issued", "chain", "revoked", "min_client", "critical")


@dataclass(frozen=True, order=True)
class ListedImage:
    """One image of a suite."""

    task: str
    platform: str
    manifest: Digest
    size: int
    config: Digest
    sealed: Digest
    reference: str

    @property
    def path(self) -> str:
        """Its name in the index."""
        return f"{self.task}/{self.platform}"


@dataclass(frozen=True, order=True)
class RevokedImage:
    """An image that must not be used any more, and since which version."""

    manifest: Digest
    since: int
    reason: str


@dataclass(frozen=True)
class SuiteContents:
    """What an index says; sorted at birth."""

    suite: str
    home: str
    version: int
    expires: datetime
    issued: str
    images: tuple[ListedImage, ...] = ()
    revoked: tuple[RevokedImage, ...] = ()
    chain: tuple[Digest, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "images", tuple(sorted(self.images)))
        object.__setattr__(self, "revoked", tuple(sorted(self.revoked)))
        if len(self.chain) != self.version - 1:
            reason = f"expected the digests of {self.version - 1} versions before, found {len(self.chain)}"
            raise InputError(reason, where="suite index")
        if len({image.path for image in self.images}) != len(self.images):
            raise InputError("expected each task and platform once", where="suite index")


@dataclass(frozen=True)
class IndexDocument:
    """One version of a suite's index: its bytes, and what they say."""

    data: bytes = field(repr=False)
    metadata: Metadata[Targets] = field(repr=False)
    contents: SuiteContents

    @property
    def digest(self) -> Digest:
        """The digest of what is signed: more signatures on the same version change nothing."""
        return digest_of(signed_bytes(self.metadata))


def make_index(contents: SuiteContents) -> IndexDocument:
    """Return an index that nobody has signed yet."""
    targets = {image.path: _format_image(image) for image in contents.images}
    extension = {
        "suite": contents.suite,
        "home": contents.home,
        "issued": contents.issued,
        "chain": list(contents.chain),
        "revoked": [
            {"digest": image.manifest, "since_version": image.since, "reason": image.reason}
            for image in contents.revoked
        ],
        "min_client": CLIENT,
        "critical": [],
    }
    signed = Targets(contents.version, None, contents.expires, targets, None, {EXTENSION: extension})
    metadata = Metadata(signed)
    return IndexDocument(format_metadata(metadata), metadata, contents)


def parse_index(data: bytes, *, where: str = "suite index") -> IndexDocument:
    """Return an index; what a client must understand and this one does not is a TrustError."""
    metadata = parse_metadata(data, Targets, where=where)
    signed: Targets = metadata.signed
    if signed.delegations is not None:
        raise InputError("expected no delegations: they are not followed", where=where)
    if len(signed.targets) > MAX_IMAGES:
        raise InputError(f"expected at most {MAX_IMAGES} images, found {len(signed.targets)}", where=where)
    place = f"{where}.{EXTENSION}"
    fields = expect_object(signed.unrecognized_fields.get(EXTENSION), where=place)
    _check_understood(fields, where=place)
    contents = SuiteContents(
        expect_text(fields.get("suite"), where=f"{place}.suite"),
        expect_text(fields.get("home"), where=f"{place}.home"),
        signed.version,
        signed.expires,
        expect_text(fields.get("issued"), where=f"{place}.issued"),
        tuple(_parse_image(path, target, where=f"{where}.targets") for path, target in signed.targets.items()),
        _parse_revoked(fields.get("revoked"), where=f"{place}.revoked"),
        _parse_chain(fields.get("chain"), where=f"{place}.chain"),
    )
    return IndexDocument(data, metadata, contents)


def index_signed_by_enough(index: IndexDocument, root: RootDocument) -> tuple[bool, str]:
    """Tell whether an index is signed by the threshold of a root's release keys."""
    try:
        found = root.metadata.signed.get_verification_result(
            "targets", signed_bytes(index.metadata), index.metadata.signatures
        )
    except (SecureSystemsError, ValueError, TypeError) as error:
        raise TrustError(f"its signatures cannot be read: {error}", where="suite index") from error
    return found.verified, f"signed by {len(found.signed)} of {found.threshold} release keys of root {root.version}"


def _check_understood(fields: dict[str, Any], *, where: str) -> None:
    critical = expect_list(fields.get("critical", []), where=f"{where}.critical")
    unknown = [str(name)[:80] for name in critical if name not in _KNOWN]
    least = fields.get("min_client", CLIENT)
    if unknown or not isinstance(least, int) or least > CLIENT:
        reason = f"the field {unknown[0]!r}" if unknown else f"a client that knows version {str(least)[:40]}"
        raise TrustError(f"the suite asks for {reason}", where=where, hint="install a newer wideswe-pack")


def _format_image(image: ListedImage) -> TargetFile:
    custom = {
        "task": image.task,
        "platform": image.platform,
        "config": image.config,
        "sealed": image.sealed,
        "reference": image.reference,
    }
    return TargetFile(image.size, {"sha256": hex_of(image.manifest)}, image.path, {"custom": custom})


def _parse_image(path: str, target: TargetFile, *, where: str) -> ListedImage:
    place = f"{where}[{path[:80]!r}]"
    wanted = {"task", "platform", "config", "sealed", "reference"}
    custom = expect_fields(target.custom, wanted, where=f"{place}.custom")
    sha256 = expect_text(target.hashes.get("sha256"), where=f"{place}.hashes.sha256")
    image = ListedImage(
        expect_text(custom["task"], where=f"{place}.custom.task"),
        expect_text(custom["platform"], where=f"{place}.custom.platform"),
        parse_digest(f"sha256:{sha256}", where=f"{place}.hashes.sha256"),
        expect_size(target.length, where=f"{place}.length"),
        parse_digest(custom["config"], where=f"{place}.custom.config"),
        parse_digest(custom["sealed"], where=f"{place}.custom.sealed"),
        expect_text(custom["reference"], where=f"{place}.custom.reference"),
    )
    if image.path != path:
        raise InputError(f"expected the name {image.path[:200]}", where=place)
    return image


def _parse_revoked(value: object, *, where: str) -> tuple[RevokedImage, ...]:
    rows = expect_list(value, where=where)
    return tuple(_parse_revocation(row, where=f"{where}[{n}]") for n, row in enumerate(rows))


def _parse_revocation(value: object, *, where: str) -> RevokedImage:
    fields = expect_fields(value, {"digest", "since_version", "reason"}, where=where)
    return RevokedImage(
        parse_digest(fields["digest"], where=f"{where}.digest"),
        expect_size(fields["since_version"], where=f"{where}.since_version"),
        expect_text(fields["reason"], where=f"{where}.reason"),
    )


def _parse_chain(value: object, *, where: str) -> tuple[Digest, ...]:
    digests = expect_list(value, where=where)
    if len(digests) > MAX_VERSIONS:
        raise InputError(f"expected at most {MAX_VERSIONS} versions, found {len(digests)}", where=where)
    return tuple(parse_digest(digest, where=f"{where}[{n}]") for n, digest in enumerate(digests))
