"""What recipes and validations know of tasks beyond verdicts: kind, other ids, how the lists of a release differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class TaskNotes:
    """One task; `released` says by target in a sentence how the lists of a release differ from those that judge."""

    kind: str = ""
    aliases: tuple[str, ...] = ()
    released: Mapping[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the notes as JSON values."""
        return {"kind": self.kind, "aliases": list(self.aliases), "released": dict(self.released)}
