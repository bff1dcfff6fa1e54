"""Who can open what: the suite's root secret, the identity of each task, evaluators' keys, and grants.

A seal has one recipient, the identity of its task, which is derived from the root: so its bytes do not depend on who
may evaluate. A grant is an ordinary age file that hands a task's identity to evaluators' keys; stock age opens
it: `age -d -i <(age -d -i evaluator.key grant.age) sealed.age`.
"""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import InputError, TrustError
from packager.seal.age_format import hkdf
from packager.seal.age_reader import read_age
from packager.seal.bech32 import format_bech32, parse_bech32
from packager.seal.keyfiles import create_secret_file, read_secret_file
from packager.seal.keys import (
    KEY_BYTES,
    Identity,
    Recipient,
    format_identity,
    parse_identity,
    parse_recipient,
    recipient_of,
)
from packager.seal.stock_age import decrypt_with_age, encrypt_with_age, is_foreign_identity, is_foreign_recipient

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_IDENTITIES = 1024
GRANT_LIMIT_BYTES = 1 << 20

_ROOT_PREFIX = "wideswe-root-"
_GRANT_TITLE = "wideswe grant v1"
_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True)
class RootSecret:
    """The secret of one suite: whoever has it opens every seal of the suite, past and future."""

    raw: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.raw) != KEY_BYTES:
            raise InputError(f"expected a root secret of {KEY_BYTES} bytes, found {len(self.raw)}")

    def derive(self, purpose: str) -> bytes:
        """Return the 32 bytes for one purpose (`seal`, `identity`, …): purposes cannot be computed from each other."""
        return hkdf(self.raw, salt=b"wideswe root v1", purpose=purpose.encode())


def create_root() -> RootSecret:
    """Make the secret of a new suite."""
    return RootSecret(os.urandom(KEY_BYTES))


def write_root(path: Path, root: RootSecret) -> None:
    """Write a root secret to a new file."""
    text = f"# wideswe root secret v1: keep it offline, it opens every seal of its suite\n{_format_root(root)}\n"
    create_secret_file(path, text.encode())


def read_root(path: Path) -> RootSecret:
    """Read the file that `write_root` wrote."""
    lines = _key_lines(read_secret_file(path), where=str(path))
    if len(lines) != 1:
        raise InputError(f"expected one root secret, found {len(lines)} keys", where=str(path))
    return RootSecret(parse_bech32(lines[0], prefix=_ROOT_PREFIX, length=KEY_BYTES))


def task_identity(root: RootSecret, suite: str, task: str) -> tuple[Identity, Recipient]:
    """Return the key pair to which the seals of one task are encrypted, in every version of its suite."""
    name = f"{parse_name(suite, where='suite')}/{parse_name(task, where='task')}"
    raw = hkdf(root.derive("identity"), salt=b"", purpose=b"wideswe task identity v1\0" + name.encode())
    identity = format_identity(raw)
    return identity, recipient_of(identity)


def parse_name(text: str, *, where: str) -> str:
    """Return the name of a suite, task, version or target: lower-case words joined by dots, dashes or underscores."""
    if len(text) > 200 or _NAME.fullmatch(text) is None:  # noqa: PLR2004 - fits a file name
        raise InputError(f"expected lower-case words joined by `.`, `-` or `_`, found {text[:80]!r}", where=where)
    return text


def create_evaluator_key() -> tuple[Identity, Recipient]:
    """Make the key pair of someone who evaluates."""
    identity = format_identity(os.urandom(KEY_BYTES))
    return identity, recipient_of(identity)


def write_identity(path: Path, identity: str) -> None:
    """Write a private key to a new file, in the form of `age-keygen`."""
    create_secret_file(path, f"# public key: {recipient_of(identity)}\n{identity}\n".encode())


def read_identities(path: Path) -> tuple[Identity, ...]:
    """Read an age identity file: one or more keys and comments."""
    return parse_identities(read_secret_file(path), where=str(path))


def parse_identities(data: bytes, *, where: str) -> tuple[Identity, ...]:
    """Return the keys of an identity file; no keys or other lines are an InputError that shows none of them."""
    lines = _key_lines(data, where=where)
    if not 1 <= len(lines) <= MAX_IDENTITIES:
        raise InputError(f"expected 1 to {MAX_IDENTITIES} identities, found {len(lines)}", where=where)
    for line in lines:
        try:
            parse_identity(line)
        except InputError as error:
            raise InputError(error.reason, where=where, hint=error.hint) from error
    return tuple(Identity(line) for line in lines)


def parse_evaluators(data: bytes, *, where: str) -> Identity:
    """Return the keys of whoever evaluates, one a line: ours, or of an age plugin; the text is shown in no error."""
    lines = _key_lines(data, where=where)
    own = [line for line in lines if not is_foreign_identity(line)]
    if own or not lines:
        parse_identities("\n".join(own).encode(), where=where)
    return Identity("\n".join(lines))


def make_grants(
    identity: str, recipients: Sequence[str], comment: str = "", *, root: RootSecret | None = None
) -> list[bytes]:
    """Return age files that hand `identity` to all recipients: one for X25519 keys, one for each key of a plugin."""
    foreign = [recipient for recipient in dict.fromkeys(recipients) if is_foreign_recipient(recipient)]
    own = [recipient for recipient in recipients if recipient not in foreign]
    plain = _grant_text(identity, comment)
    files = [encrypt_with_age(plain, [recipient]) for recipient in foreign]
    return [*([make_grant(identity, own, comment, root=root)] if own or not files else []), *files]


def make_grant(identity: str, recipients: Sequence[str], comment: str = "", *, root: RootSecret | None = None) -> bytes:
    """Return an age file that hands `identity` (keys, one a line) to evaluators.

    With `root` the same grant is the same bytes, so that signing again adds none; without, it is random.
    """
    for recipient in recipients:
        parse_recipient(recipient)
    plain = _grant_text(identity, comment)
    secret = os.urandom(KEY_BYTES) if root is None else root.derive("grant")
    from packager.seal.age_writer import write_age  # noqa: PLC0415 - whoever opens a seal needs none

    return b"".join(write_age(plain, recipients, secret=secret, context=_GRANT_TITLE))


def open_grant(data: bytes, evaluator_identity: str, *, where: str = "grant") -> Identity:
    """Return what a grant hands over; several identities come as several lines, as `open_seal` takes them."""
    lines = parse_evaluators(evaluator_identity.encode(), where="evaluator's identity").split("\n")
    if len(data) > 2 * GRANT_LIMIT_BYTES:
        raise InputError(f"expected at most {2 * GRANT_LIMIT_BYTES} bytes of grant, found {len(data)}", where=where)
    plain = _decrypt_grant(data, lines, where=where)
    if plain.split(b"\n", 1)[0] != f"# {_GRANT_TITLE}".encode():
        raise InputError(f"what it holds does not begin with `# {_GRANT_TITLE}`", where=where)
    return Identity("\n".join(parse_identities(plain, where=where)))


def _decrypt_grant(data: bytes, lines: Sequence[str], *, where: str) -> bytes:
    foreign = [line for line in lines if is_foreign_identity(line)]
    own = [line for line in lines if line not in foreign]
    try:
        if own:
            return b"".join(read_age(io.BytesIO(data), own, where=where))
    except TrustError:
        if not foreign:
            raise
    return decrypt_with_age(data, foreign, where=where)


def _grant_text(identity: str, comment: str) -> bytes:
    identities = parse_identities(identity.encode(), where="identity to grant")
    remarks = [f"# {line}" for line in (_GRANT_TITLE, *comment.splitlines())]
    plain = "\n".join([*remarks, *identities, ""]).encode()
    if len(plain) > GRANT_LIMIT_BYTES:
        raise InputError(f"expected at most {GRANT_LIMIT_BYTES} bytes of grant, found {len(plain)}")
    return plain


def _format_root(root: RootSecret) -> str:
    return format_bech32(_ROOT_PREFIX, root.raw).upper()


def _key_lines(data: bytes, *, where: str) -> list[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InputError("not a text file of keys", where=where) from None
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]
