"""One reading of a gauge."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """What a gauge recorded: the height is in metres."""

    station: str
    time: str
    height: float


def parse_record(line: str) -> Reading:
    """Return the reading that a record (station, time, height, separated by tabs) describes."""
    fields = line.rstrip("\n").split("\t")
    if len(fields) != 3:
        raise ValueError(f"expected 3 fields, found {len(fields)}: {line!r}")
    station, time, height = fields
    return Reading(station, time, float(height))
