"""Asks gauge, which stands beside this repository, for the records of a raw file."""

import subprocess
from pathlib import Path

from tidewatch.reading import Reading, parse_record

GAUGE = Path(__file__).resolve().parents[2] / "gauge" / "bin" / "gauge"


class GaugeError(Exception):
    """gauge could not read a raw file; the text is what it said."""


def read_station(station: str, raw_file: Path) -> list[Reading]:
    """Return the readings of a station's raw file."""
    return [parse_record(line) for line in _gauge("emit", station, str(raw_file)).splitlines()]


def producer_module() -> str:
    """Return the path of the module that gauge loads."""
    return _gauge("where").strip()


def _gauge(*arguments: str) -> str:
    done = subprocess.run(["perl", str(GAUGE), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GaugeError(done.stderr.strip())
    return done.stdout
