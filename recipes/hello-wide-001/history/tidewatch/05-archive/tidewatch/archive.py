"""Records that were kept."""

from pathlib import Path

from tidewatch.reading import Reading, parse_record


def read_archive(path: Path) -> list[Reading]:
    """Return the readings of a file of records."""
    return [parse_record(line) for line in path.read_text(encoding="utf-8").splitlines()]
