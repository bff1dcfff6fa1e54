"""The verbs that look after the machine: doctor, ecosystems."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.api.place import Place
    from packager.lock.ecosystems.table import Line
    from packager.sandbox.probe import Capability


def doctor(place: Place) -> tuple[Capability, ...]:
    """Say what this machine can do, and how to get what is missing."""
    from packager.sandbox.probe import probe_machine

    there = next(path for path in (place.store_root, *place.store_root.parents) if path.is_dir())
    return tuple(probe_machine(there))


def ecosystems() -> tuple[Line, ...]:
    """Return the table of ecosystems: each package client, and what tests show of it."""
    from packager.lock.ecosystems.table import table_lines

    return table_lines()


def can_build(found: Sequence[Capability]) -> bool:
    """Tell whether the native engine can work here."""
    return all(row.ok for row in found if row.required)
