"""One reading of a gauge."""

from dataclasses import dataclass

METRES = {"m": 1.0, "ft": 0.3048}


@dataclass(frozen=True)
class Reading:
    """What a gauge recorded: the height is in the gauge's own unit."""

    station: str
    time: str
    height: float
    unit: str = "m"

    @property
    def metres(self) -> float:
        """The height in metres."""
        return self.height * METRES[self.unit]


def parse_record(line: str) -> Reading:
    """Return the reading that a record describes: station, time, height, unit; old records end after the height."""
    fields = line.rstrip("\n").split("\t")
    if len(fields) not in {3, 4}:
        raise ValueError(f"expected 3 or 4 fields, found {len(fields)}: {line!r}")
    station, time, height, unit = (*fields, "m")[:4]
    if unit not in METRES:
        raise ValueError(f"unknown unit {unit!r}: {line!r}")
    return Reading(station, time, float(height), unit)
