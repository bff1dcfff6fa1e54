"""Questions about many readings."""

from collections.abc import Iterable

from tidewatch.reading import Reading


def highest(readings: Iterable[Reading]) -> Reading:
    """Return the highest reading, the earliest of them if there are several; ValueError without readings."""
    return max(sorted(readings, key=lambda reading: reading.time), key=lambda reading: reading.height)
