"""The credential of a model endpoint: read on the host, added by the gateway, never shown to anybody."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base.errors import InputError
from packager.base.files import read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMIT_BYTES = 64 << 10
_SECRET = re.compile(r"[\x21-\x7e]{8,}")
_STAR = b"*"


@dataclass(frozen=True)
class CredentialSource:
    """Where a credential is had, a variable or a file, and the header that carries it as `value`, in which {} is it."""

    header: str
    value: str = "{}"
    variable: str = ""
    file: str = ""

    def read(self, environment: Mapping[str, str]) -> Credential:
        """Return the credential; InputError, which shows nothing of it, if there is none or it cannot be one."""
        where, hint = f"${self.variable}", f"set the variable {self.variable}, or change `credential`"
        text = environment.get(self.variable, "")
        if self.file:
            path = Path(self.file).expanduser()
            where, hint = str(path), "put the credential on the first line of this file, or change `credential`"
            text = read_file(path, limit=_LIMIT_BYTES).decode("latin-1").partition("\n")[0]
        if not text.strip():
            raise InputError("there is no credential for the model endpoint", where=where, hint=hint)
        if _SECRET.fullmatch(text.strip()) is None:
            raise InputError("not a credential: expected 8 or more plain characters without blanks", where=where)
        return Credential(self.header, self.value.replace("{}", text.strip()), text.strip().encode())


@dataclass(frozen=True)
class Credential:
    """A header with its value, and the secret in it."""

    header: str
    value: str = field(repr=False)
    secret: bytes = field(repr=False)


class Redaction:
    """Puts stars in the place of a secret in a stream of blocks, however they are cut."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._held = b""

    def take(self, block: bytes) -> bytes:
        """Return what may go on: only what could be the beginning of the secret waits for the next block."""
        if not self._secret:
            return block
        data = self._clean(self._held + block)
        keep = next(
            (
                size
                for size in range(min(len(self._secret) - 1, len(data)), 0, -1)
                if self._secret.startswith(data[-size:])
            ),
            0,
        )
        cut = len(data) - keep
        self._held = data[cut:]
        return data[:cut]

    def end(self) -> bytes:
        """Return what still waits."""
        held, self._held = self._held, b""
        return held

    def _clean(self, data: bytes) -> bytes:
        return data.replace(self._secret, _STAR * len(self._secret))
