"""Root documents of a suite: TUF root metadata that says which keys may sign what, and how many of them must.

Of TUF's roles we use root and targets (here: release); snapshot and timestamp need short expiries, which no disk that
travels can keep, so they are given to the release keys and never used. The role attest is ours: it stands in the field
`x-wideswe`, which TUF covers with its signatures and otherwise leaves alone. Thresholds are counted by `tuf`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from securesystemslib.exceptions import Error as SecureSystemsError
from securesystemslib.signer import Signature, SSlibKey
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, Role, Root, Signed
from tuf.api.serialization import DeserializationError, SerializationError

from packager.base.canonical import parse_json
from packager.base.digests import Digest, digest_of
from packager.base.errors import InputError, TrustError
from packager.trust.keys import PublicKey, parse_public_key
from packager.trust.strict import expect_fields

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from securesystemslib.signer import Key

    from packager.trust.keys import PrivateKey

LIMIT_BYTES = 4 << 20
EXTENSION = "x-wideswe"
ROLES = ("root", "release", "attest")
MAX_KEYS = 64

_TUF_ROLES = {"root": "root", "release": "targets"}
_UNUSED = ("snapshot", "timestamp")
_SCHEME = "ecdsa-sha2-nistp256"

logging.getLogger("tuf").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class RoleKeys:
    """Who has a role, and how many of them must sign; keys are sorted, each once."""

    keys: tuple[PublicKey, ...]
    threshold: int = 1

    def __post_init__(self) -> None:
        unique = {key.der: key for key in self.keys}
        object.__setattr__(self, "keys", tuple(unique[der] for der in sorted(unique)))
        if not 1 <= self.threshold <= len(self.keys):
            reason = f"expected a threshold from 1 to {len(self.keys)}, the number of different keys"
            raise InputError(f"{reason}, found {self.threshold}", where="role")


@dataclass(frozen=True)
class RootDocument:
    """One version of a suite's root: its bytes, and what they say."""

    data: bytes = field(repr=False)
    metadata: Metadata[Root] = field(repr=False)
    suite: str
    roles: Mapping[str, RoleKeys]

    @property
    def version(self) -> int:
        """The version."""
        return self.metadata.signed.version

    @property
    def digest(self) -> Digest:
        """The digest of what is signed: what a trust policy pins; more signatures change nothing."""
        return digest_of(signed_bytes(self.metadata))


def make_root(suite: str, version: int, expires: datetime, roles: Mapping[str, RoleKeys]) -> RootDocument:
    """Return a root that nobody has signed yet."""
    keys: dict[str, Key] = {entry.keyid: entry for role in roles.values() for entry in map(tuf_key, role.keys)}
    tuf_roles = {name: _format_role(roles[ours]) for ours, name in _TUF_ROLES.items()}
    tuf_roles |= {name: _format_role(roles["release"]) for name in _UNUSED}
    attest = _format_role(roles["attest"])
    extension = {"suite": suite, "attest": {"keyids": attest.keyids, "threshold": attest.threshold}}
    root = Root(version, None, expires, keys, tuf_roles, False, {EXTENSION: extension})  # noqa: FBT003 - tuf's order
    metadata = Metadata(root)
    return RootDocument(format_metadata(metadata), metadata, suite, dict(roles))


def parse_root(data: bytes, *, where: str = "root") -> RootDocument:
    """Return a root; one key under two names is refused, since it would count twice (GHSA-3633-5h82-39pq)."""
    metadata = parse_metadata(data, Root, where=where)
    root = metadata.signed
    if len(root.keys) > MAX_KEYS:
        raise InputError(f"expected at most {MAX_KEYS} keys, found {len(root.keys)}", where=where)
    keys = {keyid: _parse_key(keyid, key, where=where) for keyid, key in root.keys.items()}
    extension = root.unrecognized_fields.get(EXTENSION)
    fields = expect_fields(extension, {"suite", "attest"}, where=f"{where}.{EXTENSION}")
    if not isinstance(fields["suite"], str):
        raise InputError("expected a text", where=f"{where}.{EXTENSION}.suite")
    place = f"{where}.{EXTENSION}.attest"
    attest = expect_fields(fields["attest"], {"keyids", "threshold"}, where=place)
    roles = {
        ours: _parse_role(root.roles[name], keys, where=f"{where}.roles.{name}") for ours, name in _TUF_ROLES.items()
    }
    roles["attest"] = _parse_role(_role_of(attest, where=place), keys, where=place)
    return RootDocument(data, metadata, fields["suite"], roles)


def signed_by_enough(root: RootDocument, previous: RootDocument | None) -> tuple[bool, str]:
    """Tell whether a root is signed as TUF asks: by its own threshold and that of the root before, if there is one."""
    payload = signed_bytes(root.metadata)
    try:
        found = root.metadata.signed.get_root_verification_result(
            None if previous is None else previous.metadata.signed, payload, root.metadata.signatures
        )
    except (SecureSystemsError, ValueError, TypeError) as error:
        raise TrustError(f"its signatures cannot be read: {error}", where=f"root {root.version}") from error
    first, second = found.first, found.second
    counts = f"{len(second.signed)} of {second.threshold} keys"
    if previous is not None:
        counts = f"{len(first.signed)} of {first.threshold} keys of root {previous.version}, {counts} of its own"
    return found.verified, f"signed by {counts}"


def add_signature(metadata: Metadata[Any], key: PrivateKey) -> bytes:
    """Add a key's signature to a document and return the document's bytes; the same key gives the same signature."""
    keyid = tuf_key(key.public).keyid
    metadata.signatures[keyid] = Signature(keyid, key.sign(signed_bytes(metadata)).hex())
    metadata.signatures = dict(sorted(metadata.signatures.items()))
    return format_metadata(metadata)


def tuf_key(key: PublicKey) -> SSlibKey:
    """Return a key as TUF spells it; its id is the one that the library derives from the key itself."""
    return SSlibKey.from_crypto(key.crypto)


def parse_metadata(data: bytes, kind: type[Signed], *, where: str) -> Metadata[Any]:
    """Return TUF metadata of one kind; what cannot be read, or could be read in two ways, is an InputError."""
    parse_json(data, where=where, limit=LIMIT_BYTES)
    try:
        found: Metadata[Any] = Metadata.from_bytes(data)
        signed_bytes(found)
    except (DeserializationError, SerializationError) as error:
        cause = error.__cause__ or error
        raise InputError(f"not TUF metadata: {cause!r:.200}", where=where) from error
    if not isinstance(found.signed, kind):
        raise InputError(f"expected {kind.type} metadata, found {found.signed.type}", where=where)
    if not isinstance(found.signed.version, int) or isinstance(found.signed.version, bool):
        raise InputError("expected a whole number", where=f"{where}.version")
    return found


def signed_bytes(metadata: Metadata[Any]) -> bytes:
    """Return the bytes under the signatures of TUF metadata (canonical JSON of its signed part)."""
    try:
        return metadata.signed_bytes
    except (RepositoryError, ValueError, TypeError) as error:
        raise InputError(f"not TUF metadata: {error!r:.200}") from error


def format_metadata(metadata: Metadata[Any]) -> bytes:
    """Return the bytes of TUF metadata."""
    return metadata.to_bytes()


def _format_role(role: RoleKeys) -> Role:
    return Role(sorted(tuf_key(key).keyid for key in role.keys), role.threshold)


def _role_of(fields: dict[str, Any], *, where: str) -> Role:
    keyids, threshold = fields["keyids"], fields["threshold"]
    texts = isinstance(keyids, list) and all(isinstance(keyid, str) for keyid in keyids)
    if not texts or not isinstance(threshold, int) or isinstance(threshold, bool):
        raise InputError("expected a list of key ids and a threshold", where=where)
    try:
        return Role(keyids, threshold)
    except ValueError as error:
        raise InputError(str(error), where=where) from error


def _parse_role(role: Role, keys: Mapping[str, PublicKey], *, where: str) -> RoleKeys:
    unknown = [keyid for keyid in role.keyids if keyid not in keys]
    if unknown:
        raise InputError(f"a key that is not in the document: {str(unknown[0])[:80]}", where=where)
    if not isinstance(role.threshold, int) or isinstance(role.threshold, bool):
        raise InputError("expected a whole number", where=f"{where}.threshold")
    try:
        return RoleKeys(tuple(keys[keyid] for keyid in role.keyids), role.threshold)
    except InputError as error:
        raise InputError(error.reason, where=where) from error


def _parse_key(keyid: str, key: object, *, where: str) -> PublicKey:
    place = f"{where}.keys.{keyid[:16]}"
    if not isinstance(key, SSlibKey) or key.scheme != _SCHEME:
        raise InputError(f"expected the scheme {_SCHEME}, found {str(getattr(key, 'scheme', key))[:80]}", where=place)
    public = parse_public_key(str(key.keyval.get("public")).encode(), where=place)
    if tuf_key(public).keyid != keyid:
        hint = "the same key under another id would count as another key"
        raise InputError("its id is not the one that the key itself gives", where=place, hint=hint)
    return public
