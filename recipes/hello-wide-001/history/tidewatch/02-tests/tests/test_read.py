"""Reading records and raw files."""

import pytest

import tidewatch


def test_a_record_becomes_a_reading() -> None:
    reading = tidewatch.parse_record("HB1\t2024-03-01T06:00Z\t1.42\n")
    assert (reading.station, reading.time, reading.height) == ("HB1", "2024-03-01T06:00Z", 1.42)


@pytest.mark.parametrize("line", ["", "HB1\t2024-03-01T06:00Z", "HB1\t2024-03-01T06:00Z\thigh"])
def test_a_line_that_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        tidewatch.parse_record(line)


def test_a_raw_file_is_read_through_gauge(tmp_path) -> None:
    raw = tmp_path / "raw.txt"
    raw.write_text("2024-03-01T06:00Z 1.42\n2024-03-01T06:10Z 1.50\n")
    assert [reading.height for reading in tidewatch.read_station("HB1", raw)] == [1.42, 1.5]


def test_what_gauge_refuses_is_an_error(tmp_path) -> None:
    raw = tmp_path / "raw.txt"
    raw.write_text("2024-03-01T06:00Z\n")
    with pytest.raises(tidewatch.GaugeError, match="raw.txt:1: no reading"):
        tidewatch.read_station("HB1", raw)
