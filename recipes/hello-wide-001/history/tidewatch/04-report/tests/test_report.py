"""The report for people."""

from tidewatch import Reading, format_report


def test_a_report_has_a_line_for_each_reading() -> None:
    readings = [Reading("HB1", "a", 1.0), Reading("HB2", "b", 2.5)]
    assert format_report(readings) == "HB1 a 1.00 m\nHB2 b 2.50 m\n"
