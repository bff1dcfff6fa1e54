"""The root secret in parts: all of them together give it back, and one less says nothing about it (exclusive or).

The parts are for as many people or safes. Losing one loses the secret, so keep a copy of each elsewhere. A part names
the secret by a fingerprint that is derived from it and cannot be turned back.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import InputError, UsageError
from packager.seal.bech32 import format_bech32, parse_bech32
from packager.seal.identities import RootSecret
from packager.seal.keyfiles import create_secret_file, read_secret_file
from packager.seal.keys import KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_SHARES = 32

_PREFIX = "wideswe-share-"
_HEAD = re.compile(r"# wideswe share v1: part ([0-9]{1,2}) of ([0-9]{1,2}) of the secret ([0-9a-f]{16})")


@dataclass(frozen=True)
class Share:
    """One part of a root secret: which one, of how many, of which secret."""

    number: int
    total: int
    fingerprint: str
    raw: bytes = field(repr=False)


def fingerprint_of(root: RootSecret) -> str:
    """Return a name for a root secret that gives nothing of it away."""
    return root.derive("fingerprint")[:8].hex()


def split_root(root: RootSecret, total: int) -> list[Share]:
    """Return `total` parts; every one is random by itself."""
    if not 2 <= total <= MAX_SHARES:  # noqa: PLR2004 - one part would be the secret
        raise UsageError(f"expected 2 to {MAX_SHARES} parts, found {total}")
    parts = [secrets.token_bytes(KEY_BYTES) for _ in range(total - 1)]
    parts.append(_combine([root.raw, *parts]))
    return [Share(number, total, fingerprint_of(root), raw) for number, raw in enumerate(parts, start=1)]


def join_shares(shares: Sequence[Share]) -> RootSecret:
    """Return the root secret of all its parts; missing, mixed or damaged parts are an InputError."""
    if len({(share.total, share.fingerprint) for share in shares}) != 1:
        raise InputError("expected parts of one secret", where="shares")
    total = shares[0].total
    missing = sorted(set(range(1, total + 1)) - {share.number for share in shares})
    if missing or len(shares) != total:
        reason = f"expected {total} different parts, found {len(shares)}"
        raise InputError(reason + (f", missing: {', '.join(map(str, missing))}" if missing else ""), where="shares")
    root = RootSecret(_combine([share.raw for share in shares]))
    if fingerprint_of(root) != shares[0].fingerprint:
        raise InputError("what the parts give is not the secret that they name: one is damaged", where="shares")
    return root


def write_share(path: Path, share: Share) -> None:
    """Write a part to a new file."""
    head = f"# wideswe share v1: part {share.number} of {share.total} of the secret {share.fingerprint}"
    create_secret_file(path, f"{head}\n{format_bech32(_PREFIX, share.raw).upper()}\n".encode())


def read_share(path: Path) -> Share:
    """Read a part that `write_share` wrote."""
    head, _, rest = read_secret_file(path).decode("ascii", "replace").partition("\n")
    found = _HEAD.fullmatch(head)
    if found is None:
        raise InputError("expected a part of a root secret, as `wideswe-pack secret split` writes it", where=str(path))
    try:
        raw = parse_bech32(rest.strip(), prefix=_PREFIX, length=KEY_BYTES)
    except InputError as error:
        raise InputError(error.reason, where=str(path)) from error
    return Share(int(found[1]), int(found[2]), found[3], raw)


def _combine(parts: Sequence[bytes]) -> bytes:
    whole = 0
    for part in parts:
        whole ^= int.from_bytes(part, "big")
    return whole.to_bytes(KEY_BYTES, "big")
