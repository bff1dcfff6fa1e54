"""Heights in more than one unit, as records and through gauge."""

import pytest

import tidewatch
from tidewatch import Reading


@pytest.fixture
def station(tmp_path):
    """Reads the raw lines of a station through gauge."""

    def read(name, *lines):
        raw = tmp_path / f"{name}.txt"
        raw.write_text("".join(f"{line}\n" for line in lines))
        return tidewatch.read_station(name, raw)

    return read


def test_a_record_in_feet_is_read():
    reading = tidewatch.parse_record("HB3\ta\t10\tft\n")
    assert (reading.height, reading.unit) == (10.0, "ft")
    assert reading.metres == pytest.approx(3.048)


def test_a_record_in_metres_is_read():
    reading = tidewatch.parse_record("HB1\ta\t1.42\tm\n")
    assert (reading.height, reading.unit, reading.metres) == (1.42, "m", 1.42)


def test_an_old_record_is_in_metres():
    reading = tidewatch.parse_record("HB1\ta\t1.42\n")
    assert (reading.height, reading.unit, reading.metres) == (1.42, "m", 1.42)


def test_a_reading_is_in_metres_unless_it_says_otherwise():
    assert Reading("HB1", "a", 2.0).unit == "m"


def test_feet_come_through_gauge(station):
    (reading,) = station("HB3", "a 10ft")
    assert (reading.height, reading.unit) == (10.0, "ft")


def test_units_of_one_file_may_differ(station):
    assert [reading.unit for reading in station("HB3", "a 1", "b 2ft", "c 3m")] == ["m", "ft", "m"]


def test_the_highest_is_found_in_metres():
    metres, feet = Reading("HB1", "a", 3.1, "m"), Reading("HB3", "a", 10.0, "ft")
    assert tidewatch.highest([metres, feet]) == metres


def test_the_highest_of_two_gauges(station):
    readings = [*station("HB1", "a 3.0", "b 3.04"), *station("HB3", "a 9.9ft", "b 10ft")]
    assert tidewatch.highest(readings).station == "HB3"


def test_the_report_is_in_metres(station):
    readings = [*station("HB1", "a 1.5"), *station("HB3", "a 10ft")]
    assert tidewatch.format_report(readings) == "HB1 a 1.50 m\nHB3 a 3.05 m\n"


def test_gauge_refuses_an_unknown_unit(station):
    with pytest.raises(tidewatch.GaugeError, match="HB3.txt:2: unknown unit: fathom"):
        station("HB3", "a 1", "b 2fathom")


# What has to stay as it is.


@pytest.mark.parametrize("line", ["HB1\ta\t1.0\tfathom", "HB1\ta\t1.0\tm\tmore", "HB1\ta\thigh\tm"])
def test_a_record_that_cannot_be_understood_is_refused(line):
    with pytest.raises(ValueError):
        tidewatch.parse_record(line)


def test_an_empty_raw_file_has_no_readings(station):
    assert station("HB1") == []


def test_bare_heights_still_come_through_gauge(station):
    assert [reading.height for reading in station("HB1", "a 1.42", "", "b -0.5")] == [1.42, -0.5]
