"""Every way in which the packager says no because it cannot go on; a negative answer is a value, not an error."""

from __future__ import annotations


class PackError(Exception):
    """A fault that is reported to a person: where, what is wrong, and what to do.

    `exit_code` is what the command line ends with. The text is `where: reason`, then the hint on its own line.
    """

    exit_code = 70

    def __init__(self, reason: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.where = where
        self.hint = hint

    @property
    def complaint(self) -> str:
        """The text without the hint, for where the reader has another way out."""
        return self.reason if self.where is None else f"{self.where}: {self.reason}"

    def __str__(self) -> str:
        return self.complaint if self.hint is None else f"{self.complaint}\nhint: {self.hint}"


class UsageError(PackError):
    """The command line asks for something that does not exist."""

    exit_code = 2


class InputError(PackError):
    """A recipe, lock, patch or task file is wrong."""

    exit_code = 3


class IntegrityError(PackError):
    """Bytes are not what their digest or size says."""

    exit_code = 4


class TrustError(PackError):
    """A signature, policy, grant or its freshness does not hold."""

    exit_code = 5


class WorldError(PackError):
    """Network, registry, engine or disk failed; `retryable` says whether the same call may succeed later."""

    exit_code = 6

    def __init__(
        self, reason: str, *, where: str | None = None, hint: str | None = None, retryable: bool = False
    ) -> None:
        super().__init__(reason, where=where, hint=hint)
        self.retryable = retryable
