"""Keys that are not ours to use: age plugins (hardware, agents) and post-quantum keys go through the `age` program."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.errors import InputError, IntegrityError, TrustError

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOREIGN_IDENTITY = re.compile(r"AGE-(?:PLUGIN-[A-Z0-9+._-]+-1|SECRET-KEY-PQ-1)[A-Z0-9]+", re.ASCII)
_FOREIGN_RECIPIENT = re.compile(r"age1(?:[a-z0-9+._-]+1)[a-z0-9]{6,}", re.ASCII)
_TIMEOUT_S = 300.0
"""A person may have to touch a key or type a code."""
_NOT_FOR_US = b"no identity matched"
_TAIL_BYTES = 400


def is_foreign_identity(line: str) -> bool:
    """Tell whether a line of an identity file is a key that only `age` can use."""
    return _FOREIGN_IDENTITY.fullmatch(line) is not None


def is_foreign_recipient(text: str) -> bool:
    """Tell whether a recipient is one that only `age` can encrypt to: `age1NAME1…`."""
    return _FOREIGN_RECIPIENT.fullmatch(text) is not None


def decrypt_with_age(data: bytes, identities: Sequence[str], *, where: str) -> bytes:
    """Return the plaintext; the keys go through standard input, so that none is on disk or in an argument."""
    import tempfile  # noqa: PLC0415 - slow to import, and few have such keys

    from packager.base.processes import Surroundings, run  # noqa: PLC0415

    with tempfile.NamedTemporaryFile(prefix="wideswe-grant-") as stream:
        stream.write(data)
        stream.flush()
        keys = "\n".join([*identities, ""]).encode()
        done = run([_program(), "-d", "-i", "-", stream.name], Surroundings(stdin=keys, timeout_s=_TIMEOUT_S))
    if done.exit_code == 0:
        return done.stdout
    if _NOT_FOR_US in done.stderr:
        raise TrustError(f"none of {len(identities)} given identities opens it", where=where)
    said = done.stderr[:_TAIL_BYTES].decode(errors="replace").strip()
    raise IntegrityError(f"age does not open it: {said}", where=where)


def encrypt_with_age(plain: bytes, recipients: Sequence[str]) -> bytes:
    """Return an age file for recipients of one kind; its bytes are others each time."""
    from packager.base.processes import Surroundings, run  # noqa: PLC0415 - slow to import, and few have such keys

    words = [word for recipient in recipients for word in ("-r", recipient)]
    done = run([_program(), "-e", *words], Surroundings(stdin=plain, timeout_s=_TIMEOUT_S))
    if done.exit_code != 0:
        said = done.stderr[:_TAIL_BYTES].decode(errors="replace").strip()
        raise InputError(f"age does not encrypt to {', '.join(recipients)}: {said}", where="grant")
    return done.stdout


def _program() -> str:
    from packager.base.processes import find_program  # noqa: PLC0415

    program = find_program("age")
    if program is None:
        hint = "install age (1.1 or newer) and the plugin; X25519 keys (age1…) need neither"
        raise InputError("a key of an age plugin, and there is no age program", hint=hint)
    return program
