"""Questions about many readings."""

from collections.abc import Iterable

from tidewatch.reading import Reading


def highest(readings: Iterable[Reading]) -> Reading:
    """Return the highest reading, the earliest of them if there are several; ValueError without readings."""
    return max(sorted(readings, key=lambda reading: reading.time), key=lambda reading: reading.height)


def format_report(readings: Iterable[Reading]) -> str:
    """Return one line for each reading: station, time, height in metres with two decimals."""
    return "".join(f"{one.station} {one.time} {one.height:.2f} m\n" for one in readings)
